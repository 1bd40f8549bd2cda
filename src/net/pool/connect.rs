//! How a pool connects: in turn, and once for all calls where the region speaks HTTP/2.

use std::time::Instant;

use super::Pool;
use super::busy::Busy;
use super::connection::{Http1, Http2, lifetime};
use super::limits::PoolLimits;
use super::shared::{Fresh, Shared};
use super::turns::Turn;
use crate::base::{SystemTime, Time as _};
use crate::net::dial::{DialError, Endpoint, dial};

impl Pool {
    /// Connects within `connect_timeout`, also when another call dials: a call that waited for the connection of
    /// another must still know in time that it was not sent. The wait for a turn does not count as the region's time.
    pub(super) async fn connect(&self, endpoint: &Endpoint<'_>, is_streamed: bool) -> Result<Fresh, DialError> {
        let turn = self.turn(endpoint, is_streamed).await?;
        // Others have connected meanwhile, and some of them are done.
        if turn.has_waited {
            let now = Instant::now();
            if let Some(http2) = self.0.usable_http2(endpoint.identity, now) {
                return Ok(Fresh::Http2(http2));
            }
            if let Some(http1) = self.0.pop_idle(endpoint.identity, now).await {
                return Ok(Fresh::Http1(http1));
            }
        }
        let connecting = self.connect_in_turn(endpoint);
        tokio::time::timeout(endpoint.connect_timeout, connecting).await.map_err(|_| DialError::Timeout)?
    }

    /// A turn at connecting, for a call that is streamed or for any other.
    ///
    /// Errors: [`DialError::Crowded`] when none came within `connect_timeout`.
    /// Cancel: the turn goes to the next one.
    pub async fn turn(&self, endpoint: &Endpoint<'_>, is_streamed: bool) -> Result<Turn<'_>, DialError> {
        let turn = self.0.turns.next(is_streamed);
        tokio::time::timeout(endpoint.connect_timeout, turn).await.map_err(|_| DialError::Crowded)
    }

    /// Connects, or waits for the HTTP/2 connection that another call makes.
    async fn connect_in_turn(&self, endpoint: &Endpoint<'_>) -> Result<Fresh, DialError> {
        if self.0.prefers_http2.get() {
            // One dials, the others wait for it; if it failed, the next waiter dials in turn.
            while self.0.dialling.get() {
                self.0.dialled.notified().await;
                if let Some(http2) = self.0.usable_http2(endpoint.identity, Instant::now()) {
                    return Ok(Fresh::Http2(http2));
                }
            }
        }
        let _dialling = Dialling::begin(&self.0);
        let fresh = self.connect_now(endpoint).await;
        self.0.meters.count(fresh.as_ref().map(drop));
        fresh
    }

    async fn connect_now(&self, endpoint: &Endpoint<'_>) -> Result<Fresh, DialError> {
        let (began, began_ms) = (Instant::now(), SystemTime.unix_ms());
        let stream = dial(endpoint, true).await?;
        endpoint.usual.took(began.elapsed());
        self.0.made.set(self.0.made.get() + 1);
        let expiry = stream.server_expiry();
        self.0.meters.saw(expiry);
        let lifetime = lifetime(self.0.limits.lifetime, began_ms, expiry, endpoint.tls);
        let limits = &PoolLimits { lifetime, ..self.0.limits };
        let is_http2 = stream.is_http2();
        self.0.prefers_http2.set(is_http2);
        if !is_http2 {
            return Ok(Fresh::Http1(Http1::start(stream, limits, endpoint.identity).await?));
        }
        let http2 = Http2::start(stream, limits, endpoint.identity, Busy::count(&self.0.meters.busy)).await?;
        self.0.http2.borrow_mut().get_or_insert_with(|| http2.clone());
        Ok(Fresh::Http2(http2))
    }
}

/// Marks that this thread is connecting, and wakes the waiters when that ends, however it ends.
struct Dialling<'a>(&'a Shared);

impl<'a> Dialling<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.dialling.set(true);
        Self(shared)
    }
}

impl Drop for Dialling<'_> {
    fn drop(&mut self) {
        self.0.dialling.set(false);
        self.0.dialled.notify_waiters();
    }
}
