//! The event streams of a region, with all that reading them needs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use tokio::sync::Semaphore;

use super::super::event_counts::EventCounts;
use super::super::index::Index;
use super::super::state::Hub;
use super::super::target::Regions;
use super::super::views::Views;
use super::taken_step::Times;
use crate::base::RegionId;
use crate::policy::Glob;

/// The event streams of a region, and all that reading them needs.
#[derive(Debug)]
pub(super) struct Source<'h> {
    pub(super) hub: &'h Hub,
    pub(super) views: &'h Views,
    pub(super) region: &'h RegionId,
    pub(super) asks: Regions,
    pub(super) counts: &'h EventCounts,
    /// The queues in which nothing but its meta binds a job.
    pub(super) unbound: Vec<Glob>,
    /// One place: for the list that is read.
    pub(super) lists: Semaphore,
    pub(super) index: &'h Index,
    /// Until when no event of a queue is missing, by its name: also where this hub reads again behind another one. Units: milliseconds since
    /// the Unix epoch. At most one for each stream.
    pub(super) whole_until: RefCell<BTreeMap<String, u64>>,
}

impl Source<'_> {
    pub(super) fn now(&self) -> Instant {
        self.hub.clock.now()
    }

    /// The bounds of times at this moment.
    pub(super) fn times(&self) -> Times {
        let settings = &self.index.settings;
        Times { now_ms: self.hub.clock.unix_ms(), max_skew: settings.max_skew, retention: settings.retention }
    }

    pub(super) fn note_gap(&self) {
        self.counts.gaps.set(self.counts.gaps.get() + 1);
    }

    pub(super) fn show_waiting(&self, count: usize, oldest: Option<Instant>) {
        self.counts.waiting.set((count, oldest));
    }
}
