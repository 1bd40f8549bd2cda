//! Probes, polls and the second's work of a sidecar, and whether its budgets hold.

use std::time::Duration;

use ojs_sidecar::policy::{Probe, RegionIndex};

use super::{Event, Probing, Sim};
use crate::config::{BUDGET_BURST, BUDGET_FLOOR, BUDGET_RATIO};
use crate::scenario::Sabotage;

impl Sim {
    pub(super) fn probe(&mut self, sidecar: usize, region: usize) {
        let it = &mut self.sidecars[sidecar];
        let half_open = it.view.regions[region].breaker.as_str() == "half-open";
        let freely = self.scenario.plain_probes || half_open && self.scenario.sabotage == Some(Sabotage::ProbesFreely);
        let permit = it.keeper.probe_permitted(RegionIndex::new(region));
        if half_open && it.half_open_out[region] > 0 && (permit.is_some() || freely) {
            let what = format!("sidecar {sidecar} sent another one to {region}");
            self.ledger.breach("one probe in half-open", what);
        }
        if permit.is_none() && !freely {
            // Nobody may probe: asked again when something changes, which a tick sees.
            return self.after(1_000, Event::Probe { sidecar, region });
        }
        it.half_open_out[region] += u32::from(half_open);
        if half_open && it.keeper.probe_permitted(RegionIndex::new(region)).is_some() {
            let what = format!("sidecar {sidecar} may send another one to {region}");
            self.ledger.breach("one probe in half-open", what);
        }
        let (ok, ms) = self.regions[region].probe(self.now_ms, sidecar);
        self.after(ms, Event::Probed { sidecar, region, probing: Probing { permit, half_open, ok, ms } });
        let again = self.sidecars[sidecar].half_open_out[region] < 2;
        if half_open && again && self.scenario.sabotage == Some(Sabotage::ProbesFreely) {
            self.after(1, Event::Probe { sidecar, region });
        }
    }

    pub(super) fn probed(&mut self, sidecar: usize, region: usize, probing: Probing) {
        let Probing { permit, half_open, ok, ms } = probing;
        let now = self.now();
        let plain = self.scenario.plain_probes;
        let it = &mut self.sidecars[sidecar];
        it.half_open_out[region] -= u32::from(half_open);
        if let Some(permit) = permit {
            let probe = Probe { healthy: ok, round_trip: ok.then(|| Duration::from_millis(ms)) };
            let index = RegionIndex::new(region);
            let change = it.keeper.on_probe(now, index, permit, probe, &mut it.view.regions[region]);
            it.heed(region, &change);
        }
        let wait = if plain { 10_000 - ms } else { it.probe_interval().as_millis() as u64 };
        self.after(wait, Event::Probe { sidecar, region });
    }

    pub(super) fn tick(&mut self, sidecar: usize) {
        self.after(1_000, Event::Tick { sidecar });
        let now = self.now();
        let it = &mut self.sidecars[sidecar];
        let every = self.now_ms / 1_000 % 10 == sidecar as u64 % 10;
        for region in 0..self.regions.len() {
            if every || !it.is_calm(region) {
                it.tick(now, region);
            }
        }
    }

    pub(super) fn poll(&mut self, sidecar: usize) {
        if self.scenario.drain_per_s > 1e8 {
            return;
        }
        self.after(10_000, Event::Poll { sidecar });
        let now = self.now();
        for region in 0..self.regions.len() {
            let depth = self.regions[region].depth_now(self.now_ms);
            self.sidecars[sidecar].polled(now, region, depth);
        }
    }

    pub(super) fn check_budgets(&mut self) {
        let burst_and_floor = BUDGET_BURST + BUDGET_FLOOR * (self.now_ms as f64 / 1_000.0);
        for (place, it) in self.sidecars.iter().enumerate() {
            let mut check = |what: &str, charged: u64, requests: u64| {
                let allowed = burst_and_floor + BUDGET_RATIO * requests as f64;
                if charged as f64 > allowed + 1e-6 {
                    let what = format!("sidecar {place}, {what}: {charged} redirects of {allowed:.1}");
                    self.ledger.breach("attempts within budget", what);
                }
            };
            check("overall", it.charged, it.requests);
            for region in 0..self.regions.len() {
                check("one region", it.charged_to[region], it.requests_to[region]);
            }
        }
    }
}
