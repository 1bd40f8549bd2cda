//! The figures of pools of workers and their queues, by the calls that pass this sidecar.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::shared::Shared;
use crate::policy::{Figures, Pool, PoolFigures, QueueFigures};

impl Shared {
    /// The figures of the pools in the order of the configuration, and of their queues by name.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let now = self.registry.clock().now();
        let (mut by_pool, mut by_queue) = (BTreeMap::new(), BTreeMap::new());
        self.journal.taken_places(|place| {
            for (names, name) in [(&mut by_pool, &place.pool), (&mut by_queue, &place.queue)] {
                if let Some(name) = name {
                    *names.entry(Arc::clone(name)).or_default() += 1;
                }
            }
        });
        let names: BTreeSet<&Arc<str>> = self.pools.all().flat_map(Pool::queues).collect();
        let mut tally = self.tally.lock();
        let pools = self.pools.all().map(|pool| PoolFigures {
            name: pool.name().to_string(),
            workers: tally.workers(pool.name(), now) as u64,
            active: by_pool.get(pool.name()).copied().unwrap_or(0),
            of_fleet: pool.grant().is_some(),
            ..PoolFigures::default()
        });
        let pools = pools.collect();
        let queues = names.into_iter().map(|name| {
            let came = tally.queue(name, now);
            QueueFigures {
                name: name.to_string(),
                jobs: came.jobs,
                timed: came.timed,
                waited_ms: came.waited_ms,
                active: by_queue.get(name).copied().unwrap_or(0),
                ..QueueFigures::default()
            }
        });
        Figures { queues: queues.collect(), pools }
    }
}
