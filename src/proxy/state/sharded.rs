//! The shards of queues, by the configuration, and the one that a job goes into.

use std::sync::Arc;

use crate::config::{Scheduling, TenantMode, TenantQueueConfig};
use crate::ojs::shards::{ShardedQueue, Shards, Spots};
use crate::ojs::{Envelope, ErrorDocument};
use crate::policy::TENANT_KEY;

/// The queues with shards of a configuration; none where it has none.
#[must_use]
pub fn shards_of(scheduling: &Scheduling) -> Option<Arc<Shards>> {
    let queue = |queue: &TenantQueueConfig| {
        let takes_jobs = queue.mode == TenantMode::Fill;
        let (bands, weights) = (&queue.priority_bands, &queue.weights);
        ShardedQueue::new(&queue.queue, queue.shards, bands, weights, queue.default_weight, takes_jobs)
    };
    Shards::of(scheduling.tenant_queues.iter().map(queue).collect()).map(Arc::new)
}

/// The shard that a job goes into, and where the job names its queue.
#[derive(Debug)]
pub(crate) struct Shard<'s> {
    suffix: &'s str,
    spots: Spots,
}

impl<'s> Shard<'s> {
    /// That of a job; none for a job without a tenant, which stays in the queue itself.
    // Never inlined: most sidecars have no such queue, and their calls do not carry its weight.
    #[cold]
    #[inline(never)]
    pub(crate) fn of(shards: &'s Shards, envelope: &Envelope<'_>) -> Option<Self> {
        let queue = shards.queue(envelope.queue()).filter(|queue| queue.takes_jobs())?;
        let own = envelope.meta_text(TENANT_KEY).text;
        let tenant = own.as_deref().filter(|tenant| !tenant.is_empty()).or(envelope.caller_tenant())?;
        let spots = Spots::of(envelope);
        let suffix = queue.suffix(queue.place(tenant, spots.priority))?;
        Some(Self { suffix, spots })
    }

    /// For the stamp.
    pub(crate) fn addition(&self) -> (&'s str, &Spots) {
        (self.suffix, &self.spots)
    }
}

/// A shard's name is no queue of a client: its jobs would pass the turns of tenants by, and come back under another name.
///
/// Errors: 400 `queue_is_a_shard`.
pub(crate) fn refuse_shard(shards: Option<&Shards>, queue: &str) -> Result<(), ErrorDocument> {
    match shards.and_then(|shards| shards.shard(queue)) {
        Some((own, _)) => Err(ErrorDocument::queue_is_a_shard(own.name())),
        None => Ok(()),
    }
}
