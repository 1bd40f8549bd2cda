//! The steps that a hub takes itself: it cancels jobs, and runs jobs again.

use super::super::record::RecordError;
use super::super::state::Hub;
use super::filter::read_job;
use super::job::Job;
use super::take::{Reported, append};
use crate::base::RegionId;
use crate::replica::{Change, ChangeKind, JobFacts, OwnedDetails};
use crate::telemetry::event;

/// The name that such steps have in the place of a sidecar's.
const BY_HUB: &str = "hub";
/// In front of the hex of a digest.
const SHA256: &str = "sha256:";

/// A new job that repeats another one in its region.
#[derive(Debug, Clone, Copy)]
pub(in crate::hub) struct NewJob<'a> {
    pub(in crate::hub) region: &'a RegionId,
    pub(in crate::hub) id: &'a str,
    /// The first job.
    pub(in crate::hub) replay_of: &'a str,
    pub(in crate::hub) priority: i64,
    /// `sha256:` and the digest of its arguments.
    pub(in crate::hub) digest: Option<&'a str>,
}

/// Keeps that the hub has cancelled a job that the ledger knows, or may hear of yet because it is in the region of this hub; it is durable when this
/// returns. A repetition adds nothing.
///
/// Errors: it may have been kept.
pub(in crate::hub) async fn cancelled(hub: &Hub, region: &RegionId, job_id: &str) -> Result<(), RecordError> {
    let Some(ledger) = &hub.ledger else { return Ok(()) };
    let is_here = hub.index.as_ref().is_some_and(|index| index.settings.region == *region);
    if !is_here && copy(hub, region, job_id).await?.is_none() {
        return Ok(());
    }
    let change = Change { state: Some("cancelled".to_owned()), ..step(hub, region, job_id, ChangeKind::Cancelled) };
    append(hub, ledger, vec![Reported { change, details: Some(OwnedDetails::default()), trial: None }], Some(BY_HUB))
        .await
}

/// Keeps a new job with the description of the first one; it is durable when this returns. Where the first one is kept out of the ledger, so is the
/// new one; where the ledger does not know it, the hub adds nothing. A repetition adds nothing.
///
/// Errors: it may have been kept.
pub(in crate::hub) async fn replayed(hub: &Hub, new: &NewJob<'_>) -> Result<(), RecordError> {
    let Some(ledger) = &hub.ledger else { return Ok(()) };
    let Some(first) = copy(hub, new.region, new.replay_of).await? else { return Ok(()) };
    let created = step(hub, new.region, new.id, ChangeKind::Created);
    let reported = match first {
        first if first.is_off => Reported { change: created, details: None, trial: None },
        first => {
            let digest = new.digest.and_then(|it| it.strip_prefix(SHA256)).map(str::to_owned);
            let details = OwnedDetails {
                priority: Some(new.priority),
                // One that is bound to other regions has none here.
                payload_digest: digest.filter(|_| first.payload_digest.is_some()),
                replay_of: Some(new.replay_of.to_owned()),
                ..OwnedDetails::default()
            };
            // One that is known by its later steps alone may be bound.
            let bound = first.bound.unwrap_or(true);
            let (job_type, queue, tenant) = (first.job_type, first.queue, first.tenant);
            let job = Some(JobFacts { job_type, queue, tenant, bound, enqueued_ms: None });
            Reported { change: Change { job, ..created }, details: Some(details), trial: None }
        }
    };
    append(hub, ledger, vec![reported], Some(BY_HUB)).await
}

/// The copy of a job in a region. None where the ledger has none, or one that only a later version reads, so that it does not stand in the way.
async fn copy(hub: &Hub, region: &RegionId, job_id: &str) -> Result<Option<Job>, RecordError> {
    let copies = hub.record.ledger_job(job_id.to_owned()).await?;
    let copy = copies.iter().find(|copy| copy.region == region.as_str());
    Ok(copy.and_then(|copy| read_job(copy).inspect_err(|_| event::hub_ledger_unread(job_id)).ok()))
}

fn step(hub: &Hub, region: &RegionId, job_id: &str, kind: ChangeKind) -> Change {
    Change {
        job_id: job_id.to_owned(),
        region: region.clone(),
        kind,
        lease_ms: 0,
        at_ms: hub.clock.unix_ms(),
        federation_id: None,
        state: None,
        replicated_from: None,
        job: None,
        observed_by: None,
    }
}
