//! The journal's time: monotonic within a run, and near the wall clock's count.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::base::Clock;
use crate::outcome::Moment;

/// A wall clock that is this far ahead of the last row at a restart may be wrong: more than this is not believed to have passed, so that
/// nothing is forgotten too early. Units: milliseconds.
const AWAY_MAX_MS: u64 = 60 * 60 * 1_000;

/// Counts on from the wall clock's count at the start, by the monotonic clock.
#[derive(Debug)]
pub(super) struct JournalClock {
    started: Instant,
    /// The count at the start. Units: milliseconds.
    base_ms: AtomicU64,
}

impl JournalClock {
    pub(super) fn new(clock: &Clock) -> Self {
        Self { started: clock.now(), base_ms: AtomicU64::new(clock.unix_ms()) }
    }

    pub(super) fn now(&self, clock: &Clock) -> Moment {
        self.at(clock.now())
    }

    /// The count at a reading of the same clock.
    pub(super) fn at(&self, now: Instant) -> Moment {
        let passed: Duration = now.saturating_duration_since(self.started);
        Moment(self.base_ms.load(Relaxed)).after(passed)
    }

    /// Goes on from the last moment that a file holds: never before it, and not long after it.
    pub(super) fn go_on_from(&self, last: Moment) {
        let base = self.base_ms.load(Relaxed).clamp(last.0, last.0.saturating_add(AWAY_MAX_MS));
        self.base_ms.store(base, Relaxed);
    }
}
