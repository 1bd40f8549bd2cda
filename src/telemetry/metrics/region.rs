//! The counters of one region.

use std::sync::atomic::AtomicBool;

use prometheus::{GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec};

use super::families::{Counter, Families, Gauge, Histogram, IntGauge};
use super::family;
use super::label::{
    AttemptOutcome, Breaker, Cells, CertificateKind, ConnectResult, FailoverReason, PoolState, ProbeResult, RemoteFetch,
};
use crate::base::{RefusalReason, RegionId, Strategy};

/// The classes of calls that a guard may keep from a region, by their numbers.
const GUARDED: [&str; 4] = ["enqueue", "fetch", "read", "admin"];

/// Why a pinned job is refused because of the region that it names.
const PIN_REFUSALS: [RefusalReason; 2] = [RefusalReason::RegionUnavailable, RefusalReason::NotPermitted];

/// Everything that is counted by region.
#[derive(Debug)]
pub struct RegionMetrics {
    /// Which region it is.
    pub id: RegionId,
    /// Tries at this region, by class number and outcome.
    pub attempts: Cells<usize, Cells<AttemptOutcome, Counter>>,
    /// Tries that this region answered, by class number. Units: seconds.
    pub request_duration: Cells<usize, Histogram>,
    /// Jobs that it stored, by strategy; count them with [`RegionMetrics::stored`].
    pub(in super::super) enqueues: Cells<Strategy, Counter>,
    /// Jobs that it stored although it is not the local region; none for the local one.
    cross_region: Option<Counter>,
    /// Refusals of jobs that are pinned to it, in the order of [`PIN_REFUSALS`].
    refusals: [Counter; PIN_REFUSALS.len()],
    /// Attempts here after another region had been tried.
    pub redirects: Counter,
    /// Jobs that it handed out to workers here although it is not the local region.
    pub remote_fetches: Cells<RemoteFetch, Counter>,
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
    /// Set by [`crate::telemetry::event::guard_transition`], by the number of the class.
    pub(in super::super) guards: Vec<IntGauge>,
    /// Calls at once that the region is trusted with; set at each scrape.
    pub calls_limit: IntGauge,
    /// Set by [`crate::telemetry::event::hold_down`].
    pub(in super::super) held_down: IntGauge,
    /// Counted by [`crate::telemetry::event::breaker_transition`].
    pub(in super::super) breaker_transitions: Cells<Breaker, Counter>,
}

impl RegionMetrics {
    /// Counts jobs that it stored.
    pub fn stored(&self, strategy: Strategy, jobs: u64) {
        self.enqueues[strategy].inc_by(jobs);
        if let Some(cross_region) = &self.cross_region {
            cross_region.inc_by(jobs);
        }
    }

    /// The counter of a refusal of a job that is pinned to it; none for reasons that have nothing to do with a pin.
    #[must_use]
    pub fn refused(&self, reason: RefusalReason) -> Option<&Counter> {
        let place = PIN_REFUSALS.iter().position(|it| *it == reason)?;
        self.refusals.get(place)
    }
}

/// The families by region, kept so that a reload can add regions to them and take others away.
#[derive(Debug, Clone)]
pub(super) struct Vectors {
    classes: Vec<&'static str>,
    attempts: IntCounterVec,
    request_duration: HistogramVec,
    enqueues: IntCounterVec,
    cross_region: IntCounterVec,
    refusals: IntCounterVec,
    redirects: IntCounterVec,
    remote_fetches: IntCounterVec,
    in_flight: IntGaugeVec,
    probes: IntCounterVec,
    probe_duration: HistogramVec,
    latency: GaugeVec,
    load: GaugeVec,
    load_age: GaugeVec,
    connections: IntCounterVec,
    pool_connections: IntGaugeVec,
    expiry: GaugeVec,
    failovers: IntCounterVec,
    unknown_outcomes: IntCounterVec,
    dropped: IntCounterVec,
    dns_failures: IntCounterVec,
    healthy: IntGaugeVec,
    breaker: IntGaugeVec,
    transitions: IntCounterVec,
    guards: IntGaugeVec,
    held_down: IntGaugeVec,
    calls_limit: IntGaugeVec,
}

