//! The registry: what is known of every region, and the single writer of the view.
//!
//! Every change happens under one lock and ends in one swap of the view, so that a request, which loads the view once, never
//! sees two truths. Data threads take the lock only when a request failed, or for the first success after failures.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{ProbeReport, Region};
use crate::base::{Clock, Ewma};
use crate::config::Config;
use crate::policy::{
    Breaker, BreakerState, Health, HealthTracker, LoadFigures, Permit, RegionIndex, RegionView, RequestOutcome,
    Transition, View,
};
use crate::telemetry::{self, Metrics, event};

/// Latency forgets with this time constant: about the last three probes at the default interval.
const LATENCY_DECAY: Duration = Duration::from_secs(30);

/// All regions at run time; shared by all threads.
#[derive(Debug)]
pub struct Registry {
    regions: Vec<Arc<Region>>,
    view: ArcSwap<View>,
    states: Mutex<Vec<State>>,
    changed: Vec<Notify>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

/// What the registry keeps of a region beside the view.
#[derive(Debug)]
struct State {
    breaker: Breaker,
    health: HealthTracker,
    latency: Option<Ewma>,
}

impl Registry {
    /// A registry in which nothing was probed yet.
    #[must_use]
    pub fn new(config: &Config, regions: Vec<Arc<Region>>, clock: Clock, metrics: Arc<Metrics>) -> Self {
        let state = |_: &Arc<Region>| State {
            breaker: Breaker::new(&config.circuit_breaker),
            health: HealthTracker::new(&config.health_check),
            latency: None,
        };
        Self {
            view: ArcSwap::from_pointee(View::unprobed(config)),
            states: Mutex::new(regions.iter().map(state).collect()),
            changed: regions.iter().map(|_| Notify::new()).collect(),
            regions,
            clock,
            metrics,
        }
    }

    /// The registry of a new configuration. What is known of regions that are reached as before goes over to it; the old one
    /// serves the requests that are under way and learns nothing more that counts.
    #[must_use]
    pub fn successor(&self, config: &Config, regions: Vec<Arc<Region>>, metrics: Arc<Metrics>) -> Self {
        let mut next = Self::new(config, regions, self.clock.clone(), metrics);
        let mut view = View::unprobed(config);
        let mut old = self.states.lock();
        let old_view = self.view.load();
        let states = next.states.get_mut();
        for ((region, state), shown) in next.regions.iter().zip(states).zip(&mut view.regions) {
            let known = self.regions.iter().position(|old| old.is_reached_as(region.config()));
            let Some((known, old_shown)) =
                known.and_then(|place| Some((old.get_mut(place)?, old_view.regions.get(place)?)))
            else {
                continue;
            };
            std::mem::swap(state, known);
            state.breaker.reconfigure(&config.circuit_breaker);
            state.health.reconfigure(&config.health_check);
            *shown = RegionView {
                weight: shown.weight,
                tags: std::mem::take(&mut shown.tags),
                max_queue_depth: shown.max_queue_depth,
                ..old_shown.clone()
            };
        }
        next.view.store(Arc::new(view));
        next
    }

    /// The state of all regions at this moment; load it once per request.
    pub fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// A region by its index.
    #[must_use]
    pub fn region(&self, index: RegionIndex) -> &Arc<Region> {
        &self.regions[index.get()]
    }

    /// Every region, in the configured order.
    #[must_use]
    pub fn regions(&self) -> &[Arc<Region>] {
        &self.regions
    }

    /// The clock that ages and cooldowns are measured by.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Resolves when the breaker of a region may have changed since the last call.
    pub async fn changed(&self, index: RegionIndex) {
        self.changed[index.get()].notified().await;
    }

    /// Takes what a request showed of its region. Costs two relaxed additions while all is well.
    pub fn on_request(&self, index: RegionIndex, outcome: RequestOutcome) {
        let counters = &self.region(index).counters;
        counters.requests.fetch_add(1, Relaxed);
        match outcome {
            RequestOutcome::Success if !counters.failing.load(Relaxed) => return,
            RequestOutcome::Success => {}
            RequestOutcome::Failure => {
                counters.failures.fetch_add(1, Relaxed);
            }
            RequestOutcome::RatioOnly => {
                counters.failures.fetch_add(1, Relaxed);
                return;
            }
        }
        let now = self.clock.now();
        self.change(index, |state, view| {
            // Under the lock, so that the flag and the breaker's count cannot disagree.
            counters.failing.store(outcome == RequestOutcome::Failure, Relaxed);
            let transition = state.breaker.on_request(now, outcome);
            settle(state, view, now, transition)
        });
    }

