//! Each usable region in turn.
//!
//! Order: the configured one, begun at the region of the turn. Score: 1 over its place in that order.

use super::super::ranking::{Context, Reason, Slot};
use super::order::{real, sort};
use super::rules::{Home, Rules, VariesBy};
use crate::policy::index::place_in_turn;

pub(super) const RULES: Rules = Rules { rank, home: Home::Unset, heeds_capacity: false, varies_by: VariesBy::Turn };

fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    let count = slots.len();
    let first = place_in_turn(context.turn, count);
    for (place, slot) in slots.iter_mut().enumerate() {
        let after = (place + count - first) % count;
        let key = real(after as u64);
        (slot.key, slot.score, slot.reason) = (key, 1.0 / (key + 1.0), Reason::Turn { after });
    }
    sort(slots);
}
