//! The bounds of orders about single jobs, the regions that they are carried out in, and their figures.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use super::name::random_name;
use super::record::ReplayStep;
use super::target::Regions;
use crate::base::words;

/// The longest body of an order for many jobs: 10 000 ids of a hundred bytes. Units: bytes.
pub(super) const REPLAY_BYTES_MAX: usize = 1024 * 1024;
/// Orders about one job at once; each has up to a few answers of 4 MiB in memory.
const ORDERS_MAX: usize = 8;
/// For one answer of a region, connecting included.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

words! {
    /// The end of an order to cancel a job.
    CancelResult {
        /// Its region has cancelled it.
        Cancelled = "cancelled",
        /// Its region refuses, or does not have it any more.
        Refused = "refused",
        /// Its region does not say.
        Unknown = "unknown",
    }
}

/// The bounds and the figures.
#[derive(Debug)]
pub(super) struct ReplayDesk {
    pub(super) regions: Regions,
    /// The name of this hub among those that share the record.
    pub(super) name: String,
    /// Places for orders about one job.
    pub(super) places: Arc<Semaphore>,
    /// Replays that a request of a client carries out now.
    pub(super) held: RefCell<BTreeSet<String>>,
    /// Notified when there is a new replay.
    pub(super) ordered: Notify,
    replayed: [Cell<u64>; ReplayStep::ALL.len()],
    cancelled: [Cell<u64>; CancelResult::ALL.len()],
}

impl Default for ReplayDesk {
    fn default() -> Self {
        Self {
            regions: Regions::new(ANSWER_WAIT),
            name: random_name(),
            places: Arc::new(Semaphore::new(ORDERS_MAX)),
            held: RefCell::default(),
            ordered: Notify::new(),
            replayed: Default::default(),
            cancelled: Default::default(),
        }
    }
}

/// A replay that a request carries out; the runner leaves it alone until this is dropped. None where another request has it, which lets it go.
pub(super) struct Held<'d>(&'d ReplayDesk, Option<String>);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.1 {
            self.0.held.borrow_mut().remove(id);
        }
    }
}

impl ReplayDesk {
    pub(super) fn hold(&self, id: &str) -> Held<'_> {
        let is_first = self.held.borrow_mut().insert(id.to_owned());
        Held(self, is_first.then(|| id.to_owned()))
    }

    /// Counts a job of a replay that has come to its end.
    pub(super) fn note_replayed(&self, step: ReplayStep) {
        if let Some(count) = self.replayed.get(step as usize) {
            count.set(count.get() + 1);
        }
    }

    pub(super) fn note_cancelled(&self, result: CancelResult) {
        if let Some(count) = self.cancelled.get(result as usize) {
            count.set(count.get() + 1);
        }
    }

    /// Adds the figures in the text form of Prometheus.
    pub(super) fn metrics(&self, out: &mut String) {
        let is_end = |step: &ReplayStep| !matches!(step, ReplayStep::Waiting | ReplayStep::Sending);
        let ends = ReplayStep::ALL.into_iter().filter(is_end);
        let replayed: Vec<(&str, u64)> = ends.map(|step| (step.as_str(), self.replayed[step as usize].get())).collect();
        let cancelled = CancelResult::ALL.map(|it| (it.as_str(), self.cancelled[it as usize].get()));
        let families = [
            ("ojs_hub_replays_total", "Jobs of replays that came to their end, by the result", replayed),
            ("ojs_hub_job_cancels_total", "Orders to cancel a job, by the result", cancelled.to_vec()),
        ];
        for (name, help, rows) in families {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
            for (result, count) in rows {
                let _ = writeln!(out, "{name}{{result=\"{result}\"}} {count}");
            }
        }
    }
}
