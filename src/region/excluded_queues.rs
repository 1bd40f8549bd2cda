//! Queues that were declared free of residency rules and turned out not to be.

use std::collections::HashSet;

use parking_lot::RwLock;

/// The queues whose jobs are fetched from no other region until the configuration is read again.
///
/// Bounded by the configuration: only queues that it names get here.
#[derive(Debug, Default)]
pub struct ExcludedQueues(RwLock<HashSet<String>>);

impl ExcludedQueues {
    /// Whether a queue is among them.
    #[must_use]
    pub fn contains(&self, queue: &str) -> bool {
        self.0.read().contains(queue)
    }

    /// Adds a queue; false when it was among them.
    #[must_use]
    pub fn add(&self, queue: &str) -> bool {
        self.0.write().insert(queue.to_owned())
    }
}
