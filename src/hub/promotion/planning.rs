//! The plan of a promotion: each waiting job of the lost region, and whether it is taken.

use std::collections::{BTreeMap, BTreeSet};

use super::super::record::{INDEX_ROWS_MAX, JobStep, PromotionJob, RecordError, Wanted};
use super::super::state::Hub;
use super::plan::{Why, left};
use super::{Promotion, Stage};
use crate::replica::{Change, Copy, Record};

/// Jobs of the index that are looked at in one step.
const JOBS_AT_ONCE: usize = 500;
/// Copies about which the record is asked at once: with forty facts each they fit into one look-up.
pub(super) const COPIES_AT_ONCE: usize = 100;

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
    // All facts are of one copy: the one in the lost region.
    let copies = jobs.into_values().filter_map(|facts| Record::of(facts).copies.pop());
    let has_ended = |copy: &Copy| matches!(copy.state.as_str(), "completed" | "cancelled" | "discarded");
    let open: Vec<Copy> = copies.filter(|copy| !has_ended(copy)).collect();
    let mut planned = Vec::new();
    for some in open.chunks(COPIES_AT_ONCE) {
        for (copy, why) in some.iter().zip(why_left(hub, promotion, some).await?) {
            let step = if why.is_some() { JobStep::Left } else { JobStep::Planned };
            let (job_id, enqueued_ms) = (copy.job_id.clone(), copy.enqueued_ms());
            let (step, why) = (step.as_str().to_owned(), why.map(|it| it.as_str().to_owned()));
            planned.push(PromotionJob { job_id, enqueued_ms, step, why, ..PromotionJob::default() });
        }
    }
    hub.record.add_promotion_jobs(&promotion.id, planned).await?;
    let stage = match (is_all, promotion.is_dry_run) {
        (false, _) => Stage::Planning,
        (true, true) => Stage::Planned,
        (true, false) => Stage::Moving,
    };
    Ok(Promotion { stage, planned_to: last.or_else(|| promotion.planned_to.clone()), ..promotion.clone() })
}

/// Why each of these copies stays in the lost region, by all that the record has about it; none where it is taken.
///
/// At most [`COPIES_AT_ONCE`].
pub(super) async fn why_left(
    hub: &Hub,
    promotion: &Promotion,
    copies: &[Copy],
) -> Result<Vec<Option<Why>>, RecordError> {
    let jobs: Vec<String> = copies.iter().map(|copy| copy.job_id.clone()).collect();
    let tracked = copies.iter().filter_map(|copy| copy.federation_id.clone()).collect();
    let facts = hub.record.find_changes_of(jobs.clone(), tracked).await?;
    let is_cut = facts.len() >= INDEX_ROWS_MAX;
    let facts: Vec<Change> = facts.into_iter().map(|it| it.change).collect();
    let from = promotion.from.as_str().to_owned();
    let having = hub.record.having_bodies(jobs.into_iter().map(|job| (job, from.clone())).collect()).await?;
    let having: BTreeSet<String> = having.into_iter().map(|(job, _)| job).collect();
    let mut reasons = Vec::with_capacity(copies.len());
    for copy in copies {
        let about = if is_cut { each_of(hub, copy).await? } else { about(&facts, copy) };
        let is_bound = copy.job.as_ref().is_some_and(|job| job.bound);
        let by_bytes = match (having.contains(&copy.job_id), is_bound) {
            (true, _) => None,
            (false, true) => Some(Why::Bound),
            (false, false) => Some(Why::NoBytes),
        };
        let by_facts = left(&Record::of(about), &promotion.from, &copy.job_id, promotion.with_active);
        reasons.push(by_facts.or(by_bytes));
    }
    Ok(reasons)
}

/// The facts about a job and about all copies with its tracking id, out of those about several.
fn about(facts: &[Change], copy: &Copy) -> Vec<Change> {
    let tracked = |it: &&Change| copy.federation_id.is_some() && it.federation_id == copy.federation_id;
    let copies: BTreeSet<_> = facts.iter().filter(tracked).map(|it| (&it.job_id, &it.region)).collect();
    let is_about = |it: &&Change| it.job_id == copy.job_id || copies.contains(&(&it.job_id, &it.region));
    facts.iter().filter(is_about).cloned().collect()
}

/// The same by statements of its own, where there are more facts than one look-up reads.
async fn each_of(hub: &Hub, copy: &Copy) -> Result<Vec<Change>, RecordError> {
    let mut facts = hub.record.find_changes(Wanted::Job(copy.job_id.clone())).await?;
    if let Some(federation_id) = copy.federation_id.clone() {
        facts.extend(hub.record.find_changes(Wanted::Federation(federation_id)).await?);
    }
    Ok(facts.into_iter().map(|it| it.change).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::RegionId;
    use crate::replica::ChangeKind;

    fn fact(job: &str, region: &str, kind: ChangeKind, federation_id: Option<&str>) -> Change {
        Change {
            job_id: job.to_owned(),
            region: RegionId::parse(region).unwrap(),
            kind,
            lease_ms: 0,
            at_ms: 1,
            federation_id: federation_id.map(str::to_owned),
            state: None,
            replicated_from: None,
            job: None,
            observed_by: None,
        }
    }

    #[test]
    fn of_the_facts_about_several_jobs_a_copy_gets_its_own_and_those_of_its_tracking_id() {
        let (created, leased) = (ChangeKind::Created, ChangeKind::Leased);
        let facts = [
            fact("a", "us", created, Some("f")),
            fact("a", "eu", created, None),
            fact("b", "eu", created, Some("f")),
            fact("b", "eu", leased, None),
            fact("b", "us", created, None),
            fact("c", "us", created, Some("g")),
        ];
        let copy = |job: &str| Record::of([facts.iter().find(|it| it.job_id == job).unwrap().clone()]).copies.remove(0);
        assert_eq!(about(&facts, &copy("a")), facts[..4], "the copy of b in us has not shown the tracking id");
        assert_eq!(about(&facts, &copy("c")), facts[5..]);
        let untracked = Copy { federation_id: None, ..copy("a") };
        assert_eq!(about(&facts, &untracked), facts[..2], "copies without a tracking id are not one job");
    }
}
