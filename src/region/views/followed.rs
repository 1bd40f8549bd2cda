//! The views of a hub in force at a sidecar.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::event::{FeedFigure, FeedView, FeedViews};
use super::figures::{Figures, Of};
use super::freshness::{FRESH_INTERVALS, Freshness};
use super::trust::Trust;
use crate::base::Draw;
use crate::config::Config;
use crate::policy::{BreakerState, Figure, Health, RegionIndex};
use crate::region::{ProbeReport, Registry, Traffic, Trouble};

/// A figure that is no more than this younger than the known one is the known one, sent again: its age is rounded, and its way takes time.
const SAME_FIGURE: Duration = Duration::from_millis(250);
/// The longest version of OJS that is shown. Units: bytes.
const VERSION_BYTES_MAX: usize = 64;

/// The views that a sidecar has from its hub, for one configuration. Lives on the control thread.
#[derive(Debug)]
pub struct HubViews {
    registry: Arc<Registry>,
    traffic: Arc<Traffic>,
    /// The figure that this sidecar routes by, as `load.source` names it.
    load: &'static str,
    load_interval: Duration,
    queues_max: usize,
    /// The queues with shards.
    sharded: Vec<String>,
    fresh_for: Duration,
    trust: Vec<Trust>,
    state: RefCell<State>,
    changed: Vec<Notify>,
}

#[derive(Debug)]
struct State {
    freshness: Freshness,
    draw: Draw,
    /// The hub's last probe of each region that was taken from the present feed, and whether it was healthy.
    last: Vec<Option<(u64, bool)>>,
    /// Whether the hub polls the figures that this sidecar routes by.
    has_load: bool,
    /// Those that it has sent of each region.
    figures: Vec<Figures>,
}

impl HubViews {
    /// No views yet.
    #[must_use]
    pub fn new(config: &Config, registry: Arc<Registry>, traffic: Arc<Traffic>, mut draw: Draw) -> Self {
        let (regions, interval) = (registry.regions().len(), config.health_check.interval);
        let freshness = Freshness::new(regions, interval, registry.clock().now(), draw.unit());
        Self {
            load: config.load.source.as_str(),
            load_interval: config.load.interval,
            queues_max: config.load.queues_max,
            sharded: config.scheduling.tenant_queues.iter().map(|it| it.queue.clone()).collect(),
            fresh_for: interval * FRESH_INTERVALS,
            trust: registry.regions().iter().map(|region| Trust::of(config, region.config())).collect(),
            state: RefCell::new(State {
                freshness,
                draw,
                last: vec![None; regions],
                has_load: false,
                figures: (0..regions).map(|_| Figures::default()).collect(),
            }),
            changed: (0..regions).map(|_| Notify::new()).collect(),
            registry,
            traffic,
        }
    }

    /// A new feed is open: its numbers of probes are those of another hub.
    pub fn opened(&self) {
        self.state.borrow_mut().last.fill(None);
    }

    /// The feed is lost: this sidecar soon probes by itself.
    pub fn lost(&self) {
        let (now, state) = (self.now(), &mut *self.state.borrow_mut());
        let share = state.draw.unit();
        state.freshness.on_lost(now, share);
        self.changed.iter().for_each(Notify::notify_one);
    }

    /// Takes an event of the feed. Views that are too old, and those of regions that are not in the configuration, are left out.
    pub fn take(&self, views: &FeedViews) {
        let known = |view| Some((self.index_of(view)?, view, self.probed_at(view, views.age_ms)?));
        let fresh: Vec<_> = views.regions.iter().filter_map(known).collect();
        let sees_any = fresh.is_empty() || fresh.iter().any(|(_, view, _)| view.healthy);
        {
            let (now, state) = (self.now(), &mut *self.state.borrow_mut());
            let share = state.draw.unit();
            state.freshness.on_views(now, sees_any, share);
            state.has_load = views.load == self.load;
        }
        for (index, view, at) in fresh.into_iter().filter(|(index, ..)| self.trust(*index) != Trust::Never) {
            self.take_view(index, view, at);
            self.take_load(index, view, views.age_ms);
        }
        self.changed.iter().for_each(Notify::notify_one);
    }

