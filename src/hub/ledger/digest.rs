//! The digest of a job's arguments, as its sidecar has reported it.

use super::super::record::RecordError;
use super::super::state::Hub;
use super::filter::read_job;

/// `sha256:` and the digest over the bytes of the arguments: as they were sent, and as the region has shown them; none where the ledger has none.
///
/// Errors: [`RecordError`].
pub(in crate::hub) async fn payload_digests(hub: &Hub, job_id: &str, region: &str) -> Result<Vec<String>, RecordError> {
    if hub.ledger.is_none() {
        return Ok(Vec::new());
    }
    let copies = hub.record.ledger_job(job_id.to_owned()).await?;
    let Some(copy) = copies.into_iter().find(|it| it.region == region) else { return Ok(Vec::new()) };
    let job = read_job(&copy)?;
    Ok([job.payload_digest, job.stored_digest].into_iter().flatten().map(|digest| format!("sha256:{digest}")).collect())
}
