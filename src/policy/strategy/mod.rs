//! The strategies: each puts candidates of equal standing in order.
//!
//! A strategy gives every candidate a key (lower is better), between equal keys a tie-breaker, a score from 0 to 1 of the
//! same term, and a reason. It sees only regions that may be tried, so that no strategy can widen a pin.

mod active_passive;
mod affinity;
mod geo_pin;
mod geographic;
mod latency;
mod overflow;
mod round_robin;
mod weighted;

use std::time::Duration;

use super::load::FigureKind;
use super::plan::Plan;
use super::route::{Context, Slot};
use crate::base::{Draw, Strategy};

/// The term that ranked a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reason {
    Pinned,
    Local,
    Preferred,
    Latency(Option<Duration>),
    Depth { depth: u64, kind: FigureKind },
    OwnTraffic { in_flight: u64 },
    Turn { after: usize },
    Weight { weight: f64 },
    NoShare,
    Order { place: usize },
    Hint,
    LastGood,
}

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
        Strategy::Geographic => geographic::rank(context, plan, slots),
    }
}

/// Sorts by key, then tie-breaker, then the configured order.
fn sort(slots: &mut [Slot]) {
    slots.sort_unstable_by(|a, b| {
        a.key.total_cmp(&b.key).then(a.tie.total_cmp(&b.tie)).then_with(|| a.region.cmp(&b.region))
    });
}

/// A running time in a race: sorting by it draws without replacement, in proportion to weights.
///
/// A runner with twice the weight needs half the time on average, and of any set of runners each wins with its share of their
/// weights. A weight of 0 never arrives.
fn race(draw: &mut Draw, weight: f64) -> f64 {
    let time = -libm::log(1.0 - draw.unit());
    if weight > 0.0 { time / weight } else { f64::INFINITY }
}

/// A number as a double, for ranking only: beyond 2^53 neighbours are equals.
#[expect(clippy::cast_precision_loss, reason = "ranking does not tell apart what differs by less than 2^-53")]
const fn real(number: u64) -> f64 {
    number as f64
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Pinned => f.write_str("pinned here"),
            Self::Local => f.write_str("local"),
            Self::Preferred => f.write_str("preferred for failover"),
            Self::Latency(None) => f.write_str("latency unknown"),
            Self::Latency(Some(latency)) => write!(f, "latency {:.1} ms", latency.as_secs_f64() * 1_000.0),
            Self::Depth { depth, kind: FigureKind::Queue } => write!(f, "{depth} jobs in the queue"),
            Self::Depth { depth, kind: FigureKind::Total } => write!(f, "{depth} jobs in the region"),
            Self::OwnTraffic { in_flight } => {
                write!(f, "no comparable load figures, {in_flight} of our calls in flight")
            }
            Self::Turn { after: 0 } => f.write_str("its turn"),
            Self::Turn { after } => write!(f, "its turn in {after}"),
            Self::Weight { weight } => write!(f, "drawn with weight {weight}"),
            Self::NoShare => f.write_str("no share in the job's weights"),
            Self::Order { place } => write!(f, "number {} of the fixed order", place + 1),
            Self::Hint => f.write_str("named by the geographic hint"),
            Self::LastGood => f.write_str("was well last"),
        }
    }
}

#[cfg(test)]
mod tests;
