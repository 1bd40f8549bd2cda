//! Claimed jobs: the worker that may have them, and how long their regions lease them.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use http::HeaderMap;

use crate::ojs::worker::{ClaimedJob, FetchRequest};
use crate::proxy::locate::find::asker;

/// How long a job is leased when the call does not say. Spec: ojs-protocol 2.4.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// The longest lease that is remembered, for any longer one in the call.
const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The worker that may have jobs claimed for this one. Several tenants may use a name such as `worker-1`, and a region that judges by
/// tenant and credentials is not asked again.
pub(super) fn claimant(worker: &str, headers: &HeaderMap) -> String {
    format!("{worker} {}", HEXLOWER.encode(digest(&SHA256, &asker(headers)).as_ref()))
}

/// How long the regions lease the jobs of a call: as it says, else as the job says.
pub(super) fn lease(claims: Option<&FetchRequest<'_>>, job: Option<&ClaimedJob<'_>>) -> Duration {
    let said = claims.and_then(FetchRequest::visibility_ms).or_else(|| job?.visibility_ms);
    said.map_or(LEASE, Duration::from_millis).min(LEASE_MAX)
}
