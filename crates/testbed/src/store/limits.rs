//! Keys that jobs are limited by.

use std::collections::HashMap;

use super::super::envelope::key_of;
use super::super::limits::{Limit, Window};
use super::{Job, JobState, Store};

/// How many further jobs of each key a FETCH may hand out.
#[derive(Debug, Default)]
pub(super) struct Room(HashMap<String, u64>);

impl Room {
    /// Takes a place for a job; false when its key has none.
    pub(super) fn takes(&mut self, job: &Job) -> bool {
        let Some(left) = key_of(&job.envelope).and_then(|key| self.0.get_mut(key)) else { return true };
        let Some(less) = left.checked_sub(1) else { return false };
        *left = less;
        true
    }
}

impl Store {
    /// Counts a job that came against the rate of its key.
    pub(super) fn count_limit(&mut self, limit: Option<&Limit>, now_ms: u64) {
        let Some(limit) = limit else { return };
        let windows = &mut self.kept.limits;
        if windows.get(&limit.key).is_none() {
            windows.put(&limit.key, Window::new(limit.clone(), now_ms));
        }
        if let Some(window) = windows.get_mut(&limit.key) {
            window.count(limit, now_ms);
        }
    }

    /// The keys that are limited now, with the rest of their limits.
    pub(super) fn room(&self, now_ms: u64) -> Room {
        let limited = self.kept.limits.list().into_iter();
        let limited = limited.filter_map(|(key, window)| Some((key, window.concurrency(now_ms)?)));
        let mut room = Room(limited.collect());
        if !room.0.is_empty() {
            let active = self.jobs.values().filter(|job| job.state == JobState::Active);
            for job in active {
                if let Some(left) = key_of(&job.envelope).and_then(|key| room.0.get_mut(key)) {
                    *left = left.saturating_sub(1);
                }
            }
        }
        room
    }

    /// The document of a key.
    pub(crate) fn limit_document(&mut self, key: &str) -> Option<String> {
        let now_ms = self.settle();
        let count = |state: JobState| {
            let jobs = self.jobs.values().filter(|job| job.state == state && key_of(&job.envelope) == Some(key));
            u64::try_from(jobs.count()).unwrap_or(u64::MAX)
        };
        let window = self.kept.limits.get(key)?;
        Some(window.document(count(JobState::Active), count(JobState::Available), now_ms))
    }
}
