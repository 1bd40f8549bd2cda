//! Lines about breakers of job types and their incidents.

use tracing::{error, info, warn};

use super::TARGET;

/// The jobs of a type and a tenant fail too often: they wait from now on.
pub fn incident_opened(id: &str, job_type: &str, tenant: Option<&str>, why: &str) {
    error!(
        target: TARGET, event = "ojs.federation.incident_opened", incident = id, job_type, tenant = tenant.unwrap_or_default(), why,
        "an incident was opened: the jobs of a type and a tenant fail too often, and wait"
    );
}

/// As many incidents are open as may be: further types and tenants that fail too often are not stopped.
pub fn incidents_full(most: u64) {
    error!(
        target: TARGET, event = "ojs.federation.incidents_full", most,
        "no further incident is opened: close some of those that are open"
    );
}

/// A sidecar may let one of these jobs through.
pub fn incident_probed(id: &str, job_type: &str, tenant: Option<&str>, sidecar: &str) {
    info!(
        target: TARGET, event = "ojs.federation.incident_probed", incident = id, job_type, tenant = tenant.unwrap_or_default(), sidecar,
        "a sidecar may let one job of a stopped type through"
    );
}

/// The job that was let through has failed.
pub fn incident_goes_on(id: &str, job_type: &str, tenant: Option<&str>, pause_seconds: u64) {
    error!(
        target: TARGET, event = "ojs.federation.incident_goes_on", incident = id, job_type, tenant = tenant.unwrap_or_default(), pause_seconds,
        "the job that was let through has failed: those of its type and tenant wait again"
    );
}

/// The jobs of a type and a tenant go again.
pub fn incident_closed(id: &str, job_type: &str, tenant: Option<&str>, by: &str, reason: &str) {
    warn!(
        target: TARGET, event = "ojs.federation.incident_closed", incident = id, job_type, tenant = tenant.unwrap_or_default(), by, reason,
        "an incident was closed: the jobs of its type and tenant go again"
    );
}

/// A message about an incident did not reach the webhook. `is_last`: whether it is given up.
pub fn incident_message_failed(id: &str, moment: &str, error: &str, tries: u32, is_last: bool) {
    warn!(
        target: TARGET, event = "ojs.federation.incident_message_failed", incident = id, moment, error, tries, given_up = is_last,
        "a message about an incident did not reach the webhook"
    );
}

/// The record does not keep incidents: breakers stay as they are.
pub fn hub_breakers_wait(error: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_breakers_wait", error, "breakers of job types stay as they are");
}

/// The hub has stopped a type and a tenant.
pub fn type_stopped(job_type: &str, tenant: Option<&str>) {
    warn!(
        target: TARGET, event = "ojs.federation.type_stopped", job_type, tenant = tenant.unwrap_or_default(),
        "the hub has stopped a job type: its new jobs are delayed"
    );
}

/// Jobs of a type and a tenant go again.
pub fn type_goes_on(job_type: &str, tenant: Option<&str>) {
    info!(
        target: TARGET, event = "ojs.federation.type_goes_on", job_type, tenant = tenant.unwrap_or_default(),
        "jobs of a stopped type go again"
    );
}

/// Stopped types of the hub that this sidecar cannot read.
pub fn hub_breakers_refused(error: &str) {
    warn!(target: TARGET, event = "ojs.federation.hub_breakers_refused", error, "stopped job types of the hub are not in force");
}
