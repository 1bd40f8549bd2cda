//! One immutable snapshot of all regions' state, loaded once per request.
//!
//! The registry is its single writer: it clones the view, makes its changes and swaps it in whole, so that a request
//! never sees the health of one moment beside the breaker of another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::drill::Drill;
use super::load::LoadFigures;
use super::orders::Orders;
use super::pauses::Pauses;
use super::settings::Settings;
use crate::base::{Draw, RegionId, SwitchKind};
use crate::config::{Config, HealthSource, RegionConfig};
use crate::policy::index::RegionIndex;
use crate::policy::machine::{BreakerState, GuardClass, GuardState, Health, Pressure};
use crate::policy::refusal::Refusal;

/// All regions at one moment.
#[derive(Debug, Clone)]
pub struct View {
    /// The regions, in the configured order.
    pub regions: Vec<RegionView>,
    /// The region of this pod.
    pub local: RegionIndex,
    /// Whether no worker gets a job, by a switch.
    pub maintenance: bool,
    /// Whether no worker gets a job until the hub is heard, by `hub.fetch`.
    pub fetch_waits: bool,
    /// The queues, types and tenants that switches pause; none while there are none.
    pub pauses: Option<Arc<Pauses>>,
    /// The drill in force.
    pub drill: Option<Arc<Drill<Self>>>,
    /// The part of the configuration that routing reads.
    pub settings: Arc<Settings>,
    /// The orders that are the same for all jobs, as long as nothing here changes.
    pub(in crate::policy) settled: Cache,
}

/// The result of [`crate::policy::settle`]. A copy is made to be changed, and begins without.
#[derive(Debug, Default)]
pub(in crate::policy) struct Cache(pub(in crate::policy) Option<Orders>);

impl Cache {
    /// The regions that no job can go to, with the reason, where that is known for all jobs.
    pub(in crate::policy) fn unusable(&self) -> &[(RegionIndex, Refusal)] {
        self.0.as_ref().map_or(&[], Orders::unusable)
    }
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The state of one region.
#[derive(Debug, Clone)]
pub struct RegionView {
    /// Its identifier.
    pub id: RegionId,
    /// Its share of traffic; 0 means drained.
    pub weight: u32,
    /// Free tags, for display.
    pub tags: Vec<String>,
    /// Affinity leaves the region while its queue is at least this deep.
    pub max_queue_depth: Option<u64>,
    /// The verdict of its probes.
    pub health: Health,
    /// Whether traffic flows.
    pub breaker: BreakerState,
    /// When an open breaker becomes half-open.
    pub open_until: Option<Instant>,
    /// Mean round trip of its probes; `None` before the first answer.
    pub latency: Option<Duration>,
    /// How busy its queues are.
    pub load: LoadFigures,
    /// When it last came back, healthy and with its breaker closed, after having been unusable: the start of the ramp.
    pub recovered_at: Option<Instant>,
    /// When it was last healthy with its breaker closed, where it is not now; none where it never was.
    pub well_until: Option<Instant>,
    /// Which calls are kept from it, by [`GuardClass::index`].
    pub guards: [GuardState; GuardClass::REFUSABLE],
    /// How hard it asks for less.
    pub pressure: Option<Pressure>,
    /// The share of enqueues that failed there lately, from 0 to 1 in steps of a twentieth.
    pub failing: f64,
    /// Whether it came and went too often, so that flexible jobs leave it alone until it was quiet.
    pub held: bool,
    /// The switch that is set for it.
    pub switch: Option<SwitchKind>,
    /// Whether it gets nothing that is routed, because this sidecar is a spoke that does not hear its hub.
    pub is_cut_off: bool,
    /// Whether it counts as one that has fallen out, in the view that a drill decides by.
    pub is_drilled: bool,
    /// Whether it answers nothing, without refusing anything: flexible jobs go elsewhere while there is another candidate.
    pub silent: bool,
    /// When its last probe ended, for display. Units: milliseconds since the Unix epoch.
    pub last_probe_unix_ms: Option<u64>,
    /// When the last probe of our own ended, whatever the wall clock says.
    pub own_probe_at: Option<Instant>,
    /// Whose probe that was.
    pub probed_by: HealthSource,
    /// The time of the last change of its health, for display. Units: milliseconds since the Unix epoch.
    pub status_since_unix_ms: Option<u64>,
}

impl RegionView {
    /// A region of which nothing is known but its configuration.
    #[must_use]
    pub fn unprobed(region: &RegionConfig) -> Self {
        Self {
            weight: region.weight,
            tags: region.tags.clone(),
            max_queue_depth: region.max_queue_depth,
            ..Self::unknown(region.id.clone())
        }
    }

