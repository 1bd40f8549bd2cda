//! Figures of failover drills.

use super::families::{Counter, Families, IntGauge};
use super::family;
use super::label::{Cells, DrillJob};

/// Figures of failover drills; all are 0 before the first one.
#[derive(Debug, Clone)]
pub struct DrillMetrics {
    /// 1 while a drill is on at this sidecar.
    pub active: IntGauge,
    /// Enqueues whose first candidate was the drilled region, by their part.
    pub jobs: Cells<DrillJob, Counter>,
}

impl DrillMetrics {
    pub(super) fn of(families: &Families) -> Self {
        let jobs = families.counters(&family::DRILL_JOBS);
        Self {
            active: families.int_gauge(&family::DRILL_ACTIVE),
            jobs: Cells::each(DrillJob::ALL, |job| jobs.with_label_values(&[job.as_str()])),
        }
    }
}
