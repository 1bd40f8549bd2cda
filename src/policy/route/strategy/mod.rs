//! The strategies: each puts candidates of equal standing in order.
//!
//! A strategy gives every candidate a key (lower is better), between equal keys a tie-breaker, a score from 0 to 1 of the
//! same term, and a reason. It sees only regions that may be tried, so that no strategy can widen a pin.
//!
//! A new strategy is a row in `base/strategy.rs`, a file here with its `RULES`, and an arm of [`rules`].

mod active_passive;
mod affinity;
mod geo_pin;
mod geographic;
mod latency;
mod order;
mod overflow;
mod round_robin;
mod rules;
mod weighted;

pub(super) use rules::{Home, Rules, VariesBy};

use super::ranking::{Context, Slot};
use crate::base::{Needs, Strategy};
use crate::policy::view::View;

/// The rules of a strategy. Outside of tests, only this match and the table in `base` name single strategies.
pub(super) const fn rules(strategy: Strategy) -> &'static Rules {
    match strategy {
        Strategy::Affinity => &affinity::RULES,
        Strategy::Overflow => &overflow::RULES,
        Strategy::GeoPin => &geo_pin::RULES,
        Strategy::RoundRobin => &round_robin::RULES,
        Strategy::LatencyBased => &latency::RULES,
        Strategy::Weighted => &weighted::RULES,
        Strategy::ActivePassive => &active_passive::RULES,
        Strategy::Geographic => &geographic::RULES,
    }
}

/// Puts candidates in order, best first.
pub(super) fn rank(strategy: Strategy, context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    if strategy.needs() == Needs::Table {
        (rules(fallback(context.view)).rank)(context, slots);
    }
    (rules(strategy).rank)(context, slots);
}

/// The strategy that ranks where a table has no usable region for a job.
pub(super) fn fallback(view: &View) -> Strategy {
    match view.settings.strategy.needs() {
        Needs::Nothing => view.settings.strategy,
        Needs::Region | Needs::Table => Strategy::DEFAULT,
    }
}

/// Whether the strategy means the local region, while all is well.
#[must_use]
pub fn means_local(strategy: Strategy) -> bool {
    rules(strategy).home == Home::Local
}

#[cfg(test)]
mod tests;