impl Vectors {
    pub(super) fn new(families: &Families<'_>, classes: &[&'static str], refusals: &IntCounterVec) -> Self {
        Self {
            classes: classes.to_vec(),
            attempts: families.counters(&family::ATTEMPTS),
            request_duration: families.histograms(&family::REQUEST_DURATION),
            enqueues: families.counters(&family::ENQUEUES),
            cross_region: families.counters(&family::CROSS_REGION),
            refusals: refusals.clone(),
            redirects: families.counters(&family::REDIRECTS),
            remote_fetches: families.counters(&family::REMOTE_FETCHES),
            in_flight: families.int_gauges(&family::IN_FLIGHT),
            probes: families.counters(&family::PROBES),
            probe_duration: families.histograms(&family::PROBE_DURATION),
            latency: families.gauges(&family::REGION_LATENCY),
            load: families.gauges(&family::REGION_LOAD),
            load_age: families.gauges(&family::REGION_LOAD_AGE),
            connections: families.counters(&family::CONNECTIONS),
            pool_connections: families.int_gauges(&family::POOL_CONNECTIONS),
            expiry: families.gauges(&family::CERTIFICATE_EXPIRY),
            failovers: families.counters(&family::FAILOVERS),
            unknown_outcomes: families.counters(&family::UNKNOWN_OUTCOMES),
            dropped: families.counters(&family::DROPPED_AUTHORIZATIONS),
            dns_failures: families.counters(&family::DNS_FAILURES),
            healthy: families.int_gauges(&family::REGION_HEALTHY),
            breaker: families.int_gauges(&family::BREAKER_STATE),
            transitions: families.counters(&family::BREAKER_TRANSITIONS),
            guards: families.int_gauges(&family::GUARD_OPEN),
            held_down: families.int_gauges(&family::HELD_DOWN),
            calls_limit: families.int_gauges(&family::CALLS_LIMIT),
        }
    }

    /// All series of every region; those that exist already keep their values.
    pub(super) fn regions(&self, ids: &[RegionId], local: &str) -> Box<[RegionMetrics]> {
        ids.iter().map(|id| self.region(id, local)).collect()
    }

    fn region(&self, id: &RegionId, local: &str) -> RegionMetrics {
        let region = id.as_str();
        let metrics = RegionMetrics {
            id: id.clone(),
            attempts: Cells::each(&self.classes, |class| {
                Cells::each(AttemptOutcome::ALL, |outcome| {
                    self.attempts.with_label_values(&[region, class, outcome.as_str()])
                })
            }),
            request_duration: Cells::each(&self.classes, |class| {
                self.request_duration.with_label_values(&[region, class])
            }),
            enqueues: Cells::each(Strategy::ALL, |it| self.enqueues.with_label_values(&[region, it.as_str()])),
            cross_region: (region != local).then(|| self.cross_region.with_label_values(&[local, region])),
            refusals: PIN_REFUSALS.map(|reason| self.refusals.with_label_values(&[reason.as_str(), region])),
            redirects: self.redirects.with_label_values(&[region]),
            remote_fetches: Cells::each(RemoteFetch::ALL, |it| {
                self.remote_fetches.with_label_values(&[region, it.as_str()])
            }),
            in_flight: self.in_flight.with_label_values(&[region]),
            probes: Cells::each(ProbeResult::ALL, |it| self.probes.with_label_values(&[region, it.as_str()])),
            probe_duration: self.probe_duration.with_label_values(&[region]),
            latency: unset(&self.latency, &[region]),
            load: unset(&self.load, &[region]),
            load_age: unset(&self.load_age, &[region]),
            connections: Cells::each(ConnectResult::ALL, |it| {
                self.connections.with_label_values(&[region, it.as_str()])
            }),
            pool_connections: Cells::each(PoolState::ALL, |it| {
                self.pool_connections.with_label_values(&[region, it.as_str()])
            }),
            certificate_expiry: Cells::each(CertificateKind::ALL, |it| unset(&self.expiry, &[region, it.as_str()])),
            failovers: Cells::each(FailoverReason::ALL, |it| self.failovers.with_label_values(&[region, it.as_str()])),
            unknown_outcomes: self.unknown_outcomes.with_label_values(&[region]),
            dropped_authorizations: self.dropped.with_label_values(&[region]),
            dropped_authorization_logged: AtomicBool::new(false),
            dns_failures: self.dns_failures.with_label_values(&[region]),
            healthy: self.healthy.with_label_values(&[region]),
            breaker: Cells::each(Breaker::ALL, |state| self.breaker.with_label_values(&[region, state.as_str()])),
            guards: GUARDED.iter().map(|class| self.guards.with_label_values(&[region, class])).collect(),
            held_down: self.held_down.with_label_values(&[region]),
            calls_limit: self.calls_limit.with_label_values(&[region]),
            breaker_transitions: Cells::each(Breaker::ALL, |to| {
                self.transitions.with_label_values(&[region, to.as_str()])
            }),
        };
        if Breaker::ALL.iter().all(|state| metrics.breaker[*state].get() == 0) {
            metrics.breaker[Breaker::Closed].set(1);
        }
        metrics
    }

    /// Takes every series of a region away: it is no longer registered, so its gauges would speak of nothing.
    pub(super) fn forget(&self, id: &RegionId, known: &[RegionMetrics]) {
        let region = id.as_str();
        for other in known.iter().map(|known| known.id.as_str()) {
            let _ = self.cross_region.remove_label_values(&[other, region]);
            let _ = self.cross_region.remove_label_values(&[region, other]);
        }
        for reason in PIN_REFUSALS {
            let _ = self.refusals.remove_label_values(&[reason.as_str(), region]);
        }
        // A series that is not there is as good as taken away.
        let plain = [&self.redirects, &self.unknown_outcomes, &self.dropped, &self.dns_failures];
        plain.iter().for_each(|vector| drop(vector.remove_label_values(&[region])));
        [&self.latency, &self.load, &self.load_age].iter().for_each(|it| drop(it.remove_label_values(&[region])));
        [&self.in_flight, &self.healthy, &self.held_down, &self.calls_limit]
            .iter()
            .for_each(|it| drop(it.remove_label_values(&[region])));
        let _ = self.probe_duration.remove_label_values(&[region]);
        for class in GUARDED {
            let _ = self.guards.remove_label_values(&[region, class]);
        }
        for class in &self.classes {
            for outcome in AttemptOutcome::ALL {
                let _ = self.attempts.remove_label_values(&[region, class, outcome.as_str()]);
            }
            let _ = self.request_duration.remove_label_values(&[region, class]);
        }
        for strategy in Strategy::ALL {
            let _ = self.enqueues.remove_label_values(&[region, strategy.as_str()]);
        }
        for result in RemoteFetch::ALL {
            let _ = self.remote_fetches.remove_label_values(&[region, result.as_str()]);
        }
        for result in ProbeResult::ALL {
            let _ = self.probes.remove_label_values(&[region, result.as_str()]);
        }
        for result in ConnectResult::ALL {
            let _ = self.connections.remove_label_values(&[region, result.as_str()]);
        }
        for state in PoolState::ALL {
            let _ = self.pool_connections.remove_label_values(&[region, state.as_str()]);
        }
        for kind in CertificateKind::ALL {
            let _ = self.expiry.remove_label_values(&[region, kind.as_str()]);
        }
        for reason in FailoverReason::ALL {
            let _ = self.failovers.remove_label_values(&[region, reason.as_str()]);
        }
        for state in Breaker::ALL {
            let _ = self.breaker.remove_label_values(&[region, state.as_str()]);
            let _ = self.transitions.remove_label_values(&[region, state.as_str()]);
        }
    }
}

/// A gauge that says "not known yet": 0 would read as an expired certificate or an empty region. One that is known stays.
fn unset(gauges: &GaugeVec, labels: &[&str]) -> Gauge {
    let gauge = gauges.with_label_values(labels);
    // New ones are exactly 0, which none of these figures is when it is known for long.
    if gauge.get() == 0.0 {
        gauge.set(f64::NAN);
    }
    gauge
}
