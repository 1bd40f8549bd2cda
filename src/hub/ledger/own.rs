//! The steps that a hub takes itself: it cancels jobs, and runs jobs again.

use super::super::record::RecordError;
use super::super::state::Hub;
use super::filter::read_job;
use super::take::{Reported, append};
use crate::base::RegionId;
use crate::replica::{Change, ChangeKind, JobFacts, OwnedDetails};

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

/// Keeps that the hub has cancelled a job; it is durable when this returns. A repetition adds nothing.
///
/// Errors: it may have been kept.
pub(in crate::hub) async fn cancelled(hub: &Hub, region: &RegionId, job_id: &str) -> Result<(), RecordError> {
    let Some(ledger) = &hub.ledger else { return Ok(()) };
    let change = Change { state: Some("cancelled".to_owned()), ..step(hub, region, job_id, ChangeKind::Cancelled) };
    append(hub, ledger, vec![Reported { change, details: Some(OwnedDetails::default()) }], Some(BY_HUB)).await
}

/// Keeps a new job with the description of the first one; it is durable when this returns. Where the first one is kept out of the ledger, so is the
/// new one. A repetition adds nothing.
///
/// Errors: it may have been kept.
pub(in crate::hub) async fn replayed(hub: &Hub, new: &NewJob<'_>) -> Result<(), RecordError> {
    let Some(ledger) = &hub.ledger else { return Ok(()) };
    let copies = hub.record.ledger_job(new.replay_of.to_owned()).await?;
    let first = copies.iter().find(|copy| copy.region == new.region.as_str());
    let first = first.map(read_job).transpose()?;
    let created = step(hub, new.region, new.id, ChangeKind::Created);
    let reported = match first {
        Some(first) if first.is_off => Reported { change: created, details: None },
        first => {
            let first = first.unwrap_or_default();
            let digest = new.digest.and_then(|it| it.strip_prefix(SHA256)).map(str::to_owned);
            let details = OwnedDetails {
                priority: Some(new.priority),
                // One that is bound to other regions has none here.
                payload_digest: digest.filter(|_| first.payload_digest.is_some()),
                replay_of: Some(new.replay_of.to_owned()),
                ..OwnedDetails::default()
            };
            // Without a first job in the ledger, the new one is bound for all that is known.
            let bound = first.bound.unwrap_or(true);
            let (job_type, queue, tenant) = (first.job_type, first.queue, first.tenant);
            let job = Some(JobFacts { job_type, queue, tenant, bound, enqueued_ms: None });
            Reported { change: Change { job, ..created }, details: Some(details) }
        }
    };
    append(hub, ledger, vec![reported], Some(BY_HUB)).await
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
