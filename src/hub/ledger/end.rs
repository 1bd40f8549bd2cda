//! The end of a job that a half-open breaker has let through.

use super::super::record::RecordError;
use super::super::state::Hub;
use super::job::{Job, Status};
use crate::policy::ProbeJob;

/// Whether the job has succeeded, or failed since it was let through; none where the ledger knows of neither.
///
/// Errors: [`RecordError`].
pub(in crate::hub) async fn end_of(hub: &Hub, probe: &ProbeJob) -> Result<Option<bool>, RecordError> {
    let copies = hub.record.ledger_job(probe.job_id.clone()).await?;
    let copy = copies.into_iter().find(|it| it.region == probe.region);
    let job = copy.and_then(|it| serde_json::from_str::<Job>(&it.document).ok());
    Ok(job.and_then(|job| match job.status() {
        _ if u64::from(job.failures()) > probe.failures => Some(false),
        Status::Succeeded => Some(true),
        Status::DeadLettered => Some(false),
        _ => None,
    }))
}
