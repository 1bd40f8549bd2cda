//! The only control flow of routing. A live call comes through [`route_by`] or [`route_within`], the dry run through [`decide`]; all three
//! admit, rank and shorten in the same functions.

use std::time::Instant;

use super::candidate::{admit, last_good, retry_otherwise, usable_in};
use super::drill_part::Drilled;
use super::grounds::Grounds;
use super::plan::{Permitted, Plan};
use super::ranking::{Context, Inputs, Ranking, Reason, Slot, Standing};
use super::shortlist;
use super::strategy::{self, VariesBy, rules};
use super::together::Demand;
use crate::base::Strategy;
use crate::policy::error::RouteError;
use crate::policy::index::{Candidates, RegionIndex};
use crate::policy::job::Job;
use crate::policy::refusal::Refusal;
use crate::policy::view::{Orders, View};

/// Where a job goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The strategy that was asked for: by the job, a rule or the configuration.
    pub strategy: Strategy,
    /// Whether the job may never go to a region that is not among the candidates, also after a failure.
    pub pinned: bool,
    /// Whether no byte of the job may reach some registered region, because of a pin or of a rule that names other regions.
    pub restricted: bool,
    /// Whether the round-robin position chose the target, so that the next such job needs the next position. Jobs of other strategies do not
    /// move the position: a steady mix with them would otherwise send every round-robin job to the same region.
    pub by_turn: bool,
    /// The one region that the strategy chooses for the job while all regions are well; none where any of several would do. Another target
    /// counts as a failover when the state of this region caused it.
    pub home: Option<RegionIndex>,
    /// The regions to try, in order; the first is the target.
    ///
    /// Shape: at least one, none twice, at most `1 + max_redirects`, and one when failover is off.
    pub candidates: Candidates,
    /// Its part in a drill of the region that it would go to first.
    pub drilled: Option<Drilled>,
}

impl Decision {
    /// The region to try first.
    #[must_use]
    pub fn target(&self) -> Option<RegionIndex> {
        self.candidates.first().copied()
    }
}

/// Chooses the regions that a job is tried in by a view, without a look at its drill; see [`super::route_on`].
///
/// Errors: [`RouteError`], with all that the error document needs.
pub(super) fn route_by(
    view: &View,
    job: &Job<'_>,
    inputs: Inputs<'_>,
    grounds: &mut Grounds,
) -> Result<Decision, RouteError> {
    grounds.fallen.clear();
    let plan = Plan::of(view, job)?;
    (grounds.origin, grounds.rule) = (plan.origin, plan.rule);
    if let Some(candidates) = quick(view, job, &plan, inputs) {
        if !plan.pinned {
            grounds.fallen.extend(view.settled.unusable());
        }
        return Ok(decision(view, &plan, candidates));
    }
    let mut ranking = Ranking::default();
    let result = decide_by(view, job, &plan, inputs, &mut ranking);
    grounds.fallen.extend(&ranking.refused);
    result
}

/// The candidates that the full path would find, without looking at each region; `None` where only the full path can find them. A pin needs
/// its region only, and while all regions are well most strategies need only the round-robin position or a draw.
fn quick(view: &View, job: &Job<'_>, plan: &Plan<'_>, inputs: Inputs<'_>) -> Option<Candidates> {
    if let Permitted::One(region) = plan.permitted {
        let mut context = context(view, job, plan, inputs);
        let admitted = plan.pinned && admit(&mut context, plan, region).is_ok();
        return admitted.then(|| Candidates::from_iter([region]));
    }
    settled(view.settled.0.as_ref()?, view, plan, job, inputs)
}

/// The candidates of a job with this plan, where the view has them computed in advance.
fn settled(orders: &Orders, view: &View, plan: &Plan<'_>, job: &Job<'_>, inputs: Inputs<'_>) -> Option<Candidates> {
    let Inputs { now, mut draw, turn, .. } = inputs;
    if !matches!(plan.permitted, Permitted::All)
        || plan.local != view.local
        || orders.from.is_some_and(|from| now < from)
    {
        return None;
    }
    let count = view.settings.candidates_max;
    let candidates = match rules(plan.strategy).varies_by {
        VariesBy::Nothing | VariesBy::EqualLatencies => orders.of(plan.strategy)?.clone(),
        VariesBy::Turn => orders.lots.as_ref()?.in_turn(turn, count),
        VariesBy::Weights if job.weights.is_none() => orders.lots.as_ref()?.drawn(&mut draw, count),
        VariesBy::Weights | VariesBy::Job => return None,
    };
    (!candidates.is_empty()).then_some(candidates)
}

/// Chooses the regions that several jobs of one call are tried in: as for `job`, but only among the regions that each of them may go to.
/// Writes `grounds` as [`super::route_on`] does.
///
/// Errors: [`RouteError`], with all that the error document needs.
pub fn route_within(
    view: &View,
    job: &Job<'_>,
    demand: &Demand,
    inputs: Inputs<'_>,
    grounds: &mut Grounds,
) -> Result<Decision, RouteError> {
    grounds.fallen.clear();
    let plan = Plan::of(view, job)?.within(view, demand);
    (grounds.origin, grounds.rule) = (plan.origin, plan.rule);
    let mut ranking = Ranking::default();
    let result = decide_by(view, job, &plan, inputs, &mut ranking);
    grounds.fallen.extend(&ranking.refused);
    result
}

