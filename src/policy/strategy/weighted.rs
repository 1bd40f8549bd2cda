//! At random, in proportion to weights: the job's own, else those of the registry.
//!
//! The whole order is drawn without replacement, so that failing over is weighted too. A region to which the job's weights
//! give no share comes after those with one; the weights share out traffic and forbid nothing, which is what a pin is for.
//! Score: of the race that draws the order, e to the minus running time over the heaviest candidate's mean, which is a number
//! from 0 to 1 that falls with the place; half of it for a region without a share.

use super::super::route::{Context, Slot};
use super::super::view::{RegionIndex, View};
use super::{Reason, race, sort};

/// Behind every region with a share.
const WITHOUT_SHARE: f64 = 1.0;

pub(super) fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    let view = context.view;
    let own = context.job.weights.filter(|own| slots.iter().any(|slot| share(own, view, slot.region) > 0.0));
    let registry = |region| f64::from(view.region(region).weight);
    let weigh = |region| own.map_or_else(|| registry(region), |own| share(own, view, region));
    let heaviest = slots.iter().map(|slot| weigh(slot.region)).fold(0.0, f64::max);
    for slot in &mut *slots {
        let weight = weigh(slot.region);
        if weight > 0.0 {
            // Divided first: a job's own weights may be as large or as small as doubles go.
            (slot.key, slot.tie) = (0.0, race(&mut context.draw, weight / heaviest));
            (slot.score, slot.reason) = ((-slot.tie).exp(), Reason::Weight { weight });
        } else {
            (slot.key, slot.tie) = (WITHOUT_SHARE, race(&mut context.draw, registry(slot.region)));
            (slot.score, slot.reason) = ((-slot.tie).exp() / 2.0, Reason::NoShare);
        }
    }
    sort(slots);
}

/// What the job's own weights give a region; what is no finite positive number gives nothing.
fn share(own: &[(String, f64)], view: &View, region: RegionIndex) -> f64 {
    let id = view.region(region).id.as_str();
    let given = own.iter().find(|(named, _)| named == id).map_or(0.0, |&(_, weight)| weight);
    if given.is_finite() && given > 0.0 { given } else { 0.0 }
}
