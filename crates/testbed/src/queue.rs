//! One queue: its next job, and the number of jobs in each state.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::bounds::Bound;
use super::state::JobState;

/// Figures of one queue, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts([u64; JobState::ALL.len()]);

impl Counts {
    pub(super) const fn of(&self, state: JobState) -> u64 {
        self.0[state as usize]
    }

    pub(super) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) const fn of_mut(&mut self, state: JobState) -> &mut u64 {
        &mut self.0[state as usize]
    }
}

/// One queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) paused: bool,
    /// The ids of available jobs by [`Job::rank`](super::job::Job::rank).
    pub(super) ready: BTreeMap<(Reverse<i64>, u64), String>,
    pub(super) counts: Counts,
    pub(super) pace: Option<Pace>,
    pub(super) bound: Option<Bound>,
}

/// How fast a queue hands out jobs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The shortest time from one job to the next.
    pub(super) step_ms: u64,
    /// When the last job was handed out.
    pub(super) last_ms: Option<u64>,
}

impl Pace {
    /// Whether a job may be handed out.
    pub(super) fn allows(self, now: u64) -> bool {
        self.last_ms.is_none_or(|last_ms| now >= last_ms.saturating_add(self.step_ms))
    }
}

/// A queue as callers see it.
#[derive(Debug, Clone)]
pub(super) struct QueueView {
    pub(super) name: String,
    pub(super) paused: bool,
    pub(super) counts: Counts,
}
