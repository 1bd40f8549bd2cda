//! The region that a configured table names for a hint in the job's meta; else as the default strategy says.
//!
//! Score: 1 for the hinted region, half of the default strategy's score for the others; without a usable hint the default
//! strategy's score as it is.

use super::super::ranking::{Context, Reason, Slot};
use super::rules::{Home, Rules, VariesBy};

// The hinted region is meant at any depth; the fallback strategy decides for the others whether capacity counts.
pub(super) const RULES: Rules =
    Rules { rank: put_hinted_first, home: Home::Unset, heeds_capacity: false, varies_by: VariesBy::Job };

fn put_hinted_first(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    let Some(place) = slots.iter().position(|slot| Some(slot.region) == context.hint) else { return };
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