    /// Leave to probe a region, if its breaker gives it.
    #[must_use]
    pub fn probe_permitted(&self, index: RegionIndex) -> Option<Permit> {
        self.states.lock()[index.get()].breaker.probe_permitted()
    }

    /// Takes the result of a probe.
    pub fn on_probe(&self, index: RegionIndex, permit: Permit, report: ProbeReport) {
        let (now, unix_ms) = (self.clock.now(), self.clock.unix_ms());
        let metrics = self.metrics.region(index.get());
        let mut verdict = None;
        self.change(index, |state, view| {
            if let Some(round_trip) = report.round_trip {
                let mean = observe(&mut state.latency, round_trip, now);
                view.latency = Some(mean);
                metrics.latency.set(mean.as_secs_f64());
            }
            view.last_probe_unix_ms = Some(unix_ms);
            verdict = state.health.on_probe(report.healthy);
            if verdict.is_some() {
                view.status_since_unix_ms = Some(unix_ms);
            }
            let transition = state.breaker.on_probe(now, permit, report.healthy);
            let _ = settle(state, view, now, transition);
            (transition, true)
        });
        // Told once it is true: who reads the line finds jobs routed by it.
        if let Some(health) = verdict {
            event::region_health(metrics, health == Health::Healthy, report.why);
        }
    }

    /// Lets time act on a region's breaker: the end of a cooldown, and the failure ratio.
    pub fn tick(&self, index: RegionIndex) {
        let now = self.clock.now();
        let counters = &self.region(index).counters;
        let (requests, failures) = (counters.requests.load(Relaxed), counters.failures.load(Relaxed));
        self.change(index, |state, view| {
            let ratio = state.breaker.on_counts(now, requests, failures);
            let transition = ratio.or_else(|| state.breaker.tick(now));
            settle(state, view, now, transition)
        });
    }

    /// Takes the figures of a load poll.
    pub fn on_load(&self, index: RegionIndex, merge: impl FnOnce(&mut LoadFigures)) {
        self.change(index, |_, view| {
            merge(&mut view.load);
            (None, true)
        });
    }

    /// Changes one region's state under the lock, and swaps the view if `change` says that it shows.
    fn change(
        &self,
        index: RegionIndex,
        change: impl FnOnce(&mut State, &mut RegionView) -> (Option<Transition>, bool),
    ) {
        let mut states = self.states.lock();
        let Some(state) = states.get_mut(index.get()) else { return };
        let current = self.view.load();
        let mut region = current.region(index).clone();
        let (transition, shows) = change(state, &mut region);
        if shows {
            let mut next = View::clone(&current);
            if let Some(slot) = next.regions.get_mut(index.get()) {
                *slot = region;
            }
            self.view.store(Arc::new(next));
        }
        drop(states);
        if let Some(Transition { from, to, cause }) = transition {
            let metrics = self.metrics.region(index.get());
            event::breaker_transition(metrics, word(from), word(to), cause.as_str());
            self.changed[index.get()].notify_one();
        }
    }
}

/// Brings the view of a region in line with its state, and notes when it came back.
fn settle(
    state: &State,
    view: &mut RegionView,
    now: Instant,
    transition: Option<Transition>,
) -> (Option<Transition>, bool) {
    let was_out = view.health == Health::Unhealthy || view.breaker != BreakerState::Closed;
    view.health = state.health.health();
    view.breaker = state.breaker.state();
    view.open_until = state.breaker.open_until();
    let is_out = view.health == Health::Unhealthy || view.breaker != BreakerState::Closed;
    if was_out && !is_out {
        view.recovered_at = Some(now);
    }
    (transition, transition.is_some())
}

fn observe(latency: &mut Option<Ewma>, round_trip: Duration, now: Instant) -> Duration {
    let sample = round_trip.as_secs_f64();
    let mean = latency.get_or_insert(Ewma::starting(sample, now, LATENCY_DECAY));
    mean.add(sample, now);
    Duration::try_from_secs_f64(mean.mean()).unwrap_or_default()
}

const fn word(state: BreakerState) -> telemetry::Breaker {
    match state {
        BreakerState::Closed => telemetry::Breaker::Closed,
        BreakerState::Open => telemetry::Breaker::Open,
        BreakerState::HalfOpen => telemetry::Breaker::HalfOpen,
    }
}
