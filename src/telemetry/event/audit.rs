//! The audit trail of a hub.

use tracing::{debug, error, info, warn};

use super::TARGET;

/// The head of the audit trail was signed.
pub fn hub_audit_head(size: u64, root: &str, envelope: &str) {
    info!(
        target: TARGET, event = "ojs.federation.hub_audit_head", size, root, envelope,
        "the audit trail was signed; a later change of these rows is found by this line"
    );
}

/// The records of a day of the ledger were signed.
pub fn hub_ledger_head(day: &str, size: u64, root: &str, envelope: &str) {
    info!(
        target: TARGET, event = "ojs.federation.hub_ledger_head", day, size, root, envelope,
        "the ledger was signed; a later change of these records is found by this line"
    );
}

/// One step of a job in the ledger.
#[derive(Debug, Clone, Copy)]
pub struct LedgerStep<'l> {
    /// The step.
    pub step: &'l str,
    /// The job.
    pub job_id: &'l str,
    /// Its type; empty where that is not known, as all below.
    pub job_type: &'l str,
    /// Its tenant.
    pub tenant: &'l str,
    /// The worker that has it, or had it last.
    pub worker_id: &'l str,
    /// The lease.
    pub lease_id: &'l str,
    /// The status of the job.
    pub status: &'l str,
}

/// A step of a job was added to the ledger. Spec: source-job-orchestrator §5.
pub fn ledger_step(it: &LedgerStep<'_>) {
    debug!(
        target: TARGET, event = "ojs.federation.hub_ledger_step", step = it.step, jobId = it.job_id, jobType = it.job_type,
        tenant = it.tenant, workerId = it.worker_id, leaseId = it.lease_id, status = it.status, "a step of a job"
    );
}

/// The ledger has a job in a form that this version does not read.
pub fn hub_ledger_unread(job_id: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_ledger_unread", job_id,
        "a later version has written this job of the ledger; its present state begins anew, and its records stay"
    );
}

/// No head of the ledger can be signed.
pub fn hub_ledger_unsigned(error: &str) {
    error!(target: TARGET, event = "ojs.federation.hub_ledger_unsigned", error, "the ledger is not signed");
}

/// No head of the audit trail can be signed.
pub fn hub_audit_unsigned(error: &str) {
    error!(target: TARGET, event = "ojs.federation.hub_audit_unsigned", error, "the audit trail is not signed");
}