    /// A region of which nothing is known but its identifier.
    pub(in crate::policy) fn unknown(id: RegionId) -> Self {
        Self {
            id,
            weight: 1,
            tags: Vec::new(),
            max_queue_depth: None,
            health: Health::Unknown,
            breaker: BreakerState::Closed,
            open_until: None,
            latency: None,
            load: LoadFigures::default(),
            recovered_at: None,
            well_until: None,
            guards: [GuardState::FLOWING; GuardClass::REFUSABLE],
            pressure: None,
            failing: 0.0,
            held: false,
            switch: None,
            is_cut_off: false,
            is_drilled: false,
            silent: false,
            last_probe_unix_ms: None,
            own_probe_at: None,
            probed_by: HealthSource::Own,
            status_since_unix_ms: None,
        }
    }
}

impl RegionView {
    /// The same region with the figures of one queue only.
    pub(in crate::policy) fn of_queue(&self, queue: &str) -> Self {
        Self {
            load: self.load.of_queue(queue),
            tags: Vec::new(),
            health: self.health,
            breaker: self.breaker,
            open_until: self.open_until,
            latency: self.latency,
            recovered_at: self.recovered_at,
            well_until: self.well_until,
            held: self.held,
            switch: self.switch,
            ..Self::unknown(self.id.clone())
        }
    }

    /// Whether the operator has taken flexible jobs from it: its weight is 0, or a switch drains, evacuates or isolates it.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let kind = self.switch;
        self.weight == 0 || kind.is_some_and(|kind| kind == SwitchKind::Drain || kind.refuses_pinned())
    }

    /// Whether no worker gets a job from it, because a switch isolates it.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.switch == Some(SwitchKind::Isolate)
    }

    /// The guard of a class; one of a class that is never refused always lets calls through.
    #[must_use]
    pub fn guard(&self, class: GuardClass) -> GuardState {
        self.guards.get(class.index()).copied().unwrap_or(GuardState::FLOWING)
    }

    /// Whether the guard of its class lets a call through; in trial it does for a share of calls.
    pub fn admits(&self, class: GuardClass, now: Instant, draw: &mut Draw) -> bool {
        self.guard(class).admits(now, draw)
    }

    /// The refusal that the region's own state causes. `is_bound`: the job may go to no other region, so that it goes to a drained one.
    pub(in crate::policy) fn unusable(&self, is_bound: impl FnOnce() -> bool) -> Option<Refusal> {
        if self.weight == 0 {
            return Some(Refusal::Drained);
        }
        // Hardly ever either, and then nothing else is looked at.
        if (self.switch.is_some() || self.is_cut_off || self.is_drilled)
            && let Some(refusal) = self.taken_out(is_bound)
        {
            return Some(refusal);
        }
        match (self.breaker, self.health) {
            (BreakerState::Open, _) => Some(Refusal::BreakerOpen),
            (BreakerState::HalfOpen, _) => Some(Refusal::HalfOpen),
            (BreakerState::Closed, Health::Unhealthy) => Some(Refusal::Unhealthy),
            (BreakerState::Closed, Health::Healthy | Health::Unknown) => {
                matches!(self.guard(GuardClass::Enqueue), GuardState::Open { .. }).then_some(Refusal::GuardOpen)
            }
        }
    }
}

impl RegionView {
    /// The refusal that a switch or the loss of the hub causes.
    #[cold]
    fn taken_out(&self, is_bound: impl FnOnce() -> bool) -> Option<Refusal> {
        match self.switch {
            _ if self.is_cut_off => Some(Refusal::HubLost),
            Some(SwitchKind::Isolate) => Some(Refusal::Isolated),
            Some(SwitchKind::Evacuate) => Some(Refusal::Evacuated),
            Some(SwitchKind::Drain) if !is_bound() => Some(Refusal::Drained),
            _ if self.is_drilled => Some(Refusal::Drilled),
            Some(_) | None => None,
        }
    }
}

impl View {
    /// The view at start, before any probe.
    #[must_use]
    pub fn unprobed(config: &Config) -> Self {
        let settings = Arc::new(Settings::of(config));
        let regions = config.regions.iter().map(RegionView::unprobed).collect();
        let (local, settled) = (settings.local, Cache::default());
        let (maintenance, fetch_waits) = (false, false);
        let (pauses, drill) = (None, None);
        let mut view = Self { regions, local, maintenance, fetch_waits, pauses, drill, settings, settled };
        // There is no picture of the hub's before it is heard.
        view.set_hub_lost(true);
        view
    }

    /// A view of regions in these states, for a question of a spoke.
    pub(in crate::policy) fn framed(regions: Vec<RegionView>, settings: Settings) -> Self {
        let (settings, settled) = (Arc::new(settings), Cache::default());
        let (maintenance, fetch_waits, pauses, drill) = (false, false, None, None);
        Self { regions, local: settings.local, maintenance, fetch_waits, pauses, drill, settings, settled }
    }

    /// The region with this id, compared exactly.
    #[must_use]
    pub fn index_of(&self, id: &str) -> Option<RegionIndex> {
        self.settings.index_of(id)
    }

    /// The state of one region; the index is one of this configuration's.
    #[must_use]
    pub fn region(&self, index: RegionIndex) -> &RegionView {
        &self.regions[index.get()]
    }

