//! Lines about the outage spool.

use std::path::Path;

use tracing::{error, info, warn};

use super::TARGET;
use crate::telemetry::{Metrics, SpoolResult};

/// Whether the file of the spool can be used from now on; `trouble` is the closed word for why not.
pub fn spool_file(metrics: &Metrics, trouble: Option<&'static str>, path: &Path) {
    metrics.spool.unusable.set(i64::from(trouble.is_some()));
    let event = "ojs.federation.spool";
    match trouble {
        None => info!(target: TARGET, event, usable = true, "the outage spool is in its file"),
        Some(reason) => error!(
            target: TARGET, event, usable = false, reason, path = %path.display(),
            "the file of the outage spool cannot be used: no job is spooled, none that is in it is sent, and it is tried again; the file stays \
             as it is"
        ),
    }
}

/// A spooled job is set aside: only an operator, or its client's cancellation, ends it.
pub fn spool_aside(metrics: &Metrics, result: SpoolResult, job_id: Option<&str>, reason: &str) {
    metrics.spool.results[result].inc();
    warn!(
        target: TARGET, event = "ojs.federation.spool_aside", state = result.as_str(), job_id, reason,
        "a spooled job is set aside and stays in the file; `ojs-sidecar spool` lists it, retries it or discards it"
    );
}

/// An operator has let a job wait again, or has deleted it.
pub fn spool_ordered(metrics: &Metrics, result: SpoolResult, name: &str, reason: &str) {
    metrics.spool.results[result].inc();
    warn!(
        target: TARGET, event = "ojs.federation.spool_ordered", order = result.as_str(), job_id = name, reason,
        "an operator has decided about a spooled job"
    );
}
