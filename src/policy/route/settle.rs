//! Orders that do not depend on the job, computed once for a view instead of once for a job.
//!
//! While all is well, the order of most strategies depends on nothing but the turn or a draw, and not on the time. Then a
//! decision costs the same however many regions there are. Where anything else matters, each job is decided for itself.

use std::sync::Arc;
use std::time::Instant;

use super::decide::candidates;
use super::plan::Plan;
use super::ranking::{Inputs, Ranking};
use super::strategy::{VariesBy, rules};
use crate::base::{Draw, Strategy};
use crate::policy::index::RegionIndex;
use crate::policy::job::Job;
use crate::policy::machine::{GuardClass, GuardState};
use crate::policy::refusal::Refusal;
use crate::policy::view::{Cache, NoTraffic, Orders, RegionView, View, WeightTable};

/// Computes the orders that are the same for all jobs, and the view that a drill decides by. To be called when the view is complete: nothing in it may change
/// afterwards.
pub fn settle(view: &mut View, now: Instant) {
    view.settled = Cache(orders(view, now));
    if let Some(drill) = view.drill.take() {
        let mut without = view.clone();
        if let Some(region) = without.regions.get_mut(drill.region.get()) {
            region.is_drilled = true;
        }
        without.settled = Cache(orders(&without, now));
        view.drill = Some(Arc::new(drill.by(without)));
    }
}

/// The orders of a view, where it has any.
fn orders(view: &View, now: Instant) -> Option<Orders> {
    if !view.regions.iter().all(|region| is_certain(region, now)) {
        return None;
    }
    let recovered = view.regions.iter().filter_map(|region| region.recovered_at.max(enqueues_since(region))).max();
    let from = recovered.map(|since| since + view.settings.slow_start);
    // Once the ramps are over, time says nothing any more, and nothing is drawn to admit a region.
    let now = from.map_or(now, |from| from.max(now));
    let ranked = |strategy| {
        let (job, plan) = (Job::plain(""), Plan::anywhere(view, strategy));
        let inputs = Inputs { now, draw: Draw::from_seed(0), turn: 0, live: &NoTraffic, drill: &0 };
        let mut ranking = Ranking::default();
        (candidates(view, &job, &plan, inputs, &mut ranking), ranking)
    };
    let mut same = [const { None }; Strategy::ALL.len()];
    let mut lots = None;
    for (strategy, same) in Strategy::ALL.into_iter().zip(&mut same) {
        match rules(strategy).varies_by {
            VariesBy::Nothing => *same = Some(ranked(strategy).0),
            VariesBy::EqualLatencies => {
                let (candidates, ranking) = ranked(strategy);
                *same = has_no_equals(view, &ranking).then_some(candidates);
            }
            VariesBy::Turn | VariesBy::Weights => lots = lots.or_else(|| lots_of(view, &ranked(strategy).1)),
            VariesBy::Job => {}
        }
    }
    let has_candidates = lots.is_some() || same.iter().flatten().any(|candidates| !candidates.is_empty());
    has_candidates.then(|| Orders {
        same,
        lots,
        unusable: view.indexes().filter_map(|it| Some((it, view.region(it).unusable(|| false)?))).collect(),
        from,
    })
}

/// The regions of the best standing, where a decision needs no others and nothing is preferred or excluded among them.
fn lots_of(view: &View, ranking: &Ranking) -> Option<WeightTable> {
    let best = ranking.slots.first()?.standing;
    let alike = ranking.slots.iter().take_while(|slot| slot.standing == best).count();
    let suffices = alike >= view.settings.candidates_max || alike == ranking.slots.len();
    let free = suffices && view.is_free_to_fail_over();
    let regions = || {
        let mut regions: Vec<RegionIndex> = ranking.slots.iter().take(alike).map(|slot| slot.region).collect();
        regions.sort_unstable();
        regions
    };
    free.then(|| WeightTable::of(regions().into_iter().map(|region| (region, view.region(region).weight))))
}

/// Whether the order by latency is one for all jobs: those that only may not come later are among them.
fn has_no_equals(view: &View, ranking: &Ranking) -> bool {
    let excluded =
        ranking.refused.iter().filter(|(_, refusal)| *refusal == Refusal::Excluded).map(|(region, _)| *region);
    let compared = ranking.slots.iter().map(|slot| slot.region).chain(excluded);
    let latencies = compared.map(|region| view.region(region).latency);
    let Some(mut latencies) = latencies.collect::<Option<Vec<_>>>() else { return false };
    latencies.sort_unstable();
    latencies.windows(2).all(|pair| pair.first() != pair.last())
}

/// Whether neither a job's queue nor chance decides about the region.
fn is_certain(region: &RegionView, now: Instant) -> bool {
    let tried = matches!(region.guard(GuardClass::Enqueue), GuardState::Trial { .. });
    // Between two views the pressure only falls, so that none now means none later.
    let spills = region.pressure.is_some_and(|pressure| pressure.share(now) > 0.0);
    region.max_queue_depth.is_none() && !spills && !tried
}

fn enqueues_since(region: &RegionView) -> Option<Instant> {
    match region.guard(GuardClass::Enqueue) {
        GuardState::Closed { recovered_at } => recovered_at,
        GuardState::Open { .. } | GuardState::Trial { .. } => None,
    }
}

#[cfg(test)]
mod tests;
