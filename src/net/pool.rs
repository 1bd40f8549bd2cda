//! A region's connections on one worker thread, the most recently used first.
//!
//! Each worker thread has a pool a region, so that nothing here is shared between threads or locked. HTTP/1.1
//! connections carry one request at a time and wait in a stack; an HTTP/2 connection carries all requests of its
//! thread. The pool never retries a request that may have been sent: a request goes to another connection only while
//! the first one gave it back unsent.

mod busy;
mod connect;
mod connection;
mod lease;
mod limits;
mod meters;
mod shared;
mod turns;
mod upgrade;
mod warm;

use std::io;
use std::rc::Rc;
use std::time::Instant;

use http::{Request, Response};

use super::body::Outgoing;
use super::dial::{DialError, Endpoint};
use super::framing::Violation;
use crate::base::apart;
use connection::{Failed, Http1, within};
use lease::Lease;
pub use lease::{Cut, RegionBody};
pub use limits::PoolLimits;
pub use meters::PoolMeters;
use shared::{Fresh, Shared, gauge_of};
pub use turns::Turn;
pub use upgrade::upgrade;

/// Why a request has no answer.
#[derive(Debug)]
pub enum SendError {
    /// No byte of the request left this process, or it is proved that the region did not look at it.
    NotSent(NotSent),
    /// The request, or a part of it, may have reached the region.
    Unknown(hyper::Error),
    /// The same, and the received bytes could be read in two ways, or were not HTTP.
    Broken(Violation),
    /// The same, and no answer came until the deadline.
    TimedOut,
}

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// No connection came about.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// No connection had come about when another region was ready for the request.
    #[error("another region was connected first")]
    PassedOver,
    /// The connection was closed before the request was written.
    #[error("the connection closed before the request was sent")]
    Closed,
    /// The region said over HTTP/2 that it did not look at the request.
    #[error("the region refused the stream")]
    RefusedStream,
}

impl NotSent {
    /// Whether it is for want of something on this machine, and so says nothing of the region.
    #[must_use]
    pub const fn is_own(&self) -> bool {
        matches!(self, Self::Dial(error) if error.is_own())
    }

    /// The closed label of this reason, for metrics and events.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Dial(error) => error.label(),
            Self::PassedOver => "passed_over",
            Self::Closed => "closed",
            Self::RefusedStream => "refused_stream",
        }
    }
}

impl From<Failed> for SendError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::NotSent(_) => Self::NotSent(NotSent::Closed),
            Failed::Refused => Self::NotSent(NotSent::RefusedStream),
            Failed::Rejected(error) => Self::NotSent(NotSent::Dial(DialError::Tls(io::Error::other(error)))),
            Failed::Unknown(error) => Self::Unknown(error),
            Failed::Broken(violation) => Self::Broken(violation),
            Failed::TimedOut => Self::TimedOut,
        }
    }
}

/// The connections of one region on one thread. Cheap to clone within the thread.
#[derive(Debug, Clone)]
pub struct Pool(Rc<Shared>);

impl Pool {
    /// An empty pool.
    #[must_use]
    pub fn new(limits: PoolLimits, meters: PoolMeters) -> Self {
        Self(Rc::new(Shared::new(limits, meters)))
    }

    /// Sends a request on a pooled connection, or on a new one, and returns the answer's head with its body streaming. `now` is
    /// the time, which callers have at hand; `deadline` is for the head, where there is one, and connecting has half of the time until then.
    ///
    /// Shape: the request is there, and taken out when it is sent, because by value it would be copied from one future to the next.
    /// Its URI is path and query only, and it has a `Host`; HTTP/2 gets both as pseudo headers.
    /// Errors: [`SendError::NotSent`] only with proof.
    /// Cancel: an HTTP/1.1 connection with a request on it is closed, an HTTP/2 stream is reset.
    pub async fn send(
        &self,
        endpoint: &Endpoint<'_>,
        request: &mut Option<Request<Outgoing>>,
        now: Instant,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Response<RegionBody>, SendError> {
        // Each turn uses up a pooled connection, and the bound holds even if one should claim to be open for ever.
        for _ in 0..self.0.limits.idle_max.saturating_add(2) {
            let result = if let Some(http2) = self.0.usable_http2(endpoint.identity, now) {
                let result = apart(|| http2.send(request, endpoint.authority, deadline)).await;
                let result = result.map(|response| response.map(RegionBody::shared));
                if matches!(result, Err(Failed::NotSent(_))) {
                    *self.0.http2.borrow_mut() = None;
                }
                result
            } else if let Some(http1) = self.0.pop_idle(endpoint.identity, now).await {
                self.send_on(http1, request, deadline).await
            } else {
                break;
            };
            match result {
                Ok(response) => return Ok(response),
                Err(Failed::NotSent(Some(unsent))) => *request = Some(*unsent),
                Err(failed) => return Err(failed.into()),
            }
        }
        // A handshake needs far more room than a request on a connection that is there.
        apart(|| self.send_on_new(endpoint, request, now, deadline)).await
    }

    /// Closes connections that were idle for too long, lived for too long or were closed by the region. Called every
    /// few seconds. Connections of another identity than this one are closed, too.
    pub fn sweep(&self, identity: u64) {
        let now = Instant::now();
        let mut idle = self.0.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|http1| http1.is_of(identity) && http1.is_open() && !http1.is_expired(now));
        self.0.meters.idle.sub(gauge_of(before - idle.len()));
        let mut http2 = self.0.http2.borrow_mut();
        if http2.as_ref().is_some_and(|http2| http2.identity != identity || !http2.is_open() || http2.is_expired(now)) {
            *http2 = None;
        }
    }

    /// Closes every idle connection: after a region was marked down, or when its credentials changed.
    pub fn retire(&self) {
        let closed = std::mem::take(&mut *self.0.idle.borrow_mut()).len();
        self.0.meters.idle.sub(gauge_of(closed));
        *self.0.http2.borrow_mut() = None;
    }

    async fn send_on_new(
        &self,
        endpoint: &Endpoint<'_>,
        request: &mut Option<Request<Outgoing>>,
        now: Instant,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Response<RegionBody>, SendError> {
        // Nothing is written before there is a connection, so that a deadline which passes until then leaves nothing unknown.
        let connected = within(deadline, self.connect_first(endpoint, now, deadline)).await;
        let connected = connected.unwrap_or(Err(NotSent::Dial(DialError::Timeout)));
        let result = match connected.map_err(SendError::NotSent)? {
            Fresh::Http1(http1) => self.send_on(http1, request, deadline).await,
            Fresh::Http2(http2) => {
                let response = http2.send(request, endpoint.authority, deadline).await;
                response.map(|response| response.map(RegionBody::shared))
            }
        };
        result.map_err(Into::into)
    }

    async fn send_on(
        &self,
        http1: Http1,
        request: &mut Option<Request<Outgoing>>,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Response<RegionBody>, Failed> {
        let mut lease = Lease::begin(http1, Rc::clone(&self.0));
        // Never absent: it has just begun.
        let Some(http1) = lease.connection() else { return Err(Failed::NotSent(None)) };
        let response = http1.send(request, deadline).await?;
        Ok(response.map(|incoming| RegionBody::leased(incoming, lease)))
    }
}