    fn take_view(&self, index: RegionIndex, view: &FeedView, at: Instant) {
        let (is_new, is_doubtful) = {
            let state = &mut *self.state.borrow_mut();
            let seen = Some((view.probe, view.healthy));
            let before = state.last.get_mut(index.get()).and_then(|last| std::mem::replace(last, seen));
            (before != seen, state.freshness.is_doubtful(index))
        };
        if !is_new || (!view.healthy && is_doubtful) || self.knows_better(index, at) {
            return;
        }
        // Only now: a view that is not used keeps no probe of our own away.
        let decides = self.breaker(index) == BreakerState::HalfOpen;
        self.note_used(index, at, view.healthy, decides);
        let decides_alone = self.trust(index) == Trust::Alone;
        if !view.healthy && decides && !decides_alone {
            // Only the hub may be cut off from the region: a probe of our own decides.
            return;
        }
        let region = self.registry.region(index);
        // The hub decides when it probes next.
        region.set_next_probe(0);
        if let Some(version) = view.ojs_version.as_ref().filter(|it| it.len() <= VERSION_BYTES_MAX) {
            region.note_ojs_version(version.clone());
        }
        let trouble = (!view.healthy).then(|| {
            let (message, status) = view.trouble.as_ref().map_or(("", None), |it| (it.message.as_str(), it.status));
            let unix_ms = self.registry.clock().unix_ms();
            Trouble::of_hub((&region.config().url, &region.addresses()), message, status, unix_ms)
        });
        let why = if view.healthy { "ok" } else { "hub_probe" };
        let age = self.now().saturating_duration_since(at);
        let round_trip = view.round_trip_us.map(Duration::from_micros);
        let report = ProbeReport { healthy: view.healthy, round_trip, why, of_hub: Some(age) };
        self.registry.on_view(index, report, trouble, decides_alone);
        if self.breaker(index) == BreakerState::Open {
            // Silence; the first failure behind the cooldown is checked.
            self.state.borrow_mut().freshness.call_off_check(index);
        }
    }

    fn trust(&self, index: RegionIndex) -> Trust {
        self.trust.get(index.get()).copied().unwrap_or(Trust::Never)
    }

    fn note_used(&self, index: RegionIndex, at: Instant, healthy: bool, decides: bool) {
        let (now, state) = (self.now(), &mut *self.state.borrow_mut());
        state.freshness.on_view(index, at, healthy);
        if !healthy {
            let share = state.draw.unit();
            state.freshness.on_failure(index, now, decides, share);
        }
    }

    fn breaker(&self, index: RegionIndex) -> BreakerState {
        self.registry.view().region(index).breaker
    }

    /// Whether a probe of our own ended behind the one of a view, such as the first view of a feed that is open again.
    fn knows_better(&self, index: RegionIndex, at: Instant) -> bool {
        self.registry.view().region(index).own_probe_at.is_some_and(|own| own > at)
    }

    fn take_load(&self, index: RegionIndex, view: &FeedView, sent_ms_ago: u64) {
        let ours = if view.queues.is_empty() { Vec::new() } else { self.traffic.queues() };
        // The hub polls a queue's own name, which is not all of a queue with shards.
        let ours = ours.into_iter().filter(|queue| !self.is_sharded(queue));
        let queues = ours.filter_map(|queue| view.queues.get(&*queue).map(|figure| (Some(queue), figure)));
        for (queue, figure) in view.total.iter().map(|total| (None, total)).chain(queues) {
            self.take_figure(index, queue, figure, sent_ms_ago);
        }
    }

