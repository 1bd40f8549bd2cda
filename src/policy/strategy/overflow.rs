//! The least loaded region. Spec: federation-spec §3.2.
//!
//! Load is the depth of the job's queue, as polled and corrected by what we have sent since, over the region's weight. The
//! figures are up to some seconds old, and a thousand sidecars read the same ones: were the least figure simply taken, all of
//! them would throw their jobs at one region until the next poll. So the candidates that cannot be told apart from the best,
//! given the age of the figures, are drawn from by weight.
//!
//! Figures of different kinds are never compared. When a candidate lacks a fresh one, all are compared by our own calls in
//! flight plus a second of our own rate.
//!
//! Order: those that cannot be told apart from the least loaded, drawn by weight; then by load, least first.
//! Score: 1 for the former; for the others the least load over their own, both counted from one.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::super::load::{Figure, FigureKind, corrected};
use super::super::route::{Context, Slot};
use super::super::view::{RegionIndex, View};
use super::{Reason, race, real, sort};

pub(super) fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    let compared = by_figures(context, slots, FigureKind::Queue) || by_figures(context, slots, FigureKind::Total);
    if !compared {
        by_own_traffic(context, slots);
    }
    sort(slots);
}

fn by_figures(context: &mut Context<'_, '_>, slots: &mut [Slot], kind: FigureKind) -> bool {
    let (view, queue) = (context.view, context.job.queue);
    let interval = view.settings.load_interval;
    let fresh = |slot: &Slot| view.region(slot.region).load.fresh(kind, queue, context.now, interval);
    let Some(figures) = slots.iter().map(fresh).collect::<Option<SmallVec<[Figure; 8]>>>() else { return false };
    for (slot, figure) in slots.iter_mut().zip(&figures) {
        let depth = corrected(*figure, slot.region, queue, context.live);
        slot.key = real(depth) / weight(view, slot.region);
        slot.reason = Reason::Depth { depth, kind };
    }
    let oldest = figures.iter().map(|figure| figure.at).min();
    let tolerance = tolerance(view.settings.load_tolerance, oldest, context.now, interval);
    // One job more or less is no difference either: it may be gone since the poll.
    draw_among_equals(context, slots, tolerance, 1.0);
    true
}

fn by_own_traffic(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
    for slot in &mut *slots {
        let in_flight = context.live.in_flight(slot.region);
        let busy = real(in_flight) + context.live.send_rate(slot.region).max(0.0);
        slot.key = busy / weight(context.view, slot.region);
        slot.reason = Reason::OwnTraffic { in_flight };
    }
    draw_among_equals(context, slots, context.view.settings.load_tolerance, 0.0);
}

/// Gives all that cannot be told apart from the least loaded the same key.
fn draw_among_equals(context: &mut Context<'_, '_>, slots: &mut [Slot], tolerance: f64, slack_jobs: f64) {
    let least = slots.iter().map(|slot| slot.key).fold(f64::INFINITY, f64::min);
    for slot in &mut *slots {
        let weight = weight(context.view, slot.region);
        slot.tie = race(&mut context.draw, weight);
        if slot.key - slack_jobs / weight <= least * (1.0 + tolerance) {
            (slot.key, slot.score) = (least, 1.0);
        } else {
            slot.score = (1.0 + least) / (1.0 + slot.key);
        }
    }
}

/// The configured share for figures of this moment, twice that for figures one poll interval old, and so on.
fn tolerance(share: f64, oldest: Option<Instant>, now: Instant, interval: Duration) -> f64 {
    let age = oldest.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
    share * (1.0 + age.as_secs_f64() / interval.as_secs_f64().max(f64::MIN_POSITIVE))
}

fn weight(view: &View, region: RegionIndex) -> f64 {
    // Drained regions are no candidates; the floor keeps a division from ever being by zero.
    f64::from(view.region(region).weight.max(1))
}
