//! The share of failed requests over a sliding window, from totals that only grow.
//!
//! Requests are counted in sharded cells on the data threads; the control thread reads their sums now and then and hands
//! them in. A ring of buckets remembers the differences, so that the window slides without a timestamp per request.

use std::time::{Duration, Instant};

/// More buckets make the window's edge finer; ten keep it within a tenth.
const BUCKETS: usize = 10;

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    requests: u64,
    failures: u64,
}

/// A window over cumulative totals.
#[derive(Debug, Clone)]
pub(in crate::policy) struct RatioWindow {
    buckets: [Counts; BUCKETS],
    bucket_width: Duration,
    /// Where the newest bucket stands in the ring, and when it began.
    newest: usize,
    newest_since: Option<Instant>,
    /// The totals of the last reading; `None` before the first, which only sets the mark.
    totals: Option<Counts>,
}

impl RatioWindow {
    /// An empty window of this width.
    pub(in crate::policy) fn new(width: Duration) -> Self {
        let bucket_width = (width / 10).max(Duration::from_millis(1));
        Self { buckets: [Counts::default(); BUCKETS], bucket_width, newest: 0, newest_since: None, totals: None }
    }

    /// Takes a reading of the totals and returns the requests and failures within the window.
    pub(in crate::policy) fn read(&mut self, now: Instant, requests: u64, failures: u64) -> (u64, u64) {
        self.slide(now);
        if let (Some(last), Some(bucket)) = (self.totals, self.buckets.get_mut(self.newest)) {
            bucket.requests += requests.saturating_sub(last.requests);
            bucket.failures += failures.saturating_sub(last.failures);
        }
        self.totals = Some(Counts { requests, failures });
        self.buckets.iter().fold((0, 0), |(r, f), bucket| (r + bucket.requests, f + bucket.failures))
    }

    /// Whether the window held nothing when it was last read.
    pub(in crate::policy) fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.requests == 0 && bucket.failures == 0)
    }

    /// Whether the totals were read before and no request was counted since.
    pub(in crate::policy) fn has_read(&self, requests: u64) -> bool {
        self.totals.is_some_and(|totals| totals.requests == requests)
    }

    /// Forgets the counts and keeps the mark: a region that came back is not judged by earlier failures.
    pub(in crate::policy) fn clear(&mut self) {
        self.buckets = [Counts::default(); BUCKETS];
    }

    fn slide(&mut self, now: Instant) {
        let Some(since) = self.newest_since else {
            self.newest_since = Some(now);
            return;
        };
        let mut begin = since;
        for _ in 0..BUCKETS {
            if now.saturating_duration_since(begin) < self.bucket_width {
                self.newest_since = Some(begin);
                return;
            }
            begin += self.bucket_width;
            self.newest = (self.newest + 1) % BUCKETS;
            if let Some(bucket) = self.buckets.get_mut(self.newest) {
                *bucket = Counts::default();
            }
        }
        // The whole ring was passed: nothing of it is left, and its phase no longer matters.
        self.newest_since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Second since the start, totals read then, and what the window of ten seconds then holds.
    type Reading = (u64, (u64, u64), (u64, u64));

    fn check(readings: &[Reading]) {
        let start = Instant::now();
        let mut window = RatioWindow::new(Duration::from_secs(10));
        for &(second, (requests, failures), expected) in readings {
            let seen = window.read(start + Duration::from_secs(second), requests, failures);
            assert_eq!(seen, expected, "at {second} s");
        }
    }

    #[test]
    fn the_first_reading_only_sets_the_mark() {
        check(&[(0, (1_000, 900), (0, 0)), (1, (1_010, 905), (10, 5))]);
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        check(&[
            (0, (0, 0), (0, 0)),
            (1, (10, 10), (10, 10)),
            (9, (20, 10), (20, 10)),
            (11, (20, 10), (10, 0)),
            (60, (20, 10), (0, 0)),
            (61, (21, 11), (1, 1)),
        ]);
    }

    #[test]
    fn totals_that_shrink_count_as_nothing_new() {
        check(&[(0, (100, 10), (0, 0)), (1, (5, 1), (0, 0)), (2, (6, 2), (1, 1))]);
    }
}
