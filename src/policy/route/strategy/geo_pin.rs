//! One region and no other, or the few that a rule pins to. Spec: federation-spec §3.3.
//!
//! By the time a strategy ranks, every region outside the pin has fallen out; among several the order is that of `affinity`,
//! and so are the scores. A single region scores 1.

use super::super::ranking::{Context, Reason, Slot};
use super::affinity;
use super::rules::{Home, Rules, VariesBy};

// The plan sets the regions of a pinned job. A region at capacity still takes a job that may go nowhere else.
pub(super) const RULES: Rules = Rules { rank, home: Home::Unset, heeds_capacity: false, varies_by: VariesBy::Job };

fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    affinity::rank(context, slots);
    if let Some(first) = slots.first_mut() {
        (first.score, first.reason) = (1.0, Reason::Pinned);
    }
}
