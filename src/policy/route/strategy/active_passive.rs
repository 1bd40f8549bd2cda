//! The first usable region of a fixed order: `prefer_regions`, then the configured one.
//!
//! Score: 1 over its place in that order, those that fell out not counted.

use super::super::ranking::{Context, Reason, Slot};
use super::order::{real, sort};
use super::rules::{Home, Rules, VariesBy};

pub(super) const RULES: Rules = Rules { rank, home: Home::First, heeds_capacity: false, varies_by: VariesBy::Nothing };

fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    for slot in &mut *slots {
        slot.key = f64::from(context.view.settings.preference(slot.region));
    }
    sort(slots);
    for (place, slot) in slots.iter_mut().enumerate() {
        slot.score = 1.0 / (real(place as u64) + 1.0);
        slot.reason = Reason::Order { place };
    }
}
