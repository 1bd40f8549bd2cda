//! Lines about how queues share workers. Spec: fair-scheduling 11.1.

use std::time::Duration;

use tracing::{info, warn};

use super::TARGET;
use crate::telemetry::Metrics;

/// A queue gave its workers no job for longer than an interval although jobs wait in it. `row`: the queue as the configuration writes it.
pub fn scheduling_queue_starved(metrics: &Metrics, queue: &str, row: &str, idle: Duration, available: u64) {
    metrics.scheduling.starved(row);
    warn!(
        target: TARGET, event = "scheduling.queue_starved", queue, duration_s = idle.as_secs(), available_count = available,
        "jobs wait in a queue, and the workers here that ask for it got none of it for longer than its interval"
    );
}

/// The workers of a pool hold as many jobs as they may; `waiting` is how many jobs wait in its queues, where their region answers.
pub fn scheduling_pool_overloaded(pool: &str, active: u64, waiting: Option<u64>) {
    warn!(
        target: TARGET, event = "scheduling.pool_overloaded", pool, active_jobs = active, waiting_jobs = waiting,
        "a worker got no job because its pool holds as many as it may"
    );
}

/// The order of turns, or the weights, of a pool are others from now on; of the workers of no pool where `pool` is none.
pub fn scheduling_rebalanced(pool: Option<&str>, previous: &'static str, new: &'static str) {
    info!(
        target: TARGET, event = "scheduling.rebalanced", pool, previous_strategy = previous, new_strategy = new,
        "the queues share their workers by other rules from now on"
    );
}
