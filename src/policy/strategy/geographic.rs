//! The region that a configured table names for a hint in the job's meta; else as the default strategy says.
//!
//! Score: 1 for the hinted region, half of the default strategy's score for the others; without a usable hint the default
//! strategy's score as it is.

use super::super::plan::{Plan, fallback};
use super::super::route::{Context, Slot};
use super::{Reason, rank_by};

pub(super) fn rank(context: &mut Context<'_, '_>, plan: &Plan<'_>, slots: &mut [Slot]) {
    rank_by(fallback(context.view), context, plan, slots);
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
