//! Connections that are made before a request needs them, or in a race with those to other regions.

use std::time::{Duration, Instant};

use super::connection::Http1;
use super::shared::{Fresh, Shared};
use super::{NotSent, Pool};
use crate::net::dial::Endpoint;

impl Pool {
    /// Whether a request that is sent now finds a connection, as far as is known at once.
    #[must_use]
    pub fn has_connection(&self, identity: u64, now: Instant) -> bool {
        let usable = |http1: &Http1| http1.is_of(identity) && !http1.is_expired(now) && http1.is_open();
        self.0.usable_http2(identity, now).is_some() || self.0.idle.borrow().iter().any(usable)
    }

    /// Whether a request that is sent until then finds a connection, as far as is known at once.
    #[must_use]
    pub fn has_connection_until(&self, identity: u64, until: Instant) -> bool {
        self.0.limits.idle_max == 0 || self.has_connection(identity, until)
    }

    /// How many connections were made so far.
    #[must_use]
    pub fn connections_made(&self) -> u64 {
        self.0.made.get()
    }

    /// Makes a connection that a later request finds; true when there is one more. Where that is under way already, waits for it.
    ///
    /// Cancel: the connection is not made.
    pub async fn warm(&self, endpoint: &Endpoint<'_>) -> bool {
        let made = self.0.made.get();
        if self.0.warming.replace(true) {
            while self.0.warming.get() {
                self.0.dialled.notified().await;
            }
            return self.0.made.get() > made;
        }
        let _warming = Warming(&self.0);
        let fresh = self.connect(endpoint, false).await;
        if let Ok(Fresh::Http1(http1)) = fresh {
            self.0.give_back(http1, Instant::now());
        }
        self.0.made.get() > made
    }

    /// Connects, unless the request can go elsewhere before. A call that is streamed has no deadline; a connection that cannot be made
    /// within half of a call's time is known not to have carried it.
    pub(super) async fn connect_first(
        &self,
        endpoint: &Endpoint<'_>,
        now: Instant,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Fresh, NotSent> {
        let is_streamed = deadline.is_none();
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.into_std().saturating_duration_since(now));
        let endpoint = &Endpoint { connect_timeout: endpoint.connect_timeout.min(left / 2), ..*endpoint };
        let Some(elsewhere) = endpoint.elsewhere else { return Ok(self.connect(endpoint, is_streamed).await?) };
        tokio::select! {
            biased;
            () = elsewhere.is_ready() => Err(NotSent::PassedOver),
            connected = self.connect(endpoint, is_streamed) => Ok(connected?),
        }
    }
}

/// Marks that a connection is made which no request waits for, and wakes the waiters when that ends, however it ends.
struct Warming<'a>(&'a Shared);

impl Drop for Warming<'_> {
    fn drop(&mut self) {
        self.0.warming.set(false);
        self.0.dialled.notify_waiters();
    }
}
