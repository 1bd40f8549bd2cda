//! A spoke's decision by the answer of its hub: its own plan, the hub's order.
//!
//! The hub decides about the state of the regions. A region that the job may not go to, or that the spoke's own calls or its operator keep shut, is
//! none of the candidates, whatever the hub says.

use std::time::Instant;

use super::answer::RouteAnswer;
use super::candidate::usable_in;
use super::decide::{Decision, concluded};
use super::explain::{Explanation, Scored, refused};
use super::grounds::{DecidedBy, Grounds};
use super::plan::Plan;
use super::question::{own_refusal, plan_of};
use super::ranking::{Inputs, Ranking, Slot, Standing};
use super::together::Demand;
use crate::base::Draw;
use crate::policy::error::RouteError;
use crate::policy::index::{Candidates, RegionIndex, place_in_turn};
use crate::policy::job::Job;
use crate::policy::machine::GuardClass;
use crate::policy::refusal::Refusal;
use crate::policy::view::View;

/// An answer in force, and the turn at which it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The answer.
    pub answer: RouteAnswer,
    /// The position of `round-robin` in the question.
    pub turn: u64,
}

/// Decides about a job by an answer, as [`super::route_within`] does by the view.
///
/// Errors: [`RouteError`], with all that the error document needs.
pub fn route_answered(
    view: &View,
    job: &Job<'_>,
    demand: Option<&Demand>,
    inputs: Inputs<'_>,
    answered: &Answered,
    grounds: &mut Grounds,
) -> Result<Decision, RouteError> {
    grounds.fallen.clear();
    let plan = plan_of(view, job, demand)?;
    (grounds.origin, grounds.rule, grounds.decided_by) = (plan.origin, plan.rule, DecidedBy::Hub);
    let mut ranking = Ranking::default();
    let result = decide(view, &plan, inputs, answered, &mut ranking);
    grounds.fallen.extend(&ranking.refused);
    result
}

/// Takes the decision that [`route_answered`] takes on the same inputs, with the reasons of the hub.
pub fn explain_answered(view: &View, job: &Job<'_>, inputs: Inputs<'_>, answered: &Answered) -> Explanation {
    let plan = match plan_of(view, job, None) {
        Ok(plan) => plan,
        Err(error) => return Explanation { strategy: None, outcome: Err(error), candidates: Vec::new() },
    };
    let mut ranking = Ranking::default();
    let outcome = decide(view, &plan, inputs, answered, &mut ranking);
    let by_hub = |index: RegionIndex| {
        answered.answer.candidates.iter().find(|it| it.id == view.region(index).id && it.refusal.is_none())
    };
    let mut ceiling = 1.0_f64;
    let candidates = ranking.slots.iter().map(|slot| {
        let known = by_hub(slot.region);
        ceiling = ceiling.min(known.map_or(0.0, |it| it.score.clamp(0.0, 1.0)));
        let reason = known.map_or_else(|| slot.reason.to_string(), |it| it.reason.clone());
        Scored { region: slot.region, score: ceiling, refusal: None, reason }
    });
    let candidates = candidates.chain(refused(&ranking)).collect();
    Explanation { strategy: ranking.strategy, outcome, candidates }
}

fn decide(
    view: &View,
    plan: &Plan<'_>,
    inputs: Inputs<'_>,
    answered: &Answered,
    ranking: &mut Ranking,
) -> Result<Decision, RouteError> {
    let Inputs { now, mut draw, turn, .. } = inputs;
    let by_turn = plan.varies_by_turn(view);
    let order = chosen(answered, if by_turn { Some(turn) } else { None }, &mut draw);
    for index in order.iter().filter_map(|place| known(view, answered, *place)) {
        let is_listed = ranking.slots.iter().any(|slot| slot.region == index);
        if !plan.permitted.contains(index) || is_listed {
            continue;
        }
        match own_standing(view, index, now, &mut draw) {
            Ok(standing) => ranking.slots.push(Slot::new(index, standing)),
            Err(refusal) => ranking.refused.push((index, refusal)),
        }
    }
    // A stable sort: among regions of equal standing the hub's order stays.
    ranking.slots.sort_by_key(|slot| slot.standing);
    drop_excluded(view, ranking);
    refuse_others(view, plan, answered, ranking);
    let candidates: Candidates =
        ranking.slots.iter().map(|slot| slot.region).take(view.settings.candidates_max).collect();
    let back = answered.answer.retry_after_ms.map(std::time::Duration::from_millis);
    concluded(view, plan, candidates, now, ranking).map_err(|error| waiting(error, view, back, ranking, now))
}

