//! A failover drill: a share of the flexible jobs of a region is decided as if the region had fallen out.
//!
//! The job is decided twice: by the view, and by the same view without the region, which [`super::settle`] has prepared. A job that could go elsewhere
//! has a number, and the share draws by it. The region stays the last candidate: a job that the others do not take goes there.

use smallvec::SmallVec;

use super::decide::{Decision, route_by};
use super::drill_part::{DrillKept, DrillPart, Drilled};
use super::explain::{Explanation, explained};
use super::grounds::Grounds;
use super::ranking::Inputs;
use crate::policy::error::RouteError;
use crate::policy::index::Candidates;
use crate::policy::job::Job;
use crate::policy::refusal::Refusal;
use crate::policy::view::{Drill, View};

/// Chooses the regions that a job is tried in.
///
/// Errors: [`RouteError`], with all that the error document needs.
#[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests; the program writes down why"))]
pub fn route(view: &View, job: &Job<'_>, inputs: Inputs<'_>) -> Result<Decision, RouteError> {
    route_on(view, job, inputs, &mut Grounds::default())
}

/// As [`route`], and writes the origin of the strategy, the matched rule and the refused regions into `grounds`. When the job's own
/// attributes are invalid, no region is compared and `grounds` lists none. A job that a drill diverts has the drilled region among the refused ones, and
/// as its last candidate.
///
/// Errors: [`RouteError`], with all that the error document needs.
#[inline]
pub fn route_on(view: &View, job: &Job<'_>, inputs: Inputs<'_>, grounds: &mut Grounds) -> Result<Decision, RouteError> {
    let decision = route_by(view, job, inputs, grounds);
    match &view.drill {
        None => decision,
        Some(drill) => {
            let (decision, _) = drilled(view, drill, job, inputs, decision?, grounds);
            Ok(decision)
        }
    }
}

/// Takes the decision that [`route_on`] takes on the same inputs, with its reasons.
pub fn explain(view: &View, job: &Job<'_>, inputs: Inputs<'_>) -> Explanation {
    let explanation = explained(view, job, inputs);
    let (Some(drill), Ok(decision)) = (&view.drill, &explanation.outcome) else { return explanation };
    let (decision, without) = drilled(view, drill, job, inputs, decision.clone(), &mut Grounds::default());
    let explanation = without.map_or(explanation, |without| explained(without, job, inputs));
    Explanation { outcome: Ok(decision), ..explanation }
}

/// A decision with the part that its job has in the drill, and the view that it was taken by, where that is the one without the region. Writes
/// `grounds` where the decision is another one.
#[cold]
fn drilled<'v>(
    view: &View,
    drill: &'v Drill<View>,
    job: &Job<'_>,
    inputs: Inputs<'_>,
    decision: Decision,
    grounds: &mut Grounds,
) -> (Decision, Option<&'v View>) {
    let Some(without) = drill.without.as_deref().filter(|_| inputs.now < drill.until) else { return (decision, None) };
    if decision.target() != Some(drill.region) {
        return (decision, None);
    }
    let of = |part| Some(Drilled { number: drill.number, part });
    let mut other = *grounds;
    match elsewhere(view, (drill, without), job, inputs, &decision, &mut other) {
        Err(why) => (Decision { drilled: of(DrillPart::Kept(why)), ..decision }, None),
        Ok(_) if !drill.share.draws(inputs.drill.number()) => {
            (Decision { drilled: of(DrillPart::Control), ..decision }, None)
        }
        Ok(candidates) => {
            *grounds = other;
            (Decision { drilled: of(DrillPart::Diverted), candidates, ..decision }, Some(without))
        }
    }
}

/// The candidates of a job without the drilled region, and that region behind them.
///
/// Errors: why the job stays.
fn elsewhere(
    view: &View,
    (drill, without): (&Drill<View>, &View),
    job: &Job<'_>,
    inputs: Inputs<'_>,
    decision: &Decision,
    grounds: &mut Grounds,
) -> Result<Candidates, DrillKept> {
    if decision.pinned {
        return Err(DrillKept::Bound);
    }
    if job.repeatable || inputs.drill.is_named() {
        return Err(DrillKept::Named);
    }
    let found = match route_by(without, job, inputs, grounds) {
        Ok(found) => found,
        Err(error) => return Err(if is_bound(view, drill, &error) { DrillKept::Bound } else { DrillKept::NoOther }),
    };
    // Not a region that asks to be left alone, nor one that is tried only because no other one is left.
    let is_well = found.target().is_some_and(|target| {
        let region = view.region(target);
        let is_paused = region.pressure.is_some_and(|pressure| pressure.is_pause(inputs.now));
        region.unusable(|| false).is_none() && !region.silent && !region.held && !is_paused
    });
    if !is_well {
        return Err(DrillKept::NoOther);
    }
    let others_max = view.settings.candidates_max.saturating_sub(1);
    if others_max == 0 {
        return Err(DrillKept::NoFailover);
    }
    let others = found.candidates.iter().copied().filter(|index| *index != drill.region).take(others_max);
    Ok(others.chain(std::iter::once(drill.region)).collect())
}

/// Whether the job may go to no other region in any state of them.
fn is_bound(view: &View, drill: &Drill<View>, error: &RouteError) -> bool {
    let RouteError::NoHealthyRegion { regions, .. } = error else { return true };
    let id = &view.region(drill.region).id;
    let others: SmallVec<[Refusal; 8]> =
        regions.iter().filter(|(region, _)| region != id).map(|(_, refusal)| *refusal).collect();
    others.iter().all(|refusal| matches!(refusal, Refusal::NotPermitted | Refusal::PinnedElsewhere))
}

#[cfg(test)]
mod tests;
