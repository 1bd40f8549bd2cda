//! The counters of one region.

use std::sync::atomic::AtomicBool;

use prometheus::GaugeVec;

use super::family;
use super::{
    AttemptOutcome, Breaker, Cells, CertificateKind, ConnectResult, Counter, FailoverReason, Families, Gauge,
    Histogram, IntGauge, PoolState, ProbeResult,
};
use crate::base::{RegionId, Strategy};

/// Everything that is counted by region.
#[derive(Debug)]
pub struct RegionMetrics {
    /// Which region it is.
    pub id: RegionId,
    /// Tries at this region, by class number and outcome.
    pub attempts: Cells<usize, Cells<AttemptOutcome, Counter>>,
    /// Tries that this region answered, by class number. Units: seconds.
    pub request_duration: Cells<usize, Histogram>,
    /// Jobs that it stored, by strategy.
    pub enqueues: Cells<Strategy, Counter>,
    /// Attempts here after another region had been tried.
    pub redirects: Counter,
    /// Requests that it has not answered yet; change it through [`super::Held`].
    pub in_flight: IntGauge,
    /// Health probes, by how they ended.
    pub probes: Cells<ProbeResult, Counter>,
    /// Health probes. Units: seconds.
    pub probe_duration: Histogram,
    /// Decaying mean of the probes' round trips. Units: seconds.
    pub latency: Gauge,
    /// Jobs available and active.
    pub load: Gauge,
    /// Age of `load`. Units: seconds.
    pub load_age: Gauge,
    /// Connections made to it, by how that ended.
    pub connections: Cells<ConnectResult, Counter>,
    /// Connections that are open now.
    pub pool_connections: Cells<PoolState, IntGauge>,
    /// When its certificates expire. Units: seconds since the Unix epoch.
    pub certificate_expiry: Cells<CertificateKind, Gauge>,
    /// Jobs that left for another region; counted by [`crate::telemetry::event::failover`].
    pub(in super::super) failovers: Cells<FailoverReason, Counter>,
    /// Enqueues with an unknown outcome; counted by [`crate::telemetry::event::unknown_outcome`].
    pub(in super::super) unknown_outcomes: Counter,
    /// Counted by [`crate::telemetry::event::dropped_authorization`].
    pub(in super::super) dropped_authorizations: Counter,
    /// Whether the first dropped authorization was logged.
    pub(in super::super) dropped_authorization_logged: AtomicBool,
    /// Counted by [`crate::telemetry::event::dns_failed`].
    pub(in super::super) dns_failures: Counter,
    /// Set by [`crate::telemetry::event::region_health`].
    pub(in super::super) healthy: IntGauge,
    /// Set by [`crate::telemetry::event::breaker_transition`].
    pub(in super::super) breaker: Cells<Breaker, IntGauge>,
    /// Counted by [`crate::telemetry::event::breaker_transition`].
    pub(in super::super) breaker_transitions: Cells<Breaker, Counter>,
}

/// Makes the families by region, with all series of every region.
pub(super) fn all(families: &Families<'_>, ids: &[RegionId], classes: &[&'static str]) -> Box<[RegionMetrics]> {
    let attempts = families.counters(&family::ATTEMPTS);
    let request_duration = families.histograms(&family::REQUEST_DURATION);
    let enqueues = families.counters(&family::ENQUEUES);
    let redirects = families.counters(&family::REDIRECTS);
    let in_flight = families.int_gauges(&family::IN_FLIGHT);
    let probes = families.counters(&family::PROBES);
    let probe_duration = families.histograms(&family::PROBE_DURATION);
    let latency = families.gauges(&family::REGION_LATENCY);
    let load = families.gauges(&family::REGION_LOAD);
    let load_age = families.gauges(&family::REGION_LOAD_AGE);
    let connections = families.counters(&family::CONNECTIONS);
    let pool_connections = families.int_gauges(&family::POOL_CONNECTIONS);
    let expiry = families.gauges(&family::CERTIFICATE_EXPIRY);
    let failovers = families.counters(&family::FAILOVERS);
    let unknown_outcomes = families.counters(&family::UNKNOWN_OUTCOMES);
    let dropped = families.counters(&family::DROPPED_AUTHORIZATIONS);
    let dns_failures = families.counters(&family::DNS_FAILURES);
    let healthy = families.int_gauges(&family::REGION_HEALTHY);
    let breaker = families.int_gauges(&family::BREAKER_STATE);
    let transitions = families.counters(&family::BREAKER_TRANSITIONS);
    let one = |id: &RegionId| {
        let region = id.as_str();
        let metrics = RegionMetrics {
            id: id.clone(),
            attempts: Cells::each(classes, |class| {
                Cells::each(AttemptOutcome::ALL, |outcome| {
                    attempts.with_label_values(&[region, class, outcome.as_str()])
                })
            }),
            request_duration: Cells::each(classes, |class| request_duration.with_label_values(&[region, class])),
            enqueues: Cells::each(Strategy::ALL, |strategy| enqueues.with_label_values(&[region, strategy.as_str()])),
            redirects: redirects.with_label_values(&[region]),
            in_flight: in_flight.with_label_values(&[region]),
            probes: Cells::each(ProbeResult::ALL, |result| probes.with_label_values(&[region, result.as_str()])),
            probe_duration: probe_duration.with_label_values(&[region]),
            latency: unset(&latency, &[region]),
            load: unset(&load, &[region]),
            load_age: unset(&load_age, &[region]),
            connections: Cells::each(ConnectResult::ALL, |it| connections.with_label_values(&[region, it.as_str()])),
            pool_connections: Cells::each(PoolState::ALL, |it| {
                pool_connections.with_label_values(&[region, it.as_str()])
            }),
            certificate_expiry: Cells::each(CertificateKind::ALL, |kind| unset(&expiry, &[region, kind.as_str()])),
            failovers: Cells::each(FailoverReason::ALL, |it| failovers.with_label_values(&[region, it.as_str()])),
            unknown_outcomes: unknown_outcomes.with_label_values(&[region]),
            dropped_authorizations: dropped.with_label_values(&[region]),
            dropped_authorization_logged: AtomicBool::new(false),
            dns_failures: dns_failures.with_label_values(&[region]),
            healthy: healthy.with_label_values(&[region]),
            breaker: Cells::each(Breaker::ALL, |state| breaker.with_label_values(&[region, state.as_str()])),
            breaker_transitions: Cells::each(Breaker::ALL, |to| transitions.with_label_values(&[region, to.as_str()])),
        };
        metrics.breaker[Breaker::Closed].set(1);
        metrics
    };
    ids.iter().map(one).collect()
}

/// A gauge that says "not known yet": 0 would read as an expired certificate or an empty region.
fn unset(gauges: &GaugeVec, labels: &[&str]) -> Gauge {
    let gauge = gauges.with_label_values(labels);
    gauge.set(f64::NAN);
    gauge
}
