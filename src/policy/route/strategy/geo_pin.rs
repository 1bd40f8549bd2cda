//! One region and no other, or the few that a rule pins to. Spec: federation-spec §3.3.
//!
//! By the time a strategy ranks, every region outside the pin has fallen out; among several the order is that of `affinity`,
//! and so are the scores. A single region scores 1.

use super::super::ranking::{Context, Reason, Slot};
use super::affinity;
use crate::policy::index::RegionIndex;

pub(super) fn rank(context: &Context<'_, '_>, local: RegionIndex, slots: &mut [Slot]) {
    affinity::rank(context, local, slots);
    if let Some(first) = slots.first_mut() {
        (first.score, first.reason) = (1.0, Reason::Pinned);
    }
}
