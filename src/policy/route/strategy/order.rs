//! How strategies put candidates in order.

use super::super::ranking::Slot;
use crate::base::Draw;

/// Sorts by key, then tie-breaker, then the configured order.
pub(super) fn sort(slots: &mut [Slot]) {
    slots.sort_unstable_by(|a, b| {
        a.key.total_cmp(&b.key).then(a.tie.total_cmp(&b.tie)).then_with(|| a.region.cmp(&b.region))
    });
}

/// A running time in a race: sorting by it draws without replacement, in proportion to weights.
///
/// A runner with twice the weight needs half the time on average, and of any set of runners each wins with its share of their
/// weights. A weight of 0 never arrives.
pub(super) fn race(draw: &mut Draw, weight: f64) -> f64 {
    let time = -libm::log(1.0 - draw.unit());
    if weight > 0.0 { time / weight } else { f64::INFINITY }
}

/// A number as a double, for ranking only: beyond 2^53 neighbours are equals.
#[expect(clippy::cast_precision_loss, reason = "ranking does not tell apart what differs by less than 2^-53")]
pub(super) const fn real(number: u64) -> f64 {
    number as f64
}
