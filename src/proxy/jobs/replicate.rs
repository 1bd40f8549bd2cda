//! The report of a stored job to the hub: the change, and where the operator wants it, the bytes.

use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::ojs::Segments;
use crate::ojs::answer::ShownJob;
use crate::ojs::header::{TENANT, TENANT_ID};
use crate::policy::{Decision, RegionIndex};
use crate::proxy::{
    placement::job::Job,
    state::{Proxy, RegionAnswer},
};
use crate::replica::{Outline, Reach, SentJob, StoredJob};

/// Reports a job that a region has stored, by this answer; its body stays with the report. `federation_id`: its tracking id, where it is known.
// Never inlined: most sidecars report nothing.
#[cold]
#[inline(never)]
pub(super) fn report_stored(
    proxy: &Proxy,
    job: &mut Job,
    outline: Outline,
    federation_id: Option<&HeaderValue>,
    (index, answer): (RegionIndex, &RegionAnswer),
) {
    if let Some(reach) = outline.reach() {
        report_bytes(proxy, job, reach, federation_id.and_then(|id| id.to_str().ok()), (index, answer));
    }
    let region = &proxy.region(index).id;
    let ids = (job.job_id.as_deref().map(str::as_bytes), federation_id.map(HeaderValue::as_bytes));
    let pieces = if outline.reads_sent() { std::mem::take(&mut job.call.body) } else { Segments::new() };
    let sent = SentJob { pieces, is_rerouted: is_rerouted(&job.decision, index) };
    proxy.shared.saw_stored(ids, region, (outline, sent), &answer.body);
}

/// Whether a job went to another region than the one that was meant for it.
pub(super) fn is_rerouted(decision: &Decision, index: RegionIndex) -> bool {
    decision.home.or(decision.target()).is_some_and(|meant| meant != index)
}

/// Hands the bytes of a job to the hub. Only of one that the region says it has made by this call: another answer may be about a job with
/// other bytes.
#[cold]
fn report_bytes(
    proxy: &Proxy,
    job: &Job,
    reach: &Reach,
    federation_id: Option<&str>,
    (index, answer): (RegionIndex, &RegionAnswer),
) {
    let Some(job_id) = job.job_id.as_deref().filter(|_| answer.status == StatusCode::CREATED) else { return };
    let is_other = ShownJob::read(&answer.body).id.is_some_and(|id| id != job_id);
    let region = &proxy.region(index).id;
    // The hub is that of the local region, which must be permitted, too.
    let is_permitted = [region, &proxy.shared.config.local_region].iter().all(|it| reach.contains(it.as_str()));
    if is_other || job.decision.pinned || !is_permitted {
        return;
    }
    // A query is not the job's, and may have a token in it.
    let Ok(path) = PathAndQuery::try_from(job.call.path.path()) else { return };
    let (all, mut headers) = (job.call.headers.all(), HeaderMap::new());
    for name in [CONTENT_TYPE, TENANT, TENANT_ID] {
        if let Some(value) = all.get(&name) {
            headers.insert(name, value.clone());
        }
    }
    proxy.shared.bodies.add(StoredJob {
        job_id: job_id.to_owned(),
        region: region.clone(),
        federation_id: federation_id.map(str::to_owned),
        reach: reach.clone(),
        path,
        headers,
        pieces: job.call.body.clone(),
    });
}
