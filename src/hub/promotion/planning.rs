//! The plan of a promotion: each waiting job of the lost region, and whether it is taken.

use std::collections::BTreeMap;

use super::super::record::{JobStep, PromotionJob, RecordError, Wanted};
use super::super::state::Hub;
use super::plan::{Why, left};
use super::{Promotion, Stage};
use crate::replica::{Change, Copy, Record};

/// Jobs of the index that are looked at in one step: each that waits is some further statements of the record.
const JOBS_AT_ONCE: usize = 500;

/// Decides about the next jobs. Returns the promotion as it is behind them.
///
/// Errors: the same jobs are decided about again.
pub(super) async fn plan(hub: &Hub, promotion: &Promotion) -> Result<Promotion, RecordError> {
    let after = promotion.planned_to.as_deref().unwrap_or_default();
    let facts = hub.record.jobs_of_region(promotion.from.as_str(), after, JOBS_AT_ONCE).await?;
    let last = facts.last().map(|it| it.change.job_id.clone());
    let mut jobs: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    for it in facts {
        jobs.entry(it.change.job_id.clone()).or_default().push(it.change);
    }
    let is_all = jobs.len() < JOBS_AT_ONCE;
    let mut planned = Vec::new();
    for (job_id, facts) in jobs {
        // All facts are of one copy: the one in the lost region.
        let Some(copy) = Record::of(facts).copies.pop() else { continue };
        if matches!(copy.state.as_str(), "completed" | "cancelled" | "discarded") {
            continue;
        }
        let why = why_left(hub, promotion, &copy).await?;
        let step = if why.is_some() { JobStep::Left } else { JobStep::Planned };
        let (enqueued_ms, step, why) =
            (copy.enqueued_ms(), step.as_str().to_owned(), why.map(|it| it.as_str().to_owned()));
        planned.push(PromotionJob { job_id, enqueued_ms, step, why, ..PromotionJob::default() });
    }
    hub.record.add_promotion_jobs(&promotion.id, planned).await?;
    let stage = match (is_all, promotion.is_dry_run) {
        (false, _) => Stage::Planning,
        (true, true) => Stage::Planned,
        (true, false) => Stage::Moving,
    };
    Ok(Promotion { stage, planned_to: last.or_else(|| promotion.planned_to.clone()), ..promotion.clone() })
}

/// Why a job stays in the lost region, by all that the record has about it; none where it is taken.
pub(super) async fn why_left(hub: &Hub, promotion: &Promotion, copy: &Copy) -> Result<Option<Why>, RecordError> {
    let mut facts = hub.record.find_changes(Wanted::Job(copy.job_id.clone())).await?;
    if let Some(federation_id) = copy.federation_id.clone() {
        facts.extend(hub.record.find_changes(Wanted::Federation(federation_id)).await?);
    }
    let record = Record::of(facts.into_iter().map(|it| it.change));
    if let Some(why) = left(&record, &promotion.from, &copy.job_id, promotion.with_active) {
        return Ok(Some(why));
    }
    let names = vec![(copy.job_id.clone(), promotion.from.as_str().to_owned())];
    let has_bytes = !hub.record.having_bodies(names).await?.is_empty();
    let is_bound = copy.job.as_ref().is_some_and(|job| job.bound);
    Ok(match (has_bytes, is_bound) {
        (true, _) => None,
        (false, true) => Some(Why::Bound),
        (false, false) => Some(Why::NoBytes),
    })
}
