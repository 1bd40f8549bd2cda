//! Whether jobs are refused for lack of a region: the reason to ask it for its health before its cooldown is over.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::base::Clock;

/// A refused job counts this long: the default cooldown and half of it, the longest `Retry-After` of its client, so
/// that a client that obeys finds the decision.
const FELT_FOR: Duration = Duration::from_secs(45);

/// When a job was last refused that a region could have taken. Data threads note it, the prober reads it.
#[derive(Debug)]
pub(super) struct Lack {
    began: Instant,
    /// Milliseconds since `began`, and one; 0 before the first.
    last: AtomicU64,
    begins: Notify,
}

impl Lack {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { began: clock.now(), last: AtomicU64::new(0), begins: Notify::new() }
    }

    /// Notes a refusal; in a storm of them this costs an atomic store.
    pub(super) fn note(&self, now: Instant) {
        let before = self.last.swap(self.since_began(now), Relaxed);
        if !self.is_within(before, now) {
            self.begins.notify_one();
        }
    }

    pub(super) fn is_felt(&self, now: Instant) -> bool {
        self.is_within(self.last.load(Relaxed), now)
    }

    pub(super) async fn begins(&self) {
        self.begins.notified().await;
    }

    fn since_began(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    fn is_within(&self, last: u64, now: Instant) -> bool {
        last > 0 && u128::from(self.since_began(now).saturating_sub(last)) <= FELT_FOR.as_millis()
    }
}