/// Decides as a live call does, and writes the standing or refusal of every region into `ranking`.
pub(super) fn decide(
    view: &View,
    job: &Job<'_>,
    inputs: Inputs<'_>,
    ranking: &mut Ranking,
) -> Result<Decision, RouteError> {
    let plan = match Plan::of(view, job) {
        Ok(plan) => plan,
        Err(error) => {
            ranking.refused.extend(view.indexes().map(|region| (region, Refusal::NotCompared)));
            return Err(error);
        }
    };
    decide_by(view, job, &plan, inputs, ranking)
}

pub(super) fn decide_by(
    view: &View,
    job: &Job<'_>,
    plan: &Plan<'_>,
    inputs: Inputs<'_>,
    ranking: &mut Ranking,
) -> Result<Decision, RouteError> {
    let candidates = candidates(view, job, plan, inputs, ranking);
    concluded(view, plan, candidates, inputs.now, ranking)
}

/// The end of a decision, however its candidates were found.
pub(super) fn concluded(
    view: &View,
    plan: &Plan<'_>,
    mut candidates: Candidates,
    now: Instant,
    ranking: &mut Ranking,
) -> Result<Decision, RouteError> {
    ranking.strategy = Some(plan.strategy);
    if candidates.is_empty() && view.settings.tries_last_good && !plan.pinned {
        candidates.extend(take_last_good(view, plan, ranking));
    }
    if candidates.is_empty() {
        return Err(unavailable(view, plan, &ranking.refused, now));
    }
    Ok(decision(view, plan, candidates))
}

/// Admit, rank, shorten.
pub(super) fn candidates(
    view: &View,
    job: &Job<'_>,
    plan: &Plan<'_>,
    inputs: Inputs<'_>,
    ranking: &mut Ranking,
) -> Candidates {
    let mut context = context(view, job, plan, inputs);
    for region in view.indexes() {
        match admit(&mut context, plan, region) {
            Ok(standing) => ranking.slots.push(Slot::new(region, standing)),
            Err(refusal) => ranking.refused.push((region, refusal)),
        }
    }
    ranking.slots.sort_unstable_by_key(|slot| (slot.standing, slot.region));
    for equals in ranking.slots.chunk_by_mut(|a, b| a.standing == b.standing) {
        strategy::rank(plan.strategy, &mut context, equals);
    }
    shortlist::arrange(view, ranking);
    ranking.slots.iter().map(|slot| slot.region).take(view.settings.candidates_max).collect()
}

const fn context<'a, 'j>(view: &'a View, job: &'a Job<'j>, plan: &Plan<'_>, inputs: Inputs<'a>) -> Context<'a, 'j> {
    let Inputs { now, draw, turn, live, .. } = inputs;
    Context { view, job, local: plan.local, hint: plan.hint, now, draw, turn, live }
}

fn decision(view: &View, plan: &Plan<'_>, candidates: Candidates) -> Decision {
    let restricted = plan.pinned || !matches!(plan.permitted, Permitted::All);
    let by_turn = plan.varies_by_turn(view);
    let (strategy, pinned, home) = (plan.strategy, plan.pinned, plan.meant_for());
    Decision { strategy, pinned, restricted, by_turn, home, candidates, drilled: None }
}

/// The region that was well last, as the only candidate of a job that no region can take.
#[cold]
fn take_last_good(view: &View, plan: &Plan<'_>, ranking: &mut Ranking) -> Option<RegionIndex> {
    let region = last_good(view, plan, &ranking.refused)?;
    ranking.refused.retain(|(refused, _)| *refused != region);
    ranking.slots.push(Slot { reason: Reason::LastGood, ..Slot::new(region, Standing::LastGood) });
    Some(region)
}

/// Whether the job may go to a region at all, in any state of that region.
///
/// Errors: those of [`RouteError`] that are the client's fault.
pub fn permits(view: &View, job: &Job<'_>, region: RegionIndex) -> Result<bool, RouteError> {
    Ok(Plan::of(view, job)?.permitted.contains(region))
}

#[cold]
fn unavailable(view: &View, plan: &Plan<'_>, refused: &[(RegionIndex, Refusal)], now: Instant) -> RouteError {
    let first_back = refused
        .iter()
        .filter_map(|&(region, refusal)| Some((usable_in(view, region, refusal, now)?, region, refusal)))
        .min_by_key(|&(wait, region, _)| (wait, region));
    match first_back {
        Some((retry_after, region, state)) if plan.pinned => {
            RouteError::RegionUnavailable { region: view.region(region).id.clone(), state, retry_after }
        }
        _ => RouteError::NoHealthyRegion {
            strategy: plan.strategy,
            retry_after: first_back.map_or_else(retry_otherwise, |(wait, ..)| wait),
            regions: refused.iter().map(|&(region, refusal)| (view.region(region).id.clone(), refusal)).collect(),
        },
    }
}

#[cfg(test)]
mod tests;
