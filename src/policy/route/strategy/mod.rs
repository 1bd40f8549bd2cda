//! The strategies: each puts candidates of equal standing in order.
//!
//! A strategy gives every candidate a key (lower is better), between equal keys a tie-breaker, a score from 0 to 1 of the
//! same term, and a reason. It sees only regions that may be tried, so that no strategy can widen a pin.

mod active_passive;
mod affinity;
mod geo_pin;
mod geographic;
mod latency;
mod order;
mod overflow;
mod round_robin;
mod weighted;

use super::plan::{Plan, fallback};
use super::ranking::{Context, Slot};
use crate::base::Strategy;

/// Puts candidates in order, best first.
pub(super) fn rank(context: &mut Context<'_, '_>, plan: &Plan<'_>, slots: &mut [Slot]) {
    rank_by(plan.strategy, context, plan, slots);
}

fn rank_by(strategy: Strategy, context: &mut Context<'_, '_>, plan: &Plan<'_>, slots: &mut [Slot]) {
    match strategy {
        Strategy::Affinity => affinity::rank(context, plan.local, slots),
        Strategy::Overflow => overflow::rank(context, slots),
        Strategy::GeoPin => geo_pin::rank(context, plan.local, slots),
        Strategy::RoundRobin => round_robin::rank(context, slots),
        Strategy::LatencyBased => latency::rank(context, slots),
        Strategy::Weighted => weighted::rank(context, slots),
        Strategy::ActivePassive => active_passive::rank(context, slots),
        Strategy::Geographic => {
            rank_by(fallback(context.view), context, plan, slots);
            geographic::put_hinted_first(plan, slots);
        }
    }
}

#[cfg(test)]
mod tests;
