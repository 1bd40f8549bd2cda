//! The registry: the state of every region, and the single writer of the view.
//!
//! Every change happens under one lock and ends in one swap of the view, so that a request, which loads the view once, never
//! sees two truths. Data threads take the lock only when a request failed, or for the first success after failures.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use arc_swap::{ArcSwap, Cache, Guard};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Region;
use super::lack::Lack;
use super::report::ProbeReport;
use crate::base::Clock;
use crate::config::{Config, HealthSource};
use crate::policy::{
    Attempt, BreakerState, Change, Health, Keeper, LoadFigures, Permit, Probe, RegionIndex, RegionView, RequestOutcome,
    Shown, Transition, View, settle,
};
use crate::telemetry::{self, Metrics, event};

/// All regions at run time; shared by all threads.
#[derive(Debug)]
pub struct Registry {
    regions: Vec<Arc<Region>>,
    view: Arc<ArcSwap<View>>,
    keeper: Mutex<Keeper>,
    changed: Vec<Notify>,
    doubted: Vec<Notify>,
    lacks: Vec<Lack>,
    all_fail: Notify,
    /// The last sign of life of the hub, for a spoke.
    hub_heard: Mutex<Option<Instant>>,
    clock: Clock,
    metrics: Arc<Metrics>,
}

