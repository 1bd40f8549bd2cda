//! All that is known at this moment, for `/state` of the admin listener and, in part, for `GET /v1/federation/regions`.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::discovered;
use super::status::status;
use crate::base::SwitchKind;
use crate::base::text::rfc3339;
use crate::config::Config;
use crate::outcome::State;
use crate::policy::{BreakerState, Figure, GuardClass, GuardState, Health, Live as _, RegionIndex, RegionView, View};
use crate::proxy::{Shared, is_usable};
use crate::region::{Region, Trouble};
use crate::telemetry::{CertificateKind, PoolState, RegionMetrics};

/// The present state: the regions, the content of memory and disk, and the process.
///
/// Shape: times in RFC 3339, durations in milliseconds or seconds as their names say, `null` for unknown values. It
/// holds no token, no key and nothing of a job but the names of queues.
#[must_use]
pub fn document(shared: &Shared) -> Value {
    let view = shared.registry.view();
    let clock = shared.registry.clock();
    let moment = Moment { now: clock.now(), unix_ms: clock.unix_ms() };
    let regions: Vec<Value> = view.indexes().map(|index| region(shared, &view, index, moment)).collect();
    let queues: Vec<_> = shared.traffic.queues().iter().map(|name| name.to_string()).collect();
    json!({
        "at": rfc3339(moment.unix_ms),
        "federation_id": shared.config.federation_id,
        "local_region": shared.config.local_region.as_str(),
        "topology": shared.config.topology.as_str(),
        "cut_off": view.is_cut_off(),
        "fetch_waits": view.fetch_waits,
        "regions": regions,
        "self_suspect": shared.registry.is_suspect(),
        "retry_budget_available": shared.budgets.overall().available(moment.now),
        "calls": {
            "in_flight": shared.concurrency.total_in_flight(),
            "limit": shared.concurrency.total_limit(),
        },
        "journal": {
            "durable": shared.journal.is_durable(),
            "configured": shared.config.journal.path.is_some(),
            "outcomes_unknown": shared.journal.count(State::Unknown),
            "outcomes_watched": shared.journal.count(State::Watched),
        },
        "owners": { "entries": shared.owners.len(), "entries_max": shared.config.limits.owner_entries },
        "discovery": discovered::document(shared),
        "queues": queues,
        "process": process(shared),
    })
}

/// One moment by both clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    now: Instant,
    unix_ms: u64,
}

impl Moment {
    /// The time until then; 0 for a past one.
    fn until(self, then: Instant) -> u64 {
        millis(then.saturating_duration_since(self.now))
    }

    /// How long since then.
    fn since(self, then: Instant) -> u64 {
        millis(self.now.saturating_duration_since(then))
    }
}

fn region(shared: &Shared, view: &View, index: RegionIndex, moment: Moment) -> Value {
    let (state, known) = (view.region(index), shared.registry.region(index));
    let metrics = shared.metrics.region(index.get());
    let mut region = summary(shared, view, index);
    let further = json!({
        "health": state.health.as_str(),
        "status_since": state.status_since_unix_ms.map(rfc3339),
        "usable": is_usable(state),
        "ojs_version": known.ojs_version().as_deref(),
        "addresses": known.addresses().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "cooldown_left_ms": cooldown_left(state, moment),
        "guards": guards(state, moment),
        "held_down": state.held,
        "silent": state.silent,
        "failing_share": state.failing,
        "pressure_share": state.pressure.map_or(0.0, |pressure| pressure.share(moment.now)),
        "ramp_share": ramp(state, &shared.config, moment),
        "usual_connect_ms": known.usual_connect().map(fractional_millis),
        "max_queue_depth": state.max_queue_depth,
        "load": load(state, moment),
        "sent_per_second": shared.traffic.send_rate(index),
        "calls": {
            "in_flight": shared.concurrency.in_flight(index),
            "limit": shared.concurrency.limit(index),
            "granted": shared.concurrency.granted(index, moment.now),
            "throttle": shared.concurrency.throttle(index).most(),
        },
        "connections": {
            "idle": metrics.pool_connections[PoolState::Idle].get(),
            "busy": metrics.pool_connections[PoolState::Busy].get(),
        },
        "certificates": certificates(metrics),
        "identity_loads": known.identity().number + 1,
    });
    if let (Value::Object(region), Value::Object(further)) = (&mut region, further) {
        region.extend(further);
    }
    region
}

