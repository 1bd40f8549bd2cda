//! How many jobs came, were done and failed: second by second for figures "per minute", minute by minute for the
//! history.

use std::collections::BTreeMap;

use super::job::Job;
use super::state::JobState;

/// The age after which seconds are forgotten. Units: seconds.
const RECENT_S: u64 = 60;

/// How many rows of a minute and a queue are kept: a day of 13 queues that are never idle.
const ROWS_MAX: usize = 20_000;

/// The counts of one span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) enqueued: u64,
    pub(super) processed: u64,
    pub(super) failed: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.enqueued += other.enqueued;
        self.processed += other.processed;
        self.failed += other.failed;
    }
}

/// The counts by time.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// By second since the Unix epoch.
    seconds: BTreeMap<u64, Tally>,
    /// By minute since the Unix epoch, and queue.
    minutes: BTreeMap<(u64, String), Tally>,
}

impl Flow {
    /// Counts a job that was stored, when `was` is absent, or that changed its state.
    pub(super) fn moved(&mut self, was: Option<JobState>, job: &Job, at_ms: u64) {
        let mut one = Tally::default();
        match (was, job.state) {
            (None, _) => one.enqueued = 1,
            (Some(JobState::Active), JobState::Completed) => one.processed = 1,
            (Some(JobState::Active), JobState::Retryable | JobState::Discarded) => one.failed = 1,
            _ => return,
        }
        let second = at_ms / 1_000;
        self.seconds.entry(second).or_default().add(one);
        self.seconds = self.seconds.split_off(&second.saturating_sub(RECENT_S));
        self.minutes.entry((second / 60, job.envelope.queue.clone())).or_default().add(one);
        if self.minutes.len() > ROWS_MAX {
            self.minutes.pop_first();
        }
    }

    /// The counts of the last minute.
    pub(super) fn per_minute(&self, now_ms: u64) -> Tally {
        let mut sum = Tally::default();
        let since = (now_ms / 1_000).saturating_sub(RECENT_S - 1);
        self.seconds.range(since..).for_each(|(_, tally)| sum.add(*tally));
        sum
    }

    /// The counts of these minutes since the Unix epoch, in one queue or in all.
    pub(super) fn between(&self, minutes: std::ops::Range<u64>, queue: Option<&str>) -> Tally {
        let mut sum = Tally::default();
        let rows = self.minutes.range((minutes.start, String::new())..(minutes.end, String::new()));
        let wanted = rows.filter(|((_, name), _)| queue.is_none_or(|queue| queue == name));
        wanted.for_each(|(_, tally)| sum.add(*tally));
        sum
    }
}
