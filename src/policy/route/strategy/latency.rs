//! The region with the lowest observed latency. Spec: federation-spec §4.4.
//!
//! Order: mean probe round trip, lowest first, unprobed last; equals are drawn by weight.
//! Score: the lowest latency over the region's own, 0.1 where it is unknown.

use super::super::ranking::{Context, Reason, Slot};
use super::affinity::nearness;
use super::order::{race, sort};
use super::rules::{Home, Rules, VariesBy};

pub(super) const RULES: Rules =
    Rules { rank, home: Home::Unset, heeds_capacity: false, varies_by: VariesBy::EqualLatencies };

fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    let view = context.view;
    let lowest = slots.iter().filter_map(|slot| view.region(slot.region).latency).min();
    for slot in &mut *slots {
        let region = view.region(slot.region);
        slot.key = region.latency.map_or(f64::INFINITY, |latency| latency.as_secs_f64());
        slot.tie = race(&mut context.draw, f64::from(region.weight));
        slot.score = nearness(lowest, region.latency);
        slot.reason = Reason::Latency(region.latency);
    }
    sort(slots);
}
