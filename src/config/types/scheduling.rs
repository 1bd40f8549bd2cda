//! How the queues of a FETCH share the jobs that workers get.

use std::collections::BTreeMap;
use std::time::Duration;

use super::LimitWithoutHub;
use crate::base::QueueOrder;

/// The jobs that the shards of a queue get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantMode {
    /// New ones.
    Fill,
    /// None: they are emptied, and new jobs go into the queue itself.
    Drain,
}

/// How the queues of a FETCH share the jobs that workers get. Spec: fair-scheduling 7, 8.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scheduling {
    /// How queues take turns; none leaves it to the FETCH, and without its word to the order of its queues.
    pub strategy: Option<QueueOrder>,
    /// Weights by queue for [`QueueOrder::Weighted`], from 1 up; a queue that is not named has 1.
    pub weights: BTreeMap<String, u32>,
    /// The least that each queue with jobs gets; none where starvation prevention is off.
    pub floor: Option<QueueFloor>,
    /// The pool that the workers of this sidecar belong to, one of `pools`; none leaves it to their FETCHes.
    pub pool: Option<String>,
    /// The pools of workers; names are unique, and no queue is in two isolated ones.
    pub pools: Vec<PoolConfig>,
    /// The queues whose tenants share workers, each with shards; names are unique.
    pub tenant_queues: Vec<TenantQueueConfig>,
}

/// A queue whose tenants share workers. Spec: fair-scheduling 9.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantQueueConfig {
    /// Its name.
    pub queue: String,
    /// The shards of each band of priorities, 1 to 64.
    pub shards: u8,
    /// Weights by tenant, from 1 up.
    pub weights: BTreeMap<String, u32>,
    /// The weight of shards without a tenant that `weights` has.
    pub default_weight: u32,
    /// The least priority of each band but the last one, descending.
    pub priority_bands: Vec<i64>,
    /// Whether new jobs go into shards.
    pub mode: TenantMode,
}

/// A pool of workers. Spec: fair-scheduling 6.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolConfig {
    /// Its name.
    pub name: String,
    /// Its queues, at least one: names, or globs with `*` and `?`.
    pub queues: Vec<String>,
    /// The jobs that its workers hold at once at most, each sidecar for itself; none without a bound.
    pub concurrency: Option<u64>,
    /// The bound over the workers of all sidecars, which the hub has; none where there is none. With it there is a `concurrency`.
    pub fleet: Option<FleetPool>,
    /// How its queues take turns; none leaves it to the FETCH, and without its word they take turns one by one.
    pub strategy: Option<QueueOrder>,
    /// Weights of its queues, as those of [`Scheduling`].
    pub weights: BTreeMap<String, u32>,
    /// Whether other workers get nothing of its queues.
    pub isolated: bool,
    /// The least that each of its queues with jobs gets.
    pub floor: Option<QueueFloor>,
    /// Whether an operator has put it at the hub; else it is one of the configuration.
    pub is_put: bool,
}

/// A pool whose jobs the hub bounds for all sidecars together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPool {
    /// The fate of its FETCHes while the hub is away.
    pub on_hub_loss: LimitWithoutHub,
    /// The jobs that the workers of this sidecar hold at once without a grant, for [`LimitWithoutHub::Local`] only. At least 1.
    pub local: Option<u64>,
    /// The longest lease that a FETCH or a heartbeat may ask for.
    pub longest_lease: Duration,
}

/// The least that each queue with jobs gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueFloor {
    /// The length of the window in which the share is kept, wherever the window begins.
    pub rotation_interval: Duration,
    /// The share of each queue in the jobs of a window, above 0 and at most 1.
    pub min_dispatch_ratio: f64,
}