/// The part of a region's state that every client may see: the members of the RFC, and the first facts for an operator.
/// Spec: RFC-0001 §6.
///
/// Shape: `latency_ms` is whole and `null` for a region that is not healthy, as in the RFC; `latency_us` is the last figure in microseconds.
pub(super) fn summary(shared: &Shared, view: &View, index: RegionIndex) -> Value {
    let (state, known) = (view.region(index), shared.registry.region(index));
    let config = known.config();
    let clock = shared.registry.clock();
    let moment = Moment { now: clock.now(), unix_ms: clock.unix_ms() };
    let is_healthy = status(state) == Health::Healthy.as_str();
    json!({
        "id": config.id.as_str(),
        "url": config.url.text,
        "status": status(state),
        "latency_ms": state.latency.filter(|_| is_healthy).map(millis),
        "latency_us": state.latency.map(|latency| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)),
        "circuit_breaker": state.breaker.as_str(),
        "last_health_check": state.last_probe_unix_ms.map(rfc3339),
        "next_health_check": next_probe(state, known, moment).map(rfc3339),
        "health_source": state.probed_by.as_str(),
        "last_error": known.trouble().as_deref().map(trouble),
        "local": index == view.local,
        "is_hub": config.is_hub,
        "source": config.source.as_str(),
        "cut_off": state.is_cut_off,
        "weight": state.weight,
        "switch": state.switch.map(SwitchKind::as_str),
        "tags": state.tags,
        "in_flight": shared.traffic.in_flight(index),
    })
}

fn trouble(it: &Trouble) -> Value {
    json!({
        "reason": it.reason,
        "message": it.message,
        "status": it.status,
        "address": it.address,
        "at": rfc3339(it.unix_ms),
    })
}

fn cooldown_left(state: &RegionView, moment: Moment) -> Option<u64> {
    let open = state.breaker == BreakerState::Open;
    state.open_until.filter(|_| open).map(|until| moment.until(until))
}

/// An open breaker is probed when its cooldown is over.
fn next_probe(state: &RegionView, known: &Region, moment: Moment) -> Option<u64> {
    cooldown_left(state, moment).map(|left| moment.unix_ms.saturating_add(left)).or_else(|| known.next_probe_unix_ms())
}

fn guards(state: &RegionView, moment: Moment) -> Value {
    let refusable = GuardClass::ALL.into_iter().filter(|class| class.is_refusable());
    let guard = |class: GuardClass| {
        let guard = state.guard(class);
        let left = match guard {
            GuardState::Closed { .. } => None,
            GuardState::Open { until } => Some(until),
            GuardState::Trial { all_at, .. } => Some(all_at),
        };
        let shown = json!({ "state": guard.as_str(), "left_ms": left.map(|then| moment.until(then)) });
        (class.as_str().to_owned(), shown)
    };
    Value::Object(refusable.map(guard).collect())
}

/// The share of flexible jobs that a region takes which came back lately; none when it takes all.
fn ramp(state: &RegionView, config: &Config, moment: Moment) -> Option<f64> {
    let elapsed = moment.now.saturating_duration_since(state.recovered_at?);
    let ramp = config.circuit_breaker.slow_start;
    (elapsed < ramp).then(|| elapsed.as_secs_f64() / ramp.as_secs_f64())
}

fn load(state: &RegionView, moment: Moment) -> Value {
    let figure = |figure: Figure| json!({ "depth": figure.depth, "age_ms": moment.since(figure.at) });
    let queues: Map<String, Value> = state.load.queues().map(|(queue, it)| (queue.to_owned(), figure(it))).collect();
    json!({ "total": state.load.total().map(figure), "queues": queues })
}

/// When each certificate ends; `null` where there is none, or none was seen yet.
fn certificates(metrics: &RegionMetrics) -> Value {
    let end = |kind: &CertificateKind| {
        let seconds = metrics.certificate_expiry[*kind].get();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a finite date is far below 2^53")]
        let end = (seconds.is_finite() && seconds >= 0.0).then(|| rfc3339((seconds * 1_000.0) as u64));
        (kind.as_str().to_owned(), Value::from(end))
    };
    Value::Object(CertificateKind::ALL.iter().map(end).collect())
}

fn process(shared: &Shared) -> Value {
    let figures: Map<String, Value> =
        shared.metrics.process_figures().into_iter().map(|(name, figure)| (name, figure.into())).collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_seconds": shared.started.elapsed().as_secs(),
        "client_connections": shared.metrics.client_connections.get(),
        "figures": figures,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn fractional_millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
