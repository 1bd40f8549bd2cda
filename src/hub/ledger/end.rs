//! The state of a job that a half-open breaker has let through.

use super::super::record::RecordError;
use super::super::state::Hub;
use super::job::{Job, Status};
use crate::policy::ProbeJob;

/// The state of a job since it was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum ProbeState {
    /// No worker has it, as far as the ledger knows.
    Waits,
    /// A worker has it.
    Begun,
    /// It has succeeded.
    Succeeded,
    /// It has failed.
    Failed,
}

/// The state of a job that was let through.
///
/// Errors: [`RecordError`].
pub(in crate::hub) async fn state_of(hub: &Hub, probe: &ProbeJob) -> Result<ProbeState, RecordError> {
    let copies = hub.record.ledger_job(probe.job_id.clone()).await?;
    let copy = copies.into_iter().find(|it| it.region == probe.region);
    // One that only a later version reads ends its permission by time; its next report is in the log.
    let job = copy.and_then(|it| serde_json::from_str::<Job>(&it.document).ok());
    Ok(job.map_or(ProbeState::Waits, |job| match job.status() {
        _ if u64::from(job.failures()) > probe.failures => ProbeState::Failed,
        Status::Succeeded => ProbeState::Succeeded,
        Status::DeadLettered => ProbeState::Failed,
        Status::Leased => ProbeState::Begun,
        _ => ProbeState::Waits,
    }))
}
