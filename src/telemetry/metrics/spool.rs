//! Figures of the outage spool.

use super::families::{Counter, Families, Gauge, IntGauge};
use super::family;
use super::label::{Cells, SpoolFate, SpoolResult};

/// Figures of the outage spool; all are 0 without one.
#[derive(Debug, Clone)]
pub struct SpoolMetrics {
    /// Jobs in it, by state; set before each rendering.
    pub jobs: Cells<SpoolFate, IntGauge>,
    /// The used part of `spool.max_bytes`; set before each rendering.
    pub bytes: IntGauge,
    /// The age of the oldest job that waits; set before each rendering. Units: seconds.
    pub oldest_age: Gauge,
    /// 1 while its file cannot be used; set by [`crate::telemetry::event::spool_file`].
    pub unusable: IntGauge,
    /// Jobs that came, and that left it.
    pub results: Cells<SpoolResult, Counter>,
}

impl SpoolMetrics {
    pub(super) fn of(families: &Families) -> Self {
        let jobs = families.int_gauges(&family::SPOOL_JOBS);
        let results = families.counters(&family::SPOOL_RESULTS);
        Self {
            jobs: Cells::each(SpoolFate::ALL, |fate| jobs.with_label_values(&[fate.as_str()])),
            bytes: families.int_gauge(&family::SPOOL_BYTES),
            oldest_age: families.gauges(&family::SPOOL_OLDEST_AGE).with_label_values::<&str>(&[]),
            unusable: families.int_gauge(&family::SPOOL_UNUSABLE),
            results: Cells::each(SpoolResult::ALL, |result| results.with_label_values(&[result.as_str()])),
        }
    }
}