impl Registry {
    /// A registry in which nothing was probed yet.
    #[must_use]
    pub fn new(config: &Config, regions: Vec<Arc<Region>>, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            view: Arc::new(ArcSwap::from_pointee(View::unprobed(config))),
            keeper: Mutex::new(Keeper::new(config)),
            changed: regions.iter().map(|_| Notify::new()).collect(),
            doubted: regions.iter().map(|_| Notify::new()).collect(),
            lacks: regions.iter().map(|_| Lack::new(&clock)).collect(),
            all_fail: Notify::new(),
            hub_heard: Mutex::default(),
            regions,
            clock,
            metrics,
        }
    }

    /// The registry of a new configuration. The state of regions that are reached as before goes over to it; the old
    /// one serves calls in progress, and its later results no longer count.
    #[must_use]
    pub fn successor(&self, config: &Config, regions: Vec<Arc<Region>>, metrics: Arc<Metrics>) -> Self {
        let mut next = Self::new(config, regions, self.clock.clone(), metrics);
        let mut view = View::unprobed(config);
        let mut old = self.keeper.lock();
        let old_view = self.view.load();
        let keeper = next.keeper.get_mut();
        for (region, shown) in next.regions.iter().zip(&mut view.regions) {
            let known = self.regions.iter().find(|old| old.is_reached_as(region.config()));
            let Some((known, old_shown)) =
                known.and_then(|known| Some((known, old_view.regions.get(known.index.get())?)))
            else {
                continue;
            };
            keeper.adopt(region.index, &mut old, known.index, config);
            region.counters.heeds.store(known.counters.heeds.load(Relaxed), Relaxed);
            *shown = RegionView {
                weight: shown.weight,
                tags: std::mem::take(&mut shown.tags),
                max_queue_depth: shown.max_queue_depth,
                ..old_shown.clone()
            };
        }
        next.inherit_hub(self, config, &mut view);
        next.publish(view);
        next
    }

    /// The state of all regions at this moment; load it once per request.
    pub fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// The state of all regions from now on, for one thread, which so learns by a look at a pointer that nothing has changed.
    #[must_use]
    pub fn views(&self) -> Cache<Arc<ArcSwap<View>>, Arc<View>> {
        Cache::new(Arc::clone(&self.view))
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

    /// Resolves when a region was doubted since the last call.
    pub async fn doubted(&self, index: RegionIndex) {
        self.doubted[index.get()].notified().await;
    }

    /// A region shows too little for too long: it is looked at soon.
    pub fn doubt(&self, index: RegionIndex) {
        self.doubted[index.get()].notify_one();
    }

    /// A job was refused that this region could have taken, were it well.
    pub fn lacked(&self, index: RegionIndex) {
        let view = self.view.load();
        let Some((region, lack)) = view.regions.get(index.get()).zip(self.lacks.get(index.get())) else { return };
        if region.breaker != BreakerState::Closed || region.health == Health::Unhealthy {
            lack.note(self.clock.about());
        }
    }

    /// Whether jobs were refused lately that a region could have taken.
    #[must_use]
    pub fn is_lacked(&self, index: RegionIndex) -> bool {
        self.lacks.get(index.get()).is_some_and(|lack| lack.is_felt(self.clock.now()))
    }

    /// Resolves when a job was refused that a region could have taken, where none was lately.
    pub async fn lack(&self, index: RegionIndex) {
        self.lacks[index.get()].begins().await;
    }

    /// The permit to probe a region with an open breaker, if the breaker gives one already.
    #[must_use]
    pub fn early_probe_permitted(&self, index: RegionIndex) -> Option<Permit> {
        self.keeper.lock().early_probe_permitted(self.clock.now(), index)
    }

    /// From when on [`Registry::early_probe_permitted`] gives leave; none while the breaker is not open.
    #[must_use]
    pub fn early_from(&self, index: RegionIndex) -> Option<Instant> {
        self.keeper.lock().early_from(index)
    }

    /// Takes whether anything was heard from a region when it was looked at. The connections to a region that fell silent are not used again.
    pub fn on_look(&self, index: RegionIndex, heard: bool) {
        if heard && !self.view.load().region(index).silent {
            return;
        }
        let now = self.clock.now();
        self.change(index, |keeper, view| keeper.on_look(now, index, heard, view));
    }

    /// Takes the result of a request without a class. Costs two relaxed additions while all is well.
    pub fn on_request(&self, index: RegionIndex, outcome: RequestOutcome) {
        let counters = &self.region(index).counters;
        counters.requests.fetch_add(1, Relaxed);
        match outcome {
            RequestOutcome::Success if counters.heeds.load(Relaxed) & Change::ANY == 0 => return,
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
        self.change(index, |keeper, view| keeper.on_request(now, index, outcome, view));
    }

    /// Takes the result of an attempt. Costs two relaxed additions while all is well.
    pub fn on_attempt(&self, index: RegionIndex, attempt: &Attempt) {
        let counters = &self.region(index).counters;
        let shown = attempt.shown();
        if let (true, Some(class)) = (shown != Shown::Nothing, counters.classes.get(attempt.class.index())) {
            counters.requests.fetch_add(1, Relaxed);
            class.calls.fetch_add(1, Relaxed);
            match shown {
                Shown::Failure => class.failures.fetch_add(1, Relaxed),
                Shown::ServerError => class.server_errors.fetch_add(1, Relaxed),
                Shown::Success | Shown::Nothing => 0,
            };
        }
        let unheeded = counters.heeds.load(Relaxed) & Change::heed_bits(attempt.class) == 0;
        let says_nothing = matches!(shown, Shown::Success if unheeded) || shown == Shown::Nothing;
        if says_nothing && !attempt.asks_for_less() {
            return;
        }
        let now = self.clock.now();
        // In a storm of refusals only the first of many takes the lock.
        let pressure = self.view.load().regions.get(index.get()).and_then(|region| region.pressure);
        if says_nothing && pressure.is_some_and(|pressure| pressure.was_signed_just_before(now)) {
            return;
        }
        let totals = counters.totals();
        self.change(index, |keeper, view| keeper.on_attempt(now, index, attempt, &totals, view));
    }

    /// Leave to probe a region, if its breaker gives it.
    #[must_use]
    pub fn probe_permitted(&self, index: RegionIndex) -> Option<Permit> {
        self.keeper.lock().probe_permitted(index)
    }

    /// Takes the result of a probe.
    pub fn on_probe(&self, index: RegionIndex, permit: Permit, report: ProbeReport) {
        let (now, unix_ms) = (self.clock.now(), self.clock.unix_ms());
        let metrics = self.metrics.region(index.get());
        let (probed_by, probed_unix_ms) = report.origin(unix_ms);
        let probe = Probe { healthy: report.healthy, round_trip: report.round_trip };
        let mut verdict = None;
        self.change(index, |keeper, view| {
            (view.last_probe_unix_ms, view.probed_by) = (Some(probed_unix_ms), probed_by);
            let change = match probed_by {
                HealthSource::Own => {
                    view.own_probe_at = Some(now);
                    keeper.on_probe(now, index, permit, probe, view)
                }
                HealthSource::Hub => keeper.on_view(now, index, permit, probe, view),
            };
            if let Some(mean) = view.latency {
                metrics.latency.set(mean.as_secs_f64());
            }
            verdict = change.health;
            if verdict.is_some() {
                view.status_since_unix_ms = Some(unix_ms);
            }
            Change { shows: true, ..change }
        });
        // Logged once it is in force: jobs after the line are routed by it.
        if let Some(health) = verdict {
            let trouble = self.region(index).trouble();
            let detail = trouble.as_deref().map(|it| (it.address.as_str(), it.message.as_str()));
            event::region_health(metrics, health == Health::Healthy, report.why, detail);
        }
    }

    /// Lets time act on a region: the end of cooldowns and of hold-down, and the failure ratios.
    pub fn tick(&self, index: RegionIndex) {
        let (now, totals) = (self.clock.now(), self.region(index).counters.totals());
        self.change(index, |keeper, view| keeper.tick(now, index, &totals, view));
    }

    /// Lets time act on every region that it can change.
    pub fn tick_all(&self) {
        let moving: Vec<_> = {
            let keeper = self.keeper.lock();
            let moves = |region: &&Arc<Region>| !keeper.is_at_rest(region.index, &region.counters.totals());
            self.regions.iter().filter(moves).map(|region| region.index).collect()
        };
        moving.into_iter().for_each(|index| self.tick(index));
    }

    /// Takes the figures of a load poll.
    pub fn on_load(&self, index: RegionIndex, merge: impl FnOnce(&mut LoadFigures)) {
        self.change(index, |_, view| {
            merge(&mut view.load);
            Change { shows: true, ..Change::default() }
        });
    }

    /// Resolves when every region fails at once, so that our own network is to be checked.
    pub async fn all_fail(&self) {
        self.all_fail.notified().await;
    }

    /// Whether failures are held to be our own.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.keeper.lock().is_suspect()
    }

    /// Takes the result of a check of our own network.
    pub fn on_own_check(&self, passed: bool) {
        let mut keeper = self.keeper.lock();
        let mut next = View::clone(&self.view.load());
        let Some((suspect, changes)) = keeper.on_own_check(self.clock.now(), passed, &mut next) else { return };
        for region in &self.regions {
            // The next success of any region is reported: it ends the suspicion.
            region.counters.heeds.store(Change::ANY, Relaxed);
        }
        changes.iter().for_each(|(index, change)| self.explain(*index, change));
        self.publish(next);
        drop(keeper);
        event::self_suspect(&self.metrics, suspect);
        changes.iter().for_each(|(index, change)| self.report(*index, change));
    }

    /// Changes one region's state under the lock, and swaps the view where that shows.
    fn change(&self, index: RegionIndex, change: impl FnOnce(&mut Keeper, &mut RegionView) -> Change) {
        let mut keeper = self.keeper.lock();
        let was_suspect = keeper.is_suspect();
        let current = self.view.load();
        let Some(mut region) = current.regions.get(index.get()).cloned() else { return };
        let change = change(&mut keeper, &mut region);
        // Under the lock, so that the flags and the state cannot disagree.
        if let Some(heeds) = change.heeds {
            self.region(index).counters.heeds.store(heeds, Relaxed);
        }
        self.explain(index, &change);
        if change.shows {
            let mut next = View::clone(&current);
            if let Some(slot) = next.regions.get_mut(index.get()) {
                *slot = region;
            }
            self.publish(next);
        }
        let all_fail = keeper.wants_check(self.clock.now());
        let recovered = was_suspect && !keeper.is_suspect();
        drop(keeper);
        if recovered {
            event::self_suspect(&self.metrics, false);
        }
        self.report(index, &change);
        if all_fail {
            self.all_fail.notify_one();
        }
    }

    /// Says why a breaker moved, before the view shows that it did.
    fn explain(&self, index: RegionIndex, change: &Change) {
        if let Some(transition) = change.breaker {
            self.region(index).explain(transition, self.clock.unix_ms());
        }
    }

    /// Puts a complete view in place of the one before.
    fn publish(&self, mut view: View) {
        settle(&mut view, self.clock.now());
        self.view.store(Arc::new(view));
    }

    /// Reports a change once it is in force, and wakes the tasks that wait for one.
    fn report(&self, index: RegionIndex, change: &Change) {
        let metrics = self.metrics.region(index.get());
        if let Some(Transition { from, to, cause }) = change.breaker {
            event::breaker_transition(metrics, word(from), word(to), cause.as_str());
            self.changed[index.get()].notify_one();
        }
        for (class, state) in &change.guards {
            event::guard_transition(metrics, class.index(), class.as_str(), state.as_str());
        }
        if let Some(silent) = change.silent {
            if silent {
                self.region(index).retire_connections();
            }
            event::silence(metrics, silent);
            self.changed[index.get()].notify_one();
        }
        if let Some(held) = change.held {
            event::hold_down(metrics, held);
        }
    }
}

const fn word(state: BreakerState) -> telemetry::Breaker {
    match state {
        BreakerState::Closed => telemetry::Breaker::Closed,
        BreakerState::Open => telemetry::Breaker::Open,
        BreakerState::HalfOpen => telemetry::Breaker::HalfOpen,
    }
}

mod hub_lease;
mod hub_view;
mod switching;
#[cfg(test)]
mod tests;
