//! The items of lists, each under the key by which its list is ordered.

use std::collections::{BTreeSet, HashMap};

use super::super::filter::Filter;
use super::super::queue::QueueView;
use super::{Job, JobState, Store};

/// A worker as it stands.
#[derive(Debug, Clone)]
pub(crate) struct WorkerView {
    pub(crate) queues: Vec<String>,
    pub(crate) state: &'static str,
    pub(crate) active: usize,
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
}

/// The silence after which a worker counts as lost: two visibility timeouts.
const STALE_MS: u64 = 60_000;

impl Store {
    /// The jobs that a filter wants: newest first by the time they were created, then by id.
    pub(crate) fn select(&mut self, filter: &Filter) -> Vec<(String, &Job)> {
        self.settle();
        let jobs = self.jobs.values().filter(|job| filter.wants(job));
        jobs.map(|job| (format!("{:020}{}", u64::MAX - job.times.created, job.id), job)).collect()
    }

    /// The dead letters that a filter wants, in the order in which they died, then by id.
    pub(crate) fn select_dead(&mut self, filter: &Filter) -> Vec<(String, &Job)> {
        self.settle();
        let jobs = self.dead.iter().filter_map(|(died_ms, id)| Some((died_ms, self.jobs.get(id)?)));
        let wanted = jobs.filter(|(_, job)| filter.wants(job));
        wanted.map(|(died_ms, job)| (format!("{died_ms:020}{}", job.id), job)).collect()
    }

    /// The queues by name, those that only have a configuration among them.
    pub(crate) fn select_queues(&mut self) -> Vec<(String, QueueView)> {
        let configured = self.kept.configs.list().into_iter().map(|(name, _)| name);
        let names: BTreeSet<String> = self.queues.keys().cloned().chain(configured).collect();
        names.into_iter().map(|name| (name.clone(), self.queue(&name))).collect()
    }

    /// The workers by id.
    pub(crate) fn select_workers(&mut self) -> Vec<(String, WorkerView)> {
        let now = self.settle();
        let mut active: HashMap<&str, usize> = HashMap::new();
        for job in self.jobs.values().filter(|job| job.state == JobState::Active) {
            *active.entry(job.worker_id.as_deref().unwrap_or_default()).or_default() += 1;
        }
        let view = |(id, seen): (String, &super::super::kept::Seen)| {
            let told = self.directives.get(&id).copied().unwrap_or_default();
            let state = match told {
                _ if now.saturating_sub(seen.last_ms) > STALE_MS => "stale",
                super::Directive::Continue if seen.is_draining => "draining",
                super::Directive::Continue => "running",
                told => told.as_str(),
            };
            let active = active.get(id.as_str()).copied().unwrap_or_default();
            let queues = seen.queues.clone();
            (id, WorkerView { queues, state, active, first_ms: seen.first_ms, last_ms: seen.last_ms })
        };
        self.kept.workers.list().into_iter().map(view).collect()
    }
}