    /// Takes a figure of a queue, or the total. Jobs that were sent until now count as part of it: they are those of the second or so since it
    /// was polled, as with the figures of our own polls.
    fn take_figure(&self, index: RegionIndex, of: Of, figure: &FeedFigure, sent_ms_ago: u64) {
        let age = Duration::from_millis(figure.age_ms.saturating_add(sent_ms_ago));
        let Some(at) = self.now().checked_sub(age) else { return };
        if let Some(figures) = self.state.borrow_mut().figures.get_mut(index.get()) {
            figures.on_figure(of.clone(), at);
        }
        let queue = of.as_deref();
        let is_new = {
            let view = self.registry.view();
            let load = &view.region(index).load;
            let known = queue.map_or_else(|| load.total(), |queue| load.queue(queue));
            known.is_none_or(|known: Figure| at > known.at + SAME_FIGURE)
        };
        if !is_new {
            return;
        }
        self.traffic.figure_taken(index, queue, self.traffic.mark(index, queue));
        self.registry.on_load(index, |load| match queue {
            Some(queue) => load.set_queue(queue, figure.depth, at, self.queues_max),
            None => load.set_total(figure.depth, at),
        });
    }

    fn is_sharded(&self, queue: &str) -> bool {
        self.sharded.iter().any(|sharded| *sharded == *queue)
    }

    fn index_of(&self, view: &FeedView) -> Option<RegionIndex> {
        self.registry.regions().iter().find(|region| region.id.as_str() == view.id).map(|region| region.index)
    }

    /// When the probe of a view ended; none where that is too long ago.
    fn probed_at(&self, view: &FeedView, sent_ms_ago: u64) -> Option<Instant> {
        let age = Duration::from_millis(view.age_ms.saturating_add(sent_ms_ago));
        if age > self.fresh_for { None } else { self.now().checked_sub(age) }
    }

    fn now(&self) -> Instant {
        self.registry.clock().now()
    }

    /// From when on this sidecar probes the region by itself, unless views come before: without views, or to check a failed one.
    pub(in crate::region) fn own_from(&self, index: RegionIndex) -> Instant {
        self.state.borrow().freshness.own_from(index)
    }

    /// Whether the hub's views stand for probes of our own, and none of them is to be checked.
    pub(in crate::region) fn is_followed(&self, index: RegionIndex) -> bool {
        self.now() < self.own_from(index)
    }

    /// Those among the figures of a region that are to be polled here, because the hub does not send them: all where it is not followed, and none of
    /// another spoke. None among the figures is the total.
    pub(in crate::region) fn without_figure(&self, index: RegionIndex, wanted: Vec<Of>) -> Vec<Of> {
        if self.trust(index) == Trust::Alone {
            return Vec::new();
        }
        let (now, state) = (self.now(), &mut *self.state.borrow_mut());
        let Some(figures) = state.figures.get_mut(index.get()) else { return wanted };
        if state.has_load && now < state.freshness.used_until(index) {
            // The hub sends no figure of a queue with shards.
            let is_sharded = |of: &Of| of.as_deref().is_some_and(|queue| self.is_sharded(queue));
            let (mut missing, wanted): (Vec<Of>, Vec<Of>) = wanted.into_iter().partition(is_sharded);
            missing.extend(figures.missing(now, self.load_interval, wanted));
            return missing;
        }
        figures.clear();
        wanted
    }

    /// A region that is not polled now: once it is, the hub's figures are waited for, so that a fleet does not poll it at once.
    pub(in crate::region) fn await_figures(&self, index: RegionIndex) {
        if let Some(figures) = self.state.borrow_mut().figures.get_mut(index.get()) {
            figures.clear();
        }
    }

    /// Takes the result of a probe of our own. One that is answered well while the hub's failed means that the hub is not heeded.
    pub(in crate::region) fn on_own_probe(&self, index: RegionIndex, healthy: bool) {
        let state = &mut *self.state.borrow_mut();
        let hub_failed = state.last.get(index.get()).is_some_and(|last| matches!(last, Some((_, false))));
        state.freshness.on_own_probe(index, healthy, healthy && hub_failed);
    }

    /// Resolves when [`HubViews::own_from`] may be another moment since the last call.
    pub(in crate::region) async fn changed(&self, index: RegionIndex) {
        match self.changed.get(index.get()) {
            Some(changed) => changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Resolves at the first view of a region, or when this sidecar is to probe it.
    pub async fn first(&self, index: RegionIndex) {
        let clock = self.registry.clock();
        while self.registry.view().region(index).health == Health::Unknown && self.is_followed(index) {
            tokio::select! {
                () = clock.sleep_until(self.own_from(index)) => {}
                () = self.changed(index) => {}
            }
        }
    }
}
