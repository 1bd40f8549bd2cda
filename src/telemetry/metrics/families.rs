//! Kinds of metrics, and how those of the table are made.

use prometheus::core::Collector;
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry};

use super::family::{Family, Kind};

/// A number that only rises: `inc()`, `inc_by(n)`, `get()`.
pub type Counter = prometheus::IntCounter;
/// A whole number that rises and falls: `inc()`, `dec()`, `set(n)`, `get()`.
pub type IntGauge = prometheus::IntGauge;
/// A number that rises and falls, in base units: `set(x)`, `get()`.
pub type Gauge = prometheus::Gauge;
/// A distribution: `observe(seconds)`.
pub type Histogram = prometheus::Histogram;

/// Makes the vectors of the table's families and registers them.
pub(super) struct Families<'r> {
    pub(super) registry: &'r Registry,
}

#[expect(clippy::expect_used, reason = "the table is constant, and a test registers all of it")]
impl Families<'_> {
    fn registered<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let vector = made.expect("names and labels of the table are well formed");
        self.registry.register(Box::new(vector.clone())).expect("names of the table are unique");
        vector
    }

    pub(super) fn counters(&self, family: &Family) -> IntCounterVec {
        self.registered(IntCounterVec::new(Opts::new(family.full_name(), family.help), family.labels))
    }

    pub(super) fn int_gauges(&self, family: &Family) -> IntGaugeVec {
        self.registered(IntGaugeVec::new(Opts::new(family.full_name(), family.help), family.labels))
    }

    pub(super) fn gauges(&self, family: &Family) -> GaugeVec {
        self.registered(GaugeVec::new(Opts::new(family.full_name(), family.help), family.labels))
    }

    pub(super) fn histograms(&self, family: &Family) -> HistogramVec {
        let Kind::Histogram(bounds) = family.kind else { unreachable!("{} is no histogram", family.name) };
        let options = HistogramOpts::new(family.full_name(), family.help).buckets(bounds.to_vec());
        self.registered(HistogramVec::new(options, family.labels))
    }

    pub(super) fn counter(&self, family: &Family) -> Counter {
        self.counters(family).with_label_values::<&str>(&[])
    }

    pub(super) fn int_gauge(&self, family: &Family) -> IntGauge {
        self.int_gauges(family).with_label_values::<&str>(&[])
    }
}

/// One unit of a gauge, given back when dropped: a gauge that is changed this way cannot drift.
pub struct Held<'g>(&'g IntGauge);

impl<'g> Held<'g> {
    /// Raises the gauge by one until the value is dropped.
    #[must_use]
    pub fn one(gauge: &'g IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl std::fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}