    /// The other regions that work may be taken from: healthy, with traffic flowing, neither of weight 0 nor isolated; the nearest first.
    #[must_use]
    pub fn nearest_others(&self) -> SmallVec<[RegionIndex; 8]> {
        let serves = |index: &RegionIndex| {
            let region = self.region(*index);
            let flows = region.breaker == BreakerState::Closed && !region.silent && !region.is_cut_off;
            let flows = flows && region.weight > 0 && !region.is_isolated();
            *index != self.local && flows && region.health == Health::Healthy
        };
        let mut others: SmallVec<[RegionIndex; 8]> = self.indexes().filter(serves).collect();
        // A region without a measured latency counts as the farthest.
        others.sort_by_key(|index| self.region(*index).latency.unwrap_or(Duration::MAX));
        others
    }

    /// The regions that a connection is kept ready to, while they are well: the local one, and the first that takes its jobs.
    #[must_use]
    pub fn kept_warm(&self) -> SmallVec<[RegionIndex; 2]> {
        let is_well = |index: &RegionIndex| {
            let region = self.region(*index);
            let flows = region.breaker == BreakerState::Closed && !region.is_drained() && !region.is_cut_off;
            flows && region.health == Health::Healthy && !region.silent
        };
        let local = std::iter::once(self.local);
        let next = self.settled.0.as_ref().and_then(|settled| settled.first_but(self.local));
        local.chain(next.or_else(|| self.nearest_others().first().copied())).filter(is_well).collect()
    }

    /// Whether this sidecar is a spoke that does not hear its hub.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.regions.iter().any(|region| region.is_cut_off)
    }

    /// Whether the loss of the hub has an effect now.
    #[must_use]
    pub fn is_hub_lost(&self) -> bool {
        self.fetch_waits || self.is_cut_off()
    }

    /// Puts the effects of the loss of the hub in force, as far as the configuration has any, or ends them.
    pub fn set_hub_lost(&mut self, is_lost: bool) {
        let (is_spoke, fetches_when_heard) = self.settings.without_hub();
        self.set_cut_off(is_lost && is_spoke);
        self.fetch_waits = is_lost && fetches_when_heard;
    }

    /// Cuts this sidecar off from all regions but the local one, or ends that.
    pub fn set_cut_off(&mut self, is_cut_off: bool) {
        let others = self.regions.iter_mut().enumerate().filter(|(place, _)| *place != self.local.get());
        others.for_each(|(_, region)| region.is_cut_off = is_cut_off);
    }

    /// Whether no job fails over into the region: the configuration or a switch says so.
    pub(in crate::policy) fn is_excluded(&self, index: RegionIndex) -> bool {
        self.settings.excluded.contains(index) || self.region(index).switch == Some(SwitchKind::Forbid)
    }

    /// Whether no region is preferred or excluded when a job fails over.
    pub(in crate::policy) fn is_free_to_fail_over(&self) -> bool {
        self.settings.prefers_none() && !self.indexes().any(|index| self.is_excluded(index))
    }

    /// Every region's index, in the configured order.
    pub fn indexes(&self) -> impl Iterator<Item = RegionIndex> + use<> {
        (0..self.regions.len()).map(RegionIndex::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{settle, testing};

    #[test]
    fn connections_are_kept_to_the_local_region_and_the_next_one_while_they_are_well() {
        let mut view = View::unprobed(&testing::config(&["a", "b", "c"]));
        assert!(view.kept_warm().is_empty(), "nothing is known");
        for (region, latency) in view.regions.iter_mut().zip([1, 9, 3]) {
            region.health = Health::Healthy;
            region.latency = Some(Duration::from_millis(latency));
        }
        for settled in [false, true] {
            if settled {
                settle(&mut view, Instant::now());
            }
            assert_eq!(view.kept_warm().as_slice(), [RegionIndex::new(0), RegionIndex::new(2)]);
        }
        let mut view = view.clone();
        view.regions[0].silent = true;
        view.regions[2].weight = 0;
        settle(&mut view, Instant::now());
        assert_eq!(view.kept_warm().as_slice(), [RegionIndex::new(1)]);
    }

    #[test]
    fn work_is_taken_from_usable_regions_the_nearest_first() {
        let mut view = View::unprobed(&testing::config(&["a", "b", "c", "d", "e", "f"]));
        for (region, latency) in view.regions.iter_mut().zip([1, 9, 3, 4, 5, 6]) {
            region.health = Health::Healthy;
            region.latency = Some(Duration::from_millis(latency));
        }
        view.regions[3].weight = 0;
        view.regions[4].breaker = BreakerState::HalfOpen;
        view.regions[5].latency = None;
        assert_eq!(view.nearest_others().as_slice(), [RegionIndex::new(2), RegionIndex::new(1), RegionIndex::new(5)]);
        view.regions[1].health = Health::Unknown;
        assert_eq!(view.nearest_others().as_slice(), [RegionIndex::new(2), RegionIndex::new(5)]);
        view.regions[5].switch = Some(SwitchKind::Evacuate);
        view.regions[2].switch = Some(SwitchKind::Isolate);
        assert_eq!(view.nearest_others().as_slice(), [RegionIndex::new(5)]);
    }
}
