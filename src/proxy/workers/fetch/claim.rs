//! Claimed jobs: the worker that may have them, and how long their regions lease them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use http::HeaderMap;

use crate::base::text::read_rfc3339;
use crate::journal::LeasePlace;
use crate::ojs::worker::{ClaimedJob, FetchRequest};
use crate::policy::Pool;
use crate::proxy::{locate::find::asker, state::Shared};

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

/// Counts a job of a worker of a pool, or of none, for the figures of its queue.
pub(super) fn tally(shared: &Shared, pool: Option<&Pool>, job: &ClaimedJob<'_>, now: Instant) {
    let Some(queue) = shared.pools.queue(pool, &job.queue) else { return };
    let [started, enqueued] = [&job.started_at, &job.enqueued_at].map(|at| at.as_deref().and_then(read_rfc3339));
    let wait = started.zip(enqueued).map(|(started, enqueued)| Duration::from_millis(started.saturating_sub(enqueued)));
    let mut tally = shared.tally.lock();
    tally.dispatched(queue, wait, now);
    tally.waits.came(&job.queue, now);
    drop(tally);
    shared.metrics.scheduling.dispatched(queue, pool.map_or("", |pool| pool.name()), wait);
}

/// The place that a job takes in a pool, and its slot.
pub(super) fn place(
    shared: &Shared,
    pool: Option<&Pool>,
    job: &ClaimedJob<'_>,
    slot: Option<Arc<str>>,
) -> Option<LeasePlace> {
    if shared.pools.is_empty() {
        return slot.map(|slot| LeasePlace { pool: None, queue: None, slot: Some(slot) });
    }
    let queue = shared.pools.queue(pool, &job.queue).cloned();
    let pool = pool.map(|pool| Arc::clone(pool.name()));
    (pool.is_some() || queue.is_some() || slot.is_some()).then_some(LeasePlace { pool, queue, slot })
}
