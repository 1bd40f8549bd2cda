//! The connections of one region on one thread, and those of them that are idle.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use tokio::sync::Notify;

use super::connection::{Http1, Http2};
use super::limits::PoolLimits;
use super::meters::PoolMeters;
use super::turns::Turns;

/// A connection for a call that found none.
pub(super) enum Fresh {
    Http1(Http1),
    Http2(Http2),
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) limits: PoolLimits,
    pub(super) meters: PoolMeters,
    pub(super) idle: RefCell<Vec<Http1>>,
    pub(super) http2: RefCell<Option<Http2>>,
    /// The region chose HTTP/2 last time, so that concurrent requests wait for one connection instead of each dialling.
    pub(super) prefers_http2: Cell<bool>,
    pub(super) dialling: Cell<bool>,
    pub(super) dialled: Notify,
    /// The turns at connecting.
    pub(super) turns: Turns,
    /// Connections made so far.
    pub(super) made: Cell<u64>,
    /// Whether a connection is being made that no request waits for.
    pub(super) warming: Cell<bool>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.meters.idle.sub(gauge_of(self.idle.get_mut().len()));
    }
}

impl Shared {
    pub(super) fn new(limits: PoolLimits, meters: PoolMeters) -> Self {
        Self {
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
        }
    }

    pub(super) fn usable_http2(&self, identity: u64, now: Instant) -> Option<Http2> {
        let mut slot = self.http2.borrow_mut();
        let usable =
            slot.as_ref().filter(|http2| http2.identity == identity && http2.is_open() && !http2.is_expired(now));
        let found = usable.cloned();
        if found.is_none() {
            *slot = None;
        }
        found
    }

    pub(super) async fn pop_idle(&self, identity: u64, now: Instant) -> Option<Http1> {
        loop {
            let mut http1 = self.idle.borrow_mut().pop()?;
            self.meters.idle.dec();
            let usable = http1.is_of(identity) && !http1.is_expired(now);
            if usable && (http1.is_ready() || http1.becomes_ready().await) {
                return Some(http1);
            }
        }
    }

    pub(super) fn give_back(&self, mut http1: Http1, now: Instant) {
        let mut idle = self.idle.borrow_mut();
        if http1.is_open() && !http1.is_too_old(now) && idle.len() < self.limits.idle_max {
            http1.rest(now, &self.limits);
            idle.push(http1);
            self.meters.idle.inc();
        }
    }
}

pub(super) fn gauge_of(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
