//! Candidates and refusals: the regions that may be tried, and why others fall out.

use std::time::{Duration, Instant};

use super::plan::Plan;
use super::ranking::{Context, Standing};
use super::strategy::{fallback, rules};
use crate::base::Needs;
use crate::policy::index::RegionIndex;
use crate::policy::machine::{GuardClass, GuardState, Health};
use crate::policy::refusal::Refusal;
use crate::policy::view::{FigureKind, RegionView, View, corrected};

/// The shortest wait that `Retry-After` can express.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// A drained region comes back when its operator says so; asking twice a minute is often enough.
const RETRY_DRAINED: Duration = Duration::from_secs(30);

/// When another region may get jobs of a spoke that does not hear its hub. A sidecar tries to reach its hub every 15 s at the latest, and mostly sooner.
pub const RETRY_HUB: Duration = Duration::from_secs(5);

/// Whether the region is a candidate for the job, and in which standing.
pub(super) fn admit(context: &mut Context<'_, '_>, plan: &Plan<'_>, index: RegionIndex) -> Result<Standing, Refusal> {
    if !plan.permitted.contains(index) {
        return Err(plan.not_permitted());
    }
    let view = context.view;
    let region = view.region(index);
    if let Some(refusal) = region.unusable(|| is_bound_to(view, plan, index)) {
        return Err(refusal);
    }
    if !region.admits(GuardClass::Enqueue, context.now, &mut context.draw) {
        return Err(Refusal::GuardOpen);
    }
    if plan.pinned {
        return Ok(if region.health == Health::Unknown { Standing::Unknown } else { Standing::Sound });
    }
    if plan.home.is_some_and(|home| home != index) && view.is_excluded(index) {
        return Err(Refusal::Excluded);
    }
    if heeds_capacity(view, plan, index) && at_capacity(context, index) {
        return Err(Refusal::AtCapacity);
    }
    Ok(match region.health {
        _ if region.silent => Standing::Silent,
        _ if region.held => Standing::HeldDown,
        Health::Unknown => Standing::Unknown,
        _ if region.pressure.is_some_and(|pressure| pressure.is_pause(context.now)) => Standing::Paused,
        _ if looks_elsewhere(context, region) => Standing::Pressed,
        _ if loses_ramp(context, region) => Standing::RampingUp,
        _ => Standing::Sound,
    })
}

/// Whether a job may go to this region only, by its pin. A pin to several regions has another one than a drained region.
fn is_bound_to(view: &View, plan: &Plan<'_>, index: RegionIndex) -> bool {
    plan.pinned && !view.indexes().any(|other| other != index && plan.permitted.contains(other))
}

/// Of regions that a job was refused only for their state, the one that was well last.
pub(super) fn last_good(view: &View, plan: &Plan<'_>, refused: &[(RegionIndex, Refusal)]) -> Option<RegionIndex> {
    // Never a failover to a region that the operator has excluded from failovers.
    let excluded = |index| plan.home.is_some_and(|home| home != index) && view.is_excluded(index);
    let unwell =
        |refusal| matches!(refusal, Refusal::Unhealthy | Refusal::BreakerOpen | Refusal::HalfOpen | Refusal::GuardOpen);
    // A region with failing enqueues has good probes: it comes last, after all that failed together.
    let since = |index: RegionIndex, refusal| match refusal {
        Refusal::GuardOpen => Some(None),
        _ => view.region(index).well_until.map(Some),
    };
    let known = refused.iter().filter(|&&(index, refusal)| unwell(refusal) && !excluded(index));
    let known = known.filter_map(|&(index, refusal)| Some((since(index, refusal)?, index)));
    known.max_by_key(|&(since, index)| (since, std::cmp::Reverse(index))).map(|(_, index)| index)
}

/// When a refused region may be usable again; `None` when waiting changes nothing.
pub(super) fn usable_in(view: &View, index: RegionIndex, refusal: Refusal, now: Instant) -> Option<Duration> {
    let wait = match refusal {
        Refusal::NotCompared | Refusal::PinnedElsewhere | Refusal::NotPermitted | Refusal::Excluded => return None,
        Refusal::Drained | Refusal::Evacuated | Refusal::Isolated => RETRY_DRAINED,
        Refusal::HubLost => RETRY_HUB,
        // No call is refused for it: without another region a drill leaves the job alone.
        Refusal::Drilled => RETRY_MIN,
        Refusal::Unhealthy => view.settings.health_interval,
        Refusal::BreakerOpen => {
            let until = view.region(index).open_until;
            until.map_or(RETRY_MIN, |until| until.saturating_duration_since(now))
        }
        Refusal::GuardOpen => view.region(index).guard(GuardClass::Enqueue).wait(now).unwrap_or(RETRY_MIN),
        Refusal::HalfOpen => RETRY_MIN,
        Refusal::AtCapacity => view.settings.load_interval,
    };
    Some(wait.max(RETRY_MIN))
}

/// The shortest wait, when none of the refusals says one.
pub(super) const fn retry_otherwise() -> Duration {
    RETRY_DRAINED
}

fn heeds_capacity(view: &View, plan: &Plan<'_>, index: RegionIndex) -> bool {
    let ranks = if plan.strategy.needs() == Needs::Table { fallback(view) } else { plan.strategy };
    plan.hint != Some(index) && rules(ranks).heeds_capacity
}

/// Without a fresh figure nothing is known against the region.
fn at_capacity(context: &Context<'_, '_>, index: RegionIndex) -> bool {
    let region = context.view.region(index);
    let Some(depth_max) = region.max_queue_depth else { return false };
    let (queue, interval) = (context.job.queue, context.view.settings.load_interval);
    let figure = |kind| region.load.fresh(kind, queue, context.now, interval);
    figure(FigureKind::Queue)
        .or_else(|| figure(FigureKind::Total))
        .is_some_and(|figure| corrected(figure, index, queue, context.live) >= depth_max)
}

/// A region that just came back takes a share of jobs that grows with time, so that the crowd does not throw it down again.
fn loses_ramp(context: &mut Context<'_, '_>, region: &RegionView) -> bool {
    let enqueues = match region.guard(GuardClass::Enqueue) {
        GuardState::Closed { recovered_at } => recovered_at,
        GuardState::Open { .. } | GuardState::Trial { .. } => None,
    };
    let Some(since) = region.recovered_at.max(enqueues) else { return false };
    let elapsed = context.now.saturating_duration_since(since);
    let ramp = context.view.settings.slow_start;
    elapsed < ramp && context.draw.unit() >= elapsed.as_secs_f64() / ramp.as_secs_f64()
}

/// A region that asks for less gets less, as long as there is another one.
fn looks_elsewhere(context: &mut Context<'_, '_>, region: &RegionView) -> bool {
    let share = region.pressure.map_or(0.0, |pressure| pressure.share(context.now));
    share > 0.0 && context.draw.unit() < share
}
