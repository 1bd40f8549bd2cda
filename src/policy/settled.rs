//! What does not change from job to job: the order of `affinity`, found once for a view instead of once for a job.
//!
//! While all is well, nothing in that order depends on the job, on chance or on the time. Then a decision costs the same however
//! many regions there are. Where anything does depend on them, there is no such order, and each job is decided for itself.

use std::time::Instant;

use super::guard::{GuardClass, GuardState};
use super::job::Job;
use super::load::NoTraffic;
use super::plan::{Permitted, Plan};
use super::route::{Candidates, Inputs, Ranking, candidates};
use super::view::{RegionView, View};
use crate::base::{Draw, Strategy};

/// The candidates of a job that is routed by `affinity` and may go anywhere.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    candidates: Candidates,
    /// From when on: the ramps of regions that came back are over by then.
    from: Option<Instant>,
}

impl Settled {
    /// The order of a view, where it has one.
    pub(super) fn of(view: &View, now: Instant) -> Option<Self> {
        if !view.regions.iter().all(|region| is_certain(region, now)) {
            return None;
        }
        let recovered = view.regions.iter().filter_map(|region| region.recovered_at.max(enqueues_since(region))).max();
        let from = recovered.map(|since| since + view.settings.slow_start);
        // Once the ramps are over, time says nothing any more, and nothing is drawn.
        let now = from.map_or(now, |from| from.max(now));
        let inputs = Inputs { now, draw: Draw::from_seed(0), turn: 0, live: &NoTraffic };
        let (job, plan) = (Job::plain(""), Plan::affinity_anywhere(view));
        let candidates = candidates(view, &job, &plan, inputs, &mut Ranking::default());
        (!candidates.is_empty()).then_some(Self { candidates, from })
    }

    /// The candidates of a job that goes by this plan, where they are known.
    pub(super) fn candidates(&self, plan: &Plan<'_>, now: Instant) -> Option<Candidates> {
        let applies = plan.strategy == Strategy::Affinity
            && matches!(plan.permitted, Permitted::All)
            && self.from.is_none_or(|from| now >= from);
        applies.then(|| self.candidates.clone())
    }
}

/// Whether neither a job's queue nor chance decides about the region.
fn is_certain(region: &RegionView, now: Instant) -> bool {
    let tried = matches!(region.guard(GuardClass::Enqueue), GuardState::Trial { .. });
    // Between two views what has been held back only gets less, so what is nothing now stays nothing.
    let spills = region.pressure.is_some_and(|pressure| pressure.share(now) > 0.0);
    region.max_queue_depth.is_none() && !spills && !tried
}

fn enqueues_since(region: &RegionView) -> Option<Instant> {
    match region.guard(GuardClass::Enqueue) {
        GuardState::Closed { recovered_at } => recovered_at,
        GuardState::Open { .. } | GuardState::Trial { .. } => None,
    }
}
