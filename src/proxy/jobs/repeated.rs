//! Enqueues under a tracking id that a client repeats: the index of the hub knows the jobs of all regions, as far as sidecars have reported
//! them. An index that does not answer in time holds no job up. Reports miss some ends of jobs, so that the region of a copy is asked for it first.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::base::RegionId;
use crate::config::ReadResidency;
use crate::ojs::{Class, ErrorDocument, path_segment, progress};
use crate::proxy::{
    body::shown_job::has,
    call::ask::{ask, question},
    locate::HUB_WAIT,
    placement::job::Job,
    state::{OwnTracking, Proxy},
};
use crate::replica::{IndexAnswer, has_failed};
use crate::telemetry::RepeatedId;

/// How long an enqueue waits for the region of a copy. One that does not answer is taken to have it.
const REGION_WAIT: Duration = Duration::from_secs(1);
/// Copies that are asked for at most: conflicts leave one that lives, and two while they are cleared up.
const COPIES_MAX: usize = 2;

/// The refusal of a job with a tracking id that the index knows. Waits for the hub of its own region for [`HUB_WAIT`] at most, and for the region of each
/// of [`COPIES_MAX`] copies for [`REGION_WAIT`].
pub(super) async fn refusal(proxy: &Proxy, job: &Job, own: &OwnTracking) -> Option<Box<ErrorDocument>> {
    let path = format!("/v1/federation/jobs/{}", path_segment(&own.federation_id));
    let copies = match proxy.shared.index.ask(path, job.call.deadline.min(Instant::now() + HUB_WAIT)).await {
        IndexAnswer::Shown(record) => serde_json::from_slice::<Record>(&record).ok().map(|record| record.copies),
        IndexAnswer::Absent => Some(Vec::new()),
        IndexAnswer::NoIndex | IndexAnswer::Failed => None,
    };
    let results = &proxy.shared.metrics.hub_keys.repeated_ids;
    let Some(copies) = copies else {
        results[RepeatedId::NoAnswer].inc();
        return None;
    };
    for copy in existing(copies, own.tenant.as_deref()).into_iter().take(COPIES_MAX) {
        if may_be_there(proxy, job, &copy).await {
            results[RepeatedId::Refused].inc();
            return Some(refused(proxy, &copy));
        }
    }
    results[RepeatedId::New].inc();
    None
}

/// Whether the region of a copy has it, or does not deny it. One that is not configured here has none.
async fn may_be_there(proxy: &Proxy, job: &Job, copy: &Known) -> bool {
    let Some(index) = proxy.shared.registry.view().index_of(copy.region.as_str()) else { return false };
    let deadline = job.call.deadline.min(Instant::now() + REGION_WAIT);
    let Some(question) = question(&job.request_id(), &job.call.headers.all(), &copy.job_id, deadline) else {
        return true;
    };
    let Ok(answer) = ask(proxy, Class::Job, index, question).await else { return true };
    match has(&answer, &copy.job_id).await {
        Some(true) => progress(&answer.body).is_none_or(|shown| !has_failed(&shown.state)),
        Some(false) => false,
        None => true,
    }
}

fn refused(proxy: &Proxy, copy: &Known) -> Box<ErrorDocument> {
    let config = &proxy.shared.config;
    let is_hidden =
        config.residency.read == ReadResidency::Deny && copy.bound != Some(false) && copy.region != config.local_region;
    let shown = (!is_hidden).then_some((&copy.region, copy.job_id.as_str(), copy.state.as_str()));
    Box::new(ErrorDocument::federation_id_repeated(shown))
}

/// A record of the index.
#[derive(Deserialize)]
struct Record {
    copies: Vec<Known>,
}

/// One copy in it.
#[derive(Debug, Deserialize)]
struct Known {
    job_id: String,
    region: RegionId,
    state: String,
    tenant: Option<String>,
    /// None where its description is not known.
    bound: Option<bool>,
    winner: bool,
}

impl Known {
    /// Whether it is a job of this tenant, as far as the index knows: the tenant of a bound job does not leave its region.
    fn is_of(&self, tenant: Option<&str>) -> bool {
        self.tenant.as_deref() == tenant
    }
}

/// The copies that an enqueue of a tenant repeats, the one that counts first: those that are neither cancelled nor discarded.
fn existing(mut copies: Vec<Known>, tenant: Option<&str>) -> Vec<Known> {
    copies.retain(|copy| !has_failed(&copy.state) && copy.is_of(tenant));
    copies.sort_by_key(|copy| !copy.winner);
    copies
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A region, a state, a tenant, whether the copy is bound, and whether it counts.
    type CopyOf<'a> = (&'a str, &'a str, Option<&'a str>, Option<bool>, bool);

    /// The region of the copy that an enqueue of a tenant repeats.
    fn repeats(copies: &[CopyOf<'_>], tenant: Option<&str>) -> Option<String> {
        let known = copies.iter().map(|(region, state, tenant, bound, winner)| Known {
            job_id: "j".to_owned(),
            region: RegionId::parse(region).unwrap(),
            state: (*state).to_owned(),
            tenant: tenant.map(str::to_owned),
            bound: *bound,
            winner: *winner,
        });
        existing(known.collect(), tenant).first().map(|copy| copy.region.as_str().to_owned())
    }

    #[test]
    fn a_copy_is_repeated_unless_it_was_cancelled_or_discarded() {
        for state in ["scheduled", "available", "pending", "active", "retryable", "completed", "of-a-later-version"] {
            assert_eq!(repeats(&[("a", state, None, Some(false), true)], None).as_deref(), Some("a"), "{state}");
        }
        for state in ["cancelled", "discarded"] {
            assert_eq!(repeats(&[("a", state, None, Some(false), true)], None), None, "{state}");
        }
        let over = ("b", "cancelled", None, Some(false), true);
        let (left, counts) = (("a", "available", None, Some(false), false), ("c", "active", None, Some(false), true));
        assert_eq!(repeats(&[left, over], None).as_deref(), Some("a"));
        assert_eq!(repeats(&[counts, left], None).as_deref(), Some("c"));
        assert_eq!(repeats(&[], None), None);
    }

    #[test]
    fn a_tracking_id_is_that_of_its_tenant_where_the_index_knows_it() {
        let of = |tenant, bound| [("a", "available", tenant, bound, true)];
        assert_eq!(repeats(&of(Some("x"), Some(false)), Some("x")).as_deref(), Some("a"));
        for (known, bound) in [(Some("x"), Some(false)), (Some("x"), Some(true)), (None, Some(false))] {
            assert_eq!(repeats(&of(known, bound), Some("y")), None, "{known:?} {bound:?}");
        }
        assert_eq!(repeats(&of(Some("x"), Some(false)), None), None);
        // A bound job leaves its tenant at home, and of a job that was first seen at a FETCH it is not known.
        for bound in [Some(true), None] {
            assert_eq!(repeats(&of(None, bound), Some("y")), None, "{bound:?}");
            assert_eq!(repeats(&of(None, bound), None).as_deref(), Some("a"), "{bound:?}");
        }
    }
}
