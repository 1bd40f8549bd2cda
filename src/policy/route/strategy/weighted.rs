//! At random, in proportion to weights: the job's own, else those of the registry.
//!
//! The whole order is drawn without replacement, so that failover is weighted, too. A region without a share in the
//! job's weights comes after those with one; the weights share out traffic and forbid nothing, for which there are
//! pins. Score: of the race that draws the order, e to the minus running time over the heaviest candidate's mean, which
//! is a number from 0 to 1 that falls with the place; half of it for a region without a share.

use super::super::ranking::{Context, Reason, Slot};
use super::order::{race, real, sort};
use super::rules::{Home, Rules, VariesBy};
use crate::policy::index::RegionIndex;
use crate::policy::view::View;

/// Behind every region with a share.
const WITHOUT_SHARE: f64 = 1.0;

pub(super) const RULES: Rules = Rules { rank, home: Home::Unset, heeds_capacity: false, varies_by: VariesBy::Weights };

fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    let view = context.view;
    match context.job.weights.filter(|own| slots.iter().any(|slot| share(own, view, slot.region) > 0.0)) {
        Some(own) => by_job(context, own, slots),
        None => by_registry(context, slots),
    }
}

fn by_job(context: &mut Context<'_, '_>, own: &[(String, f64)], slots: &mut [Slot]) {
    let view = context.view;
    let heaviest = slots.iter().map(|slot| share(own, view, slot.region)).fold(0.0, f64::max);
    for slot in &mut *slots {
        let weight = share(own, view, slot.region);
        if weight > 0.0 {
            // Divided first: a job's own weights may be as large or as small as doubles go.
            (slot.key, slot.tie) = (0.0, race(&mut context.draw, weight / heaviest));
            (slot.score, slot.reason) = (libm::exp(-slot.tie), Reason::Weight { weight });
        } else {
            let registry = f64::from(view.region(slot.region).weight);
            (slot.key, slot.tie) = (WITHOUT_SHARE, race(&mut context.draw, registry));
            (slot.score, slot.reason) = (libm::exp(-slot.tie) / 2.0, Reason::NoShare);
        }
    }
    sort(slots);
}

/// The first of the order, as many as a decision may hold, are drawn one after the other, because that needs no look at
/// each region (`view/weight_table`) and has the same result. They arrive as in a race of all: the time until any
/// winner is that of one runner with all their weights.
fn by_registry(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    let view = context.view;
    let weight = |slot: &Slot| u64::from(view.region(slot.region).weight);
    let total: u64 = slots.iter().map(weight).sum();
    let heaviest = real(slots.iter().map(weight).max().unwrap_or(0));
    let count = view.settings.candidates_max.min(slots.len());
    let mut left = total;
    for place in 0..count {
        let mut lot = context.draw.below(left);
        let Some(runners) = slots.get_mut(place..) else { break };
        let winner = runners.iter().position(|slot| match lot.checked_sub(weight(slot)) {
            Some(rest) => {
                lot = rest;
                false
            }
            None => true,
        });
        let Some(winners) = winner.and_then(|winner| runners.get_mut(..=winner)) else {
            debug_assert!(left == 0, "a lot lies within the sum of the weights");
            break;
        };
        winners.rotate_right(1);
        left -= winners.first().map_or(0, weight);
    }
    let (mut left, mut time) = (total, 0.0);
    for (place, slot) in slots.iter_mut().enumerate() {
        let own = weight(slot);
        if place < count {
            time += race(&mut context.draw, real(left) / heaviest);
            (left, slot.tie) = (left - own, time);
        } else {
            slot.tie = time + race(&mut context.draw, real(own) / heaviest);
        }
        (slot.score, slot.reason) = (libm::exp(-slot.tie), Reason::Weight { weight: real(own) });
    }
    // The draw has put the others in order already.
    sort(slots.split_at_mut(count).1);
}

/// A region's share in the job's own weights; a value that is no finite positive number gives none.
fn share(own: &[(String, f64)], view: &View, region: RegionIndex) -> f64 {
    let id = view.region(region).id.as_str();
    let given = own.iter().find(|(named, _)| named == id).map_or(0.0, |&(_, weight)| weight);
    if given.is_finite() && given > 0.0 { given } else { 0.0 }
}