/// An excluded region is a first choice and none to fail over to, also where the spoke's own calls have changed the order of the hub.
fn drop_excluded(view: &View, ranking: &mut Ranking) {
    let Ranking { slots, refused, .. } = ranking;
    let mut is_first = true;
    slots.retain(|slot| {
        let stays = std::mem::replace(&mut is_first, false) || !view.is_excluded(slot.region);
        if !stays {
            refused.push((slot.region, Refusal::Excluded));
        }
        stays
    });
}

/// The order for one job: that of its turn, else any. An answer has at least one.
fn chosen<'a>(answered: &'a Answered, turn: Option<u64>, draw: &mut Draw) -> &'a [u16] {
    let orders = &answered.answer.orders;
    let place = match turn {
        _ if orders.len() < 2 => 0,
        Some(turn) => place_in_turn(turn.wrapping_sub(answered.turn), orders.len()),
        None => usize::try_from(draw.below(orders.len() as u64)).unwrap_or_default(),
    };
    orders.get(place).map_or(&[], Vec::as_slice)
}

fn known(view: &View, answered: &Answered, place: u16) -> Option<RegionIndex> {
    view.index_of(answered.answer.candidates.get(usize::from(place))?.id.as_str())
}

/// How the spoke itself finds a region that the hub names: its own calls know more about the way there.
fn own_standing(view: &View, index: RegionIndex, now: Instant, draw: &mut Draw) -> Result<Standing, Refusal> {
    if let Some(refusal) = own_refusal(view, index) {
        return Err(refusal);
    }
    let region = view.region(index);
    if !region.admits(GuardClass::Enqueue, now, draw) {
        return Err(Refusal::GuardOpen);
    }
    let share = region.pressure.map_or(0.0, |pressure| pressure.share(now));
    Ok(match region.pressure {
        _ if region.silent => Standing::Silent,
        Some(pressure) if pressure.is_pause(now) => Standing::Paused,
        Some(_) if share > 0.0 && draw.unit() < share => Standing::Pressed,
        _ => Standing::Sound,
    })
}

/// Writes down why each other region is no candidate: the spoke's reason, else that of the hub.
fn refuse_others(view: &View, plan: &Plan<'_>, answered: &Answered, ranking: &mut Ranking) {
    for index in view.indexes() {
        let is_listed = ranking.slots.iter().any(|slot| slot.region == index)
            || ranking.refused.iter().any(|(refused, _)| *refused == index);
        if is_listed {
            continue;
        }
        let by_hub = || answered.answer.candidates.iter().find(|it| it.id == view.region(index).id)?.refusal();
        let refusal = match own_refusal(view, index) {
            _ if !plan.permitted.contains(index) => plan.not_permitted(),
            Some(refusal) => refusal,
            // A region that the hub leaves out counts as one that it does not find well.
            None => by_hub().unwrap_or(Refusal::Unhealthy),
        };
        ranking.refused.push((index, refusal));
    }
    ranking.refused.sort_by_key(|(index, _)| *index);
}

/// The error with the wait that the hub knows of the regions that it refused, and the spoke of those that it keeps shut itself.
fn waiting(
    error: RouteError,
    view: &View,
    by_hub: Option<std::time::Duration>,
    ranking: &Ranking,
    now: Instant,
) -> RouteError {
    match error {
        RouteError::NoHealthyRegion { strategy, retry_after, regions } => {
            let own = ranking.refused.iter().filter(|(index, _)| own_refusal(view, *index).is_some());
            let own = own.filter_map(|&(index, refusal)| usable_in(view, index, refusal, now)).min();
            let retry_after = own.into_iter().chain(by_hub).min().unwrap_or(retry_after);
            RouteError::NoHealthyRegion { strategy, retry_after, regions }
        }
        error => error,
    }
}
