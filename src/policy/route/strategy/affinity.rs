//! The local region while it is usable, else the preferred or the nearest one. Spec: federation-spec §3.1.
//!
//! Order: local; then `prefer_regions`; then by latency, lowest first and unprobed last; then the configured order.
//! Score: 1 for local; for the others 0.9 times the lowest latency among them over their own, 0.09 where it is unknown.

use std::time::Duration;

use super::super::ranking::{Context, Reason, Slot};
use super::order::sort;
use super::rules::{Home, Rules, VariesBy};
use crate::policy::view::NOT_PREFERRED;

/// A region that is not local scores at most this.
const REMOTE: f64 = 0.9;
const UNKNOWN: f64 = 0.1;

pub(super) const RULES: Rules = Rules { rank, home: Home::Local, heeds_capacity: true, varies_by: VariesBy::Nothing };

pub(super) fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    let (view, local) = (context.view, context.local);
    let latencies = slots.iter().filter(|slot| slot.region != local);
    let lowest = latencies.filter_map(|slot| view.region(slot.region).latency).min();
    for slot in &mut *slots {
        let latency = view.region(slot.region).latency;
        let preference = view.settings.preference(slot.region);
        slot.tie = latency.map_or(f64::INFINITY, |latency| latency.as_secs_f64());
        if slot.region == local {
            (slot.key, slot.score, slot.reason) = (-1.0, 1.0, Reason::Local);
            continue;
        }
        slot.key = f64::from(preference);
        slot.score = REMOTE * nearness(lowest, latency);
        slot.reason = if preference == NOT_PREFERRED { Reason::Latency(latency) } else { Reason::Preferred };
    }
    sort(slots);
}

/// The lowest latency over a region's own: 1 for the nearest.
pub(super) fn nearness(lowest: Option<Duration>, own: Option<Duration>) -> f64 {
    match (lowest, own) {
        (Some(lowest), Some(own)) if own > Duration::ZERO => lowest.as_secs_f64() / own.as_secs_f64(),
        (Some(_), Some(_)) => 1.0,
        _ => UNKNOWN,
    }
}
