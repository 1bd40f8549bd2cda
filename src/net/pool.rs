//! A region's connections on one worker thread, the most recently used first.
//!
//! Each worker thread has a pool a region, so nothing here is shared between threads and nothing is locked. HTTP/1.1
//! connections carry one request at a time and wait in a stack; an HTTP/2 connection carries all requests of its thread.
//! The pool never retries what may have been sent: a request goes to another connection only while the first one gave it
//! back unsent.

mod connection;
mod lease;
mod turns;
mod upgrade;
mod warm;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::{Request, Response};
use prometheus::{Gauge, IntCounter, IntGauge};
use tokio::sync::Notify;

use super::body::Outgoing;
use super::dial::{DialError, Endpoint, dial};
use super::framing::Violation;
use crate::base::{SystemTime, Time as _, apart};
use connection::{Failed, Http1, Http2, lifetime};
pub use lease::{Cut, RegionBody};
pub use turns::Turn;
use turns::Turns;
pub use upgrade::upgrade;

/// The least that the buffer of a connection may hold: regions that fill it are as many as there are calls.
const BUFFER_BYTES: usize = 64 * 1024;

/// Bounds of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    /// Idle connections kept; further ones are closed.
    pub idle_max: usize,
    /// How long one is kept idle.
    pub idle_timeout: Duration,
    /// How long one lives at most.
    pub lifetime: Duration,
    /// A response head, in bytes.
    pub head_bytes: usize,
    /// Header lines of a response.
    pub headers: usize,
}

impl PoolLimits {
    /// What a connection may hold of what a region sends and nobody has read: room for a head, and for the pieces of a stream.
    pub(super) fn buffer_bytes(&self) -> usize {
        BUFFER_BYTES.max(self.head_bytes.saturating_mul(2))
    }
}

/// What a pool reports.
#[derive(Debug, Clone)]
pub struct PoolMeters {
    /// Idle connections.
    pub idle: IntGauge,
    /// Connections with a request on them, and every HTTP/2 connection.
    pub busy: IntGauge,
    /// Connections made.
    pub established: IntCounter,
    /// Connections not made, because the name has no address.
    pub dns: IntCounter,
    /// Connections not made, because no address accepted.
    pub refused: IntCounter,
    /// Connections not made, because the TLS handshake failed.
    pub tls: IntCounter,
    /// Connections not made in time.
    pub timeout: IntCounter,
    /// When the certificate that the server showed last ends. Units: seconds since the Unix epoch.
    pub server_expiry: Gauge,
}

