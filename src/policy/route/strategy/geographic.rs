//! The region that a configured table names for a hint in the job's meta; else as the default strategy says.
//!
//! Score: 1 for the hinted region, half of the default strategy's score for the others; without a usable hint the default
//! strategy's score as it is.

use super::super::plan::Plan;
use super::super::ranking::{Reason, Slot};

/// Expects the slots in the order of the default strategy.
pub(super) fn put_hinted_first(plan: &Plan<'_>, slots: &mut [Slot]) {
    let Some(place) = slots.iter().position(|slot| Some(slot.region) == plan.hint) else { return };
    for slot in &mut *slots {
        slot.score /= 2.0;
    }
    if let Some(upto) = slots.get_mut(..=place) {
        upto.rotate_right(1);
    }
    if let Some(first) = slots.first_mut() {
        (first.score, first.reason) = (1.0, Reason::Hint);
    }
}
