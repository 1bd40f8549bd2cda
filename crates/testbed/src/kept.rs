//! A region's state besides its jobs: settings of queues, schemas, subscriptions, and workers.

use std::collections::BTreeMap;

use super::limits::Window;
use super::members::{Members, Raw};

/// The number of kept items of each kind, so that a region that runs for days stays bounded.
const KEPT_MAX: usize = 10_000;

/// A schema or a subscription as it was submitted.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) members: Members,
    pub(super) created_ms: u64,
}

/// How many queues of a worker are kept.
const QUEUES_MAX: usize = 100;

/// When a worker was last seen, and its wishes.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The queues of its last FETCH, or those that its heartbeat names.
    pub(super) queues: Vec<String>,
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
    /// Whether it has said that it fetches no more.
    pub(super) is_draining: bool,
}

impl Seen {
    /// Keeps the queues that a worker names; a sign of life without any changes nothing.
    pub(super) fn names(&mut self, queues: &[String]) {
        if !queues.is_empty() {
            self.queues = queues.iter().take(QUEUES_MAX).cloned().collect();
        }
    }
}

/// Everything by its name.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) configs: Shelf<Raw>,
    pub(super) schemas: Shelf<Entry>,
    /// Schemas of job types, by type and version.
    pub(super) job_schemas: Shelf<Entry>,
    pub(super) webhooks: Shelf<Entry>,
    pub(super) limits: Shelf<Window>,
    pub(super) workers: Shelf<Seen>,
    /// The last word of an operator about maintenance, as it came.
    pub(super) maintenance: Option<Raw>,
}

/// Things by name, the first of which makes room when there are too many.
#[derive(Debug)]
pub(super) struct Shelf<T>(BTreeMap<String, T>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> Shelf<T> {
    pub(super) fn put(&mut self, name: &str, thing: T) {
        if self.0.len() >= KEPT_MAX && !self.0.contains_key(name) {
            self.0.pop_first();
        }
        self.0.insert(name.to_owned(), thing);
    }

    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.0.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut T> {
        self.0.get_mut(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<T> {
        self.0.remove(name)
    }

    /// All of them, each under its name.
    pub(super) fn list(&self) -> Vec<(String, &T)> {
        self.0.iter().map(|(name, thing)| (name.clone(), thing)).collect()
    }
}