impl PoolMeters {
    fn count(&self, made: Result<(), &DialError>) {
        let counter = match made {
            Ok(()) => &self.established,
            Err(DialError::NoAddress) => &self.dns,
            Err(DialError::Connect(_) | DialError::Own(_) | DialError::Crowded) => &self.refused,
            Err(DialError::Tls(_)) => &self.tls,
            Err(DialError::Timeout) => &self.timeout,
        };
        counter.inc();
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^53")]
    fn saw(&self, expiry: Option<i64>) {
        if let Some(expiry) = expiry {
            self.server_expiry.set(expiry as f64);
        }
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub enum SendError {
    /// No byte of the request left this process, or it is proved that the region did not look at it.
    NotSent(NotSent),
    /// The request, or a part of it, may have reached the region.
    Unknown(hyper::Error),
    /// The same, and what came could be read in two ways, or was no HTTP.
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

#[derive(Debug)]
struct Shared {
    limits: PoolLimits,
    meters: PoolMeters,
    idle: RefCell<Vec<Http1>>,
    http2: RefCell<Option<Http2>>,
    /// The region chose HTTP/2 last time, so that concurrent requests wait for one connection instead of each dialling.
    prefers_http2: Cell<bool>,
    dialling: Cell<bool>,
    dialled: Notify,
    /// Who may connect now.
    turns: Turns,
    /// Connections made so far.
    made: Cell<u64>,
    /// Whether a connection is being made that no request waits for.
    warming: Cell<bool>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.meters.idle.sub(gauge_of(self.idle.get_mut().len()));
    }
}

impl Pool {
    /// An empty pool.
    #[must_use]
    pub fn new(limits: PoolLimits, meters: PoolMeters) -> Self {
        Self(Rc::new(Shared {
            limits,
            meters,
            idle: RefCell::default(),
            http2: RefCell::default(),
            prefers_http2: Cell::new(false),
            dialling: Cell::new(false),
            dialled: Notify::new(),
            turns: Turns::default(),
            made: Cell::new(0),
            warming: Cell::new(false),
        }))
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
            let result = if let Some(http2) = self.usable_http2(endpoint.identity, now) {
                let result = apart(|| http2.send(request, endpoint.authority, deadline)).await;
                if matches!(result, Err(Failed::NotSent(_))) {
                    *self.0.http2.borrow_mut() = None;
                }
                result
            } else if let Some(http1) = self.pop_idle(endpoint.identity, now).await {
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

    /// Closes what was idle for too long, lived for too long or was closed by the region. Called every few seconds.
    /// Connections of another identity than this one go, too.
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
            Fresh::Http2(http2) => http2.send(request, endpoint.authority, deadline).await,
        };
        result.map_err(Into::into)
    }

    async fn send_on(
        &self,
        http1: Http1,
        request: &mut Option<Request<Outgoing>>,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Response<RegionBody>, Failed> {
        let mut lease = lease::Lease::begin(http1, self.clone());
        // Never absent: it has just begun.
        let Some(http1) = lease.connection() else { return Err(Failed::NotSent(None)) };
        let response = http1.send(request, deadline).await?;
        Ok(response.map(|incoming| RegionBody::leased(incoming, lease)))
    }

    fn usable_http2(&self, identity: u64, now: Instant) -> Option<Http2> {
        let mut slot = self.0.http2.borrow_mut();
        let usable =
            slot.as_ref().filter(|http2| http2.identity == identity && http2.is_open() && !http2.is_expired(now));
        let found = usable.cloned();
        if found.is_none() {
            *slot = None;
        }
        found
    }

    async fn pop_idle(&self, identity: u64, now: Instant) -> Option<Http1> {
        loop {
            let mut http1 = self.0.idle.borrow_mut().pop()?;
            self.0.meters.idle.dec();
            let usable = http1.is_of(identity) && !http1.is_expired(now);
            if usable && (http1.is_ready() || http1.becomes_ready().await) {
                return Some(http1);
            }
        }
    }

    fn give_back(&self, mut http1: Http1, now: Instant) {
        let mut idle = self.0.idle.borrow_mut();
        if http1.is_open() && !http1.is_too_old(now) && idle.len() < self.0.limits.idle_max {
            http1.rest(now, &self.0.limits);
            idle.push(http1);
            self.0.meters.idle.inc();
        }
    }

    /// Connects, or waits for the HTTP/2 connection that another call makes.
    async fn connect_in_turn(&self, endpoint: &Endpoint<'_>) -> Result<Fresh, DialError> {
        if self.0.prefers_http2.get() {
            // One dials, the others wait for it; if it failed, the next waiter dials in turn.
            while self.0.dialling.get() {
                self.0.dialled.notified().await;
                if let Some(http2) = self.usable_http2(endpoint.identity, Instant::now()) {
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
        let http2 = Http2::start(stream, limits, endpoint.identity, lease::Busy::count(&self.0.meters.busy)).await?;
        self.0.http2.borrow_mut().get_or_insert_with(|| http2.clone());
        Ok(Fresh::Http2(http2))
    }
}

/// What comes of it in time.
async fn within<F: Future>(deadline: Option<tokio::time::Instant>, work: F) -> Option<F::Output> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

enum Fresh {
    Http1(Http1),
    Http2(Http2),
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

fn gauge_of(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
