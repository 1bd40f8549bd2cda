//! Tries of a job that fail although its region is well.

use std::time::{Duration, Instant};

/// Tries of a job, since the start, that a region which is well has ended with an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    count: u8,
    first: Option<Instant>,
}

/// So many tries, over so long, are the job's own fault: a region that comes back, or its database, fails for minutes.
const FAILURES_MAX: (u8, Duration) = (5, Duration::from_secs(10 * 60));

impl Failures {
    /// Notes one.
    pub fn note(&mut self, now: Instant) {
        self.count = self.count.saturating_add(1);
        self.first.get_or_insert(now);
    }

    /// Whether further tries would be in vain.
    #[must_use]
    pub fn are_final(self, now: Instant) -> bool {
        let last = self.first.map_or(Duration::ZERO, |first| now.saturating_duration_since(first));
        self.count >= FAILURES_MAX.0 && last >= FAILURES_MAX.1
    }
}
