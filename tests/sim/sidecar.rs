//! One sidecar: the program's own pure core, and nothing else, between jobs and regions.

use std::time::{Duration, Instant};

use ojs_sidecar::base::Draw;
use ojs_sidecar::config::Config;
use ojs_sidecar::policy::{
    Attempt, Budgets, Change, GuardClass, Health, Keeper, Live, RegionIndex, Shown, Totals, View,
};

use crate::region::Reply;

#[derive(Debug)]
pub struct Sidecar {
    pub keeper: Keeper,
    pub view: View,
    pub budgets: Budgets,
    pub traffic: Traffic,
    pub draw: Draw,
    pub requests: u64,
    pub charged: u64,
    /// Redirects that were charged, by the region that they went to.
    pub charged_to: Vec<u64>,
    pub requests_to: Vec<u64>,
    /// Half-open probes that are out, by region.
    pub half_open_out: Vec<u32>,
    /// How often the first region became usable for flexible jobs, or ceased to be.
    pub changes: u32,
    pub totals: Vec<Totals>,
    heeds: Vec<u8>,
    was_usable: bool,
}

/// What it has under way and has sent: what the program counts in sharded cells.
#[derive(Debug, Default)]
pub struct Traffic {
    pub in_flight: Vec<u64>,
    pub sent: Vec<u64>,
    pub sent_at_poll: Vec<u64>,
}

impl Live for Traffic {
    fn in_flight(&self, region: RegionIndex) -> u64 {
        self.in_flight[region.get()]
    }

    fn sent_since(&self, region: RegionIndex, _: Option<&str>, _: Instant) -> u64 {
        self.sent[region.get()] - self.sent_at_poll[region.get()]
    }

    fn send_rate(&self, _: RegionIndex) -> f64 {
        0.0
    }
}

impl Sidecar {
    pub fn new(config: &Config, seed: u64, start: Instant) -> Self {
        let regions = config.regions.len();
        Self {
            keeper: Keeper::new(config),
            view: View::unprobed(config),
            budgets: Budgets::new(&config.failover, regions, start),
            traffic: Traffic { in_flight: vec![0; regions], sent: vec![0; regions], sent_at_poll: vec![0; regions] },
            draw: Draw::from_seed(seed),
            requests: 0,
            charged: 0,
            charged_to: vec![0; regions],
            requests_to: vec![0; regions],
            half_open_out: vec![0; regions],
            changes: 0,
            totals: vec![Totals::default(); regions],
            heeds: vec![0; regions],
            was_usable: true,
        }
    }

    /// Whether nothing is going on at a region that time would change.
    pub fn is_calm(&self, region: usize) -> bool {
        let state = &self.view.regions[region];
        let guards = state.guards.iter().all(|guard| guard.as_str() == "closed");
        state.breaker.as_str() == "closed"
            && state.health == Health::Healthy
            && guards
            && !state.held
            && state.failing == 0.0
    }

    /// Tells the core what an attempt showed, as the registry does: a success that changes nothing is only counted.
    pub fn attempted(&mut self, now: Instant, region: usize, class: GuardClass, reply: Reply) {
        let (status, _) = match reply {
            Reply::Refused | Reply::Silence => (None, false),
            Reply::Status(status, document) => (Some(status), document),
        };
        let attempt = Attempt { class, status, queue_status: false, retry_after: None, source: None };
        let shown = attempt.shown();
        let totals = &mut self.totals[region];
        let counted = &mut totals.classes[class.index()];
        totals.requests += u64::from(shown != Shown::Nothing);
        counted.calls += u64::from(shown != Shown::Nothing);
        counted.failures += u64::from(shown == Shown::Failure);
        counted.server_errors += u64::from(shown == Shown::ServerError);
        let unheeded = self.heeds[region] & Change::heed_bits(class) == 0;
        if shown == Shown::Success && unheeded {
            return;
        }
        let index = RegionIndex::new(region);
        let change = self.keeper.on_attempt(now, index, &attempt, totals, &mut self.view.regions[region]);
        self.heed(region, &change);
        if self.keeper.wants_check(now) {
            // Its own network is always there in this simulation.
            self.keeper.on_own_check(now, true, &mut self.view);
        }
    }

    pub fn tick(&mut self, now: Instant, region: usize) {
        let (index, totals) = (RegionIndex::new(region), &self.totals[region]);
        let change = self.keeper.tick(now, index, totals, &mut self.view.regions[region]);
        self.heed(region, &change);
    }

    pub fn heed(&mut self, region: usize, change: &Change) {
        self.heeds[region] = change.heeds.unwrap_or(self.heeds[region]);
        let first = &self.view.regions[0];
        let usable = first.breaker.as_str() == "closed" && first.health != Health::Unhealthy && !first.held;
        self.changes += u32::from(usable != self.was_usable);
        self.was_usable = usable;
    }

    /// A load poll of one region.
    pub fn polled(&mut self, now: Instant, region: usize, depth: u64) {
        self.view.regions[region].load.set_queue("default", depth, now, 4);
        self.traffic.sent_at_poll[region] = self.traffic.sent[region];
    }

    /// Until its next probe: ten seconds, give or take a tenth.
    pub fn probe_interval(&mut self) -> Duration {
        Duration::from_secs_f64(10.0 * (0.9 + 0.2 * self.draw.unit()))
    }
}
