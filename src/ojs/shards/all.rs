//! The queues that have shards.

use super::bounds::{BAND_BYTES, SUFFIX_BYTES_MAX};
use super::place::{Place, ShardedQueue};

/// All queues that have shards.
#[derive(Debug)]
pub struct Shards(Vec<ShardedQueue>);

impl Shards {
    /// These queues; none where there are none.
    #[must_use]
    pub fn of(queues: Vec<ShardedQueue>) -> Option<Self> {
        (!queues.is_empty()).then_some(Self(queues))
    }

    /// All of them, in the operator's order.
    #[must_use]
    pub fn queues(&self) -> &[ShardedQueue] {
        &self.0
    }

    /// The queue with this name.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&ShardedQueue> {
        self.0.iter().find(|queue| queue.name() == name)
    }

    /// The queue that a shard's name belongs to, and the place that it names, also where the queue has fewer shards by now; none for any other name.
    #[must_use]
    pub fn shard(&self, name: &str) -> Option<(&ShardedQueue, Place)> {
        // A suffix ends a name, and has one of two lengths.
        [SUFFIX_BYTES_MAX - BAND_BYTES, SUFFIX_BYTES_MAX].into_iter().find_map(|length| {
            let (own, suffix) = name.split_at_checked(name.len().checked_sub(length)?)?;
            let (place, rest) = Place::read(suffix)?;
            Some((self.queue(own)?, place)).filter(|_| rest.is_empty())
        })
    }

    /// The place of a queue in the list.
    pub(super) fn position(&self, name: &[u8]) -> Option<usize> {
        self.0.iter().position(|queue| queue.name().as_bytes() == name)
    }
}
