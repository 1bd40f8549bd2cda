//! Lines about quotas.

use tracing::{info, warn};

use super::TARGET;

/// An operator has put quotas at this hub, in place of all before.
pub fn hub_quotas_put(count: usize, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_quotas_put", count, reason, ticket, author,
        "an operator has put quotas"
    );
}

/// Quotas of the hub that this sidecar cannot read.
pub fn hub_quotas_refused(error: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_quotas_refused", error, "quotas of the hub are not in force");
}

/// This sidecar keeps to other quotas of its hub than before.
pub fn hub_quotas_in_force(count: usize) {
    info!(target: TARGET, event = "ojs.federation.hub_quotas_in_force", count, "the quotas of the hub are in force");
}

/// Queues of FETCHes are left out because as many jobs of a quota are active as may be, or no slot is granted; once a minute for each quota. `count`: how many
/// FETCHes since the last line.
pub fn quota_active_full(tenant: &str, job_type: &str, reason: &str, count: u64) {
    warn!(
        target: TARGET, event = "ojs.federation.quota_active_full", tenant, job_type, reason, count,
        "workers get no jobs of a quota that bounds active jobs"
    );
}

/// A quota has no token for jobs of this sidecar. `word`: whether they are refused or delayed.
pub fn quota_exceeded(tenant: &str, job_type: &str, word: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.quota_exceeded", tenant, job_type, word,
        "jobs find no token of their quota"
    );
}

/// All jobs of a quota have found a token for a minute.
pub fn quota_kept(tenant: &str, job_type: &str) {
    info!(target: TARGET, event = "ojs.federation.quota_kept", tenant, job_type, "jobs find tokens of their quota again");
}
