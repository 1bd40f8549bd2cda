//! Jobs that a hub cancels or runs again by the order of an operator.

use tracing::{info, warn};

use super::TARGET;

/// A hub has cancelled a job in its region, or has not; `result` says which. At the level of warnings, as a switch.
pub fn hub_job_cancelled(job_id: &str, region: &str, result: &str, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_job_cancelled", job_id, region, result, reason, ticket, author,
        "an operator has ordered to cancel a job"
    );
}

/// A hub runs jobs again by the order of an operator.
pub fn hub_replay_ordered(id: &str, jobs: u64, [reason, ticket, author]: [&str; 3]) {
    warn!(
        target: TARGET, event = "ojs.federation.hub_replay_ordered", id, jobs, reason, ticket, author,
        "an operator has ordered to run jobs again"
    );
}

/// All jobs of a replay have come to their end.
pub fn hub_replay_ended(id: &str, result: &str) {
    info!(target: TARGET, event = "ojs.federation.hub_replay_ended", id, result, "a replay has ended");
}

/// A replay does not go on. Logged once for each cause.
pub fn hub_replay_waits(id: &str, error: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_replay_waits", id, error, "a replay does not go on");
}
