//! Figures of how queues share workers. Spec: fair-scheduling 11.2.

use std::collections::BTreeSet;
use std::time::Duration;

use prometheus::{GaugeVec, HistogramVec, IntCounterVec};

use super::families::Families;
use super::family;

/// The figures of queues and pools, by their names in the configuration: a process without pools and weights has no series of them.
#[derive(Debug, Clone)]
pub struct SchedulingMetrics {
    dispatched: IntCounterVec,
    ratio: GaugeVec,
    wait: HistogramVec,
    utilization: GaugeVec,
    starved: IntCounterVec,
}

impl SchedulingMetrics {
    pub(super) fn of(families: &Families) -> Self {
        Self {
            dispatched: families.counters(&family::SCHEDULING_DISPATCHED),
            ratio: families.gauges(&family::SCHEDULING_RATIO),
            wait: families.histograms(&family::SCHEDULING_WAIT),
            utilization: families.gauges(&family::SCHEDULING_UTILIZATION),
            starved: families.counters(&family::SCHEDULING_STARVED),
        }
    }

    /// Makes the series of a queue; `pool` is its pool, or empty.
    pub fn expect_queue(&self, queue: &str, pool: &str) {
        self.dispatched.with_label_values(&[queue, pool]);
        self.ratio.with_label_values(&[queue]);
        self.wait.with_label_values(&[queue]);
        self.starved.with_label_values(&[queue]);
    }

    /// A worker of a pool, or of none where that is empty, got a job that waited so long.
    pub fn dispatched(&self, queue: &str, pool: &str, wait: Option<Duration>) {
        self.dispatched.with_label_values(&[queue, pool]).inc();
        if let Some(wait) = wait {
            self.wait.with_label_values(&[queue]).observe(wait.as_secs_f64());
        }
    }

    /// Sets the share of a queue in the jobs of the last minute.
    pub fn set_ratio(&self, queue: &str, ratio: f64) {
        self.ratio.with_label_values(&[queue]).set(ratio);
    }

    /// Sets the part of its places that a pool has taken.
    pub fn set_utilization(&self, pool: &str, part: f64) {
        self.utilization.with_label_values(&[pool]).set(part);
    }

    /// A queue was found to starve; counted by [`crate::telemetry::event`].
    pub(in crate::telemetry) fn starved(&self, queue: &str) {
        self.starved.with_label_values(&[queue]).inc();
    }

    /// Deletes the series of queues and pools that a new configuration does not have. Shape: the names of its queues, and of its pools.
    pub fn keep(&self, before: (&BTreeSet<&str>, &BTreeSet<&str>), after: (&BTreeSet<&str>, &BTreeSet<&str>)) {
        // A series that was never made is none to delete.
        for queue in before.0 {
            for pool in before.1.iter().chain([&""]).filter(|it| !after.0.contains(queue) || !is_left(it, after.1)) {
                let _ = self.dispatched.remove_label_values(&[queue, pool]);
            }
        }
        for queue in before.0.difference(after.0) {
            let _ = self.ratio.remove_label_values(&[queue]);
            let _ = self.wait.remove_label_values(&[queue]);
            let _ = self.starved.remove_label_values(&[queue]);
        }
        for pool in before.1.difference(after.1) {
            let _ = self.utilization.remove_label_values(&[pool]);
        }
    }
}

/// Whether a pool is still there; workers of no pool always are.
fn is_left(pool: &str, pools: &BTreeSet<&str>) -> bool {
    pool.is_empty() || pools.contains(pool)
}
