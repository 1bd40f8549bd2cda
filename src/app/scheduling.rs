//! Watches how queues share workers: reports queues that starve, pools that are overloaded and rules that change, and sets the gauges.
//!
//! Spec: fair-scheduling 11.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::net::pool::{Pool as Connections, PoolLimits};
use crate::policy::{Pool, Pools, QueueRules, Starving};
use crate::proxy::{Shared, pool_limits, pool_meters};
use crate::region::ask_available;
use crate::telemetry::event;

/// Between two looks; intervals of queues are some seconds and more.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Queues of an overloaded pool that its region is asked about.
const ASKED_OF_POOL_MAX: usize = 8;

/// Looks for queues that starve and pools that are overloaded, for ever.
pub(super) async fn watch(shared: Arc<Shared>) {
    let clock = shared.registry.clock().clone();
    let local = Local::new(&shared);
    loop {
        clock.sleep(LOOK_EVERY).await;
        let now = clock.now();
        let (due, overloaded) = {
            let mut tally = shared.tally.lock();
            (tally.waits.due(now), tally.waits.overloaded(now))
        };
        for queue in due {
            local.look_at(&queue, clock.now()).await;
        }
        for pool in overloaded {
            local.report_overload(&pool).await;
        }
    }
}

/// Asks the local region: workers ask for its queues.
struct Local<'s> {
    shared: &'s Shared,
    connections: Connections,
}

impl<'s> Local<'s> {
    fn new(shared: &'s Shared) -> Self {
        let meters = pool_meters(shared.metrics.region(shared.registry.view().local.get()));
        let limits = PoolLimits { idle_max: 0, ..pool_limits(&shared.config) };
        Self { shared, connections: Connections::new(limits, meters) }
    }

    /// The jobs that wait in a queue, in its shards where it has some; none where the region does not say.
    async fn available(&self, queue: &str) -> Option<u64> {
        let sharded = self.shared.shards.as_deref().and_then(|shards| shards.queue(queue));
        let Some(sharded) = sharded else { return self.available_in(queue).await };
        let mut sum = 0_u64;
        for name in sharded.names() {
            sum = sum.saturating_add(self.available_in(&name).await?);
        }
        Some(sum)
    }

    async fn available_in(&self, queue: &str) -> Option<u64> {
        let region = self.shared.registry.region(self.shared.registry.view().local);
        ask_available(region, &self.connections, queue, self.shared.config.health_check.timeout).await
    }

    /// Reports a queue that gave no job for an interval, if jobs wait in it.
    async fn look_at(&self, Starving { queue, row }: &Starving, now: Instant) {
        let Some(available) = self.available(queue).await else { return };
        let idle = self.shared.tally.lock().waits.found(queue, available, now);
        if let Some(idle) = idle {
            event::scheduling_queue_starved(&self.shared.metrics, queue, row, idle, available);
        }
    }

    async fn report_overload(&self, name: &str) {
        let Some(pool) = self.shared.pools.all().find(|pool| **pool.name() == *name) else { return };
        let queues: Vec<String> =
            self.shared.tally.lock().waits.asked_for(pool.queues()).take(ASKED_OF_POOL_MAX).collect();
        let mut waiting = Some(0_u64);
        for queue in queues {
            waiting = waiting.zip(self.available(&queue).await).map(|(sum, available)| sum.saturating_add(available));
        }
        event::scheduling_pool_overloaded(name, active(self.shared, pool), waiting);
    }
}

/// The jobs that the workers of a pool hold.
fn active(shared: &Shared, pool: &Pool) -> u64 {
    let mut count = 0;
    shared.journal.taken_places(|place| count += u64::from(place.pool.as_deref() == Some(&**pool.name())));
    count
}

/// Sets the gauges, before each scrape.
pub(super) fn refresh(shared: &Shared) {
    let metrics = &shared.metrics.scheduling;
    if !shared.pools.name_queues() {
        return;
    }
    let now = shared.registry.clock().now();
    let names = queues(&shared.pools);
    let mut tally = shared.tally.lock();
    let jobs: Vec<(&str, u64)> = names.keys().map(|queue| (*queue, tally.queue(queue, now).jobs)).collect();
    drop(tally);
    let all: u64 = jobs.iter().map(|(_, jobs)| jobs).sum();
    for (queue, jobs) in jobs {
        metrics.set_ratio(queue, part(jobs, all));
    }
    for (queue, pool) in &names {
        metrics.expect_queue(queue, pool);
    }
    for pool in shared.pools.all() {
        if let Some(bound) = pool.concurrency() {
            metrics.set_utilization(pool.name(), part(active(shared, pool), bound));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "jobs of a minute")]
fn part(of: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { of as f64 / all as f64 }
}

/// The queues that the configuration names, each with its pool, or none.
fn queues(pools: &Pools) -> BTreeMap<&str, &str> {
    let in_pools = pools.all().flat_map(|pool| pool.queues().map(|queue| (&**queue, &**pool.name())));
    pools.weighted().map(|queue| (&**queue, "")).chain(in_pools).collect()
}

/// Reports pools that have other rules in a new configuration, and deletes the figures of queues and pools that are not in it.
pub(super) fn changed(old: &Shared, new: &Shared) {
    report(None, &old.queue_rules, &new.queue_rules);
    for pool in new.pools.all() {
        if let Some(before) = old.pools.all().find(|it| it.name() == pool.name()) {
            report(Some(pool.name()), before.rules(), pool.rules());
        }
    }
    let [before, after] = [&old.pools, &new.pools].map(|pools| {
        let names: BTreeSet<&str> = queues(pools).into_keys().collect();
        (names, pools.names().collect::<BTreeSet<&str>>())
    });
    new.metrics.scheduling.keep((&before.0, &before.1), (&after.0, &after.1));
}

fn report(pool: Option<&str>, before: &QueueRules, after: &QueueRules) {
    if before != after {
        event::scheduling_rebalanced(pool, before.strategy.as_str(), after.strategy.as_str());
    }
}
