//! The least loaded region. Spec: federation-spec §3.2.
//!
//! Load is the depth of the job's queue, as polled and corrected by the jobs sent since, over the region's weight. The
//! figures are up to some seconds old, and a thousand sidecars read the same ones: if each took the least figure, all
//! of them would send their jobs to one region until the next poll. So the job is drawn by weight among the candidates
//! that are indistinguishable from the best, given the age of the figures. The earlier speed of a figure bounds its
//! change since the poll: after a burst, few candidates can be distinguished.
//!
//! A region that fails a notable share of its jobs has a short queue and few calls in flight, because it takes nothing.
//! So it counts as no less loaded than the others are on average, and its weight is smaller by the share that it fails.
//!
//! Figures of different kinds are never compared. When a candidate lacks a fresh one, all are compared by our own calls in
//! flight plus a second of our own rate.
//!
//! Order: those indistinguishable from the least loaded, drawn by weight; then by load, least first. Score: 1 for the
//! former; for the others the least load over their own, both counted from one.

use std::time::Duration;

use smallvec::SmallVec;

use super::super::ranking::{Context, Reason, Slot};
use super::order::{race, real, sort};
use super::rules::{Home, Rules, VariesBy};
use crate::policy::index::RegionIndex;
use crate::policy::view::{Figure, FigureKind, View, corrected};

/// A region that fails a larger share of its jobs than this is not taken at its word.
const FAILING: f64 = 0.1;
/// Loads up to this factor beyond the indistinguishable ones still have a part in the draw.
const FADES: f64 = 2.0;
/// The part of its weight that a failing region keeps at least: the jobs that it gets show when it works again.
const WORKING_MIN: f64 = 0.05;

pub(super) const RULES: Rules = Rules { rank, home: Home::Unset, heeds_capacity: false, varies_by: VariesBy::Job };

fn rank(context: &mut Context<'_, '_>, slots: &mut [Slot]) {
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
    let age = oldest.map_or(Duration::ZERO, |at| context.now.saturating_duration_since(at)).as_secs_f64();
    // The configured share for figures of this moment, twice that for figures one poll interval old, and so on.
    let tolerance = view.settings.load_tolerance * (1.0 + age / interval.as_secs_f64().max(f64::MIN_POSITIVE));
    let fastest = figures.iter().map(|figure| figure.drift).max().unwrap_or(0);
    // One job more or less makes no difference either: a worker may have taken it since the poll.
    draw_among_equals(context, slots, tolerance, 1.0 + real(fastest) * age);
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

/// Gives all candidates indistinguishable from the least loaded the same key.
fn draw_among_equals(context: &mut Context<'_, '_>, slots: &mut [Slot], tolerance: f64, slack_jobs: f64) {
    distrust_failing(context.view, slots);
    let least = slots.iter().map(|slot| slot.key).fold(f64::INFINITY, f64::min);
    for slot in &mut *slots {
        let weight = weight(context.view, slot.region);
        let allowed = least * tolerance + slack_jobs / weight;
        let lot = lot(slot.key - least, allowed);
        slot.tie = race(&mut context.draw, weight * working(context.view, slot.region) * lot);
        if lot > 0.0 {
            (slot.key, slot.score) = (least, 1.0);
        } else {
            slot.score = (1.0 + least) / (1.0 + slot.key);
        }
    }
}

/// The share of its weight that a region keeps in the draw: all within the indistinguishable loads, none from twice as
/// much on. With a step instead, the whole fleet would leave a region at once, and come back at once.
fn lot(excess: f64, allowed: f64) -> f64 {
    if excess <= allowed { 1.0 } else { ((FADES * allowed - excess) / ((FADES - 1.0) * allowed)).clamp(0.0, 1.0) }
}

/// Raises the load of failing regions to the average of the others, and by the share that they fail.
fn distrust_failing(view: &View, slots: &mut [Slot]) {
    let fails = |slot: &Slot| working(view, slot.region) < 1.0 - FAILING;
    if !slots.iter().any(fails) {
        return;
    }
    let (sum, sound) =
        slots.iter().filter(|slot| !fails(slot)).fold((0.0, 0_u32), |(sum, n), it| (sum + it.key, n + 1));
    let mean = if sound == 0 { 0.0 } else { sum / f64::from(sound) };
    for slot in slots.iter_mut().filter(|slot| fails(slot)) {
        slot.key = slot.key.max(mean) / working(view, slot.region);
    }
}

/// The share of its jobs that a region does not fail.
fn working(view: &View, region: RegionIndex) -> f64 {
    (1.0 - view.region(region).failing).clamp(WORKING_MIN, 1.0)
}

fn weight(view: &View, region: RegionIndex) -> f64 {
    // Drained regions are no candidates; the floor keeps a division from ever being by zero.
    f64::from(view.region(region).weight.max(1))
}
