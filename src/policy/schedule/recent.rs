//! The number of jobs in the last interval.

use std::time::{Duration, Instant};

/// Parts of an interval: the count covers one interval and at most one part more.
const PARTS: u32 = 16;

/// A count over a sliding window, in parts of it.
#[derive(Debug, Clone)]
pub(super) struct Recent {
    part: Duration,
    /// When the newest part began.
    began: Instant,
    /// The counts of the parts, the newest at `newest`.
    counts: [u64; PARTS as usize + 1],
    newest: usize,
}

impl Recent {
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        let part = (interval / PARTS).max(Duration::from_millis(1));
        Self { part, began: now, counts: [0; PARTS as usize + 1], newest: 0 }
    }

    pub(super) fn add(&mut self, count: u64, now: Instant) {
        self.move_to(now);
        let newest = &mut self.counts[self.newest];
        *newest = newest.saturating_add(count);
    }

    pub(super) fn sum(&mut self, now: Instant) -> u64 {
        self.move_to(now);
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn move_to(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.began);
        if since < self.part {
            return;
        }
        let passed = since.as_nanos() / self.part.as_nanos();
        for _ in 0..passed.min(self.counts.len() as u128) {
            self.newest = (self.newest + 1) % self.counts.len();
            self.counts[self.newest] = 0;
        }
        match u32::try_from(passed) {
            Ok(passed) => self.began += self.part * passed,
            Err(_) => self.began = now,
        }
    }
}
