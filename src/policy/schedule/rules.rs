//! How the queues of one list share the jobs that workers get.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::QueueOrder;
use crate::config::{PoolConfig, QueueFloor, Scheduling};

/// A whole, in the unit of shares: millionths.
pub(super) const WHOLE: u32 = 1_000_000;
/// The interval of queues without starvation prevention. Spec: fair-scheduling 8.1.
const ROTATION_INTERVAL: Duration = Duration::from_secs(30);

/// The least that each queue with jobs gets, with any strategy. Spec: fair-scheduling 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// The share of each queue in the jobs of an interval. Units: millionths.
    pub share: u32,
    /// The length of the window in which the share is kept, wherever the window begins.
    pub interval: Duration,
}

/// How the queues of one list share the jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The order of turns.
    pub strategy: QueueOrder,
    /// Weights by queue, 1 to [`QueueOrder::WEIGHT_MAX`]; a queue that is not named has 1. Only [`QueueOrder::Weighted`] heeds them.
    pub weights: Arc<BTreeMap<String, u32>>,
    /// The least that each queue gets; none without starvation prevention.
    pub floor: Option<Floor>,
    /// The pool of the workers, which take no turns together with others; none for workers of no pool.
    pub pool: Option<Arc<str>>,
}

impl Floor {
    fn of(floor: QueueFloor) -> Self {
        // A ratio is at most 1 and is a share to a millionth.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a million")]
        let share = |ratio: f64| (ratio * f64::from(WHOLE)).ceil().clamp(0.0, f64::from(WHOLE)) as u32;
        Self { share: share(floor.min_dispatch_ratio), interval: floor.rotation_interval }
    }
}

impl Rules {
    /// The rules of a configuration, for workers of no pool.
    #[must_use]
    pub fn of(scheduling: &Scheduling) -> Self {
        let strategy = scheduling.strategy.unwrap_or_default();
        let (weights, floor) = (Arc::new(scheduling.weights.clone()), scheduling.floor.map(Floor::of));
        Self { strategy, weights, floor, pool: None }
    }

    /// The rules of a pool. Spec: fair-scheduling 6.1.
    pub(super) fn of_pool(pool: &PoolConfig, name: Arc<str>) -> Self {
        let strategy = pool.strategy.unwrap_or(QueueOrder::RoundRobin);
        let (weights, floor) = (Arc::new(pool.weights.clone()), pool.floor.map(Floor::of));
        Self { strategy, weights, floor, pool: Some(name) }
    }

    /// Whether a FETCH passes in the order that its worker wrote.
    #[must_use]
    pub fn keep_the_order(&self) -> bool {
        self.strategy == QueueOrder::Strict && self.floor.is_none()
    }

    /// How long a queue with jobs may give none of them until that is reported. Spec: fair-scheduling 8.1, 11.1.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.floor.map_or(ROTATION_INTERVAL, |floor| floor.interval)
    }

    pub(super) fn weight(&self, queue: &str) -> u32 {
        match self.strategy {
            QueueOrder::Weighted => {
                self.weights.get(queue).map_or(1, |weight| (*weight).clamp(1, QueueOrder::WEIGHT_MAX))
            }
            QueueOrder::Strict | QueueOrder::RoundRobin | QueueOrder::LeastLoaded => 1,
        }
    }
}
