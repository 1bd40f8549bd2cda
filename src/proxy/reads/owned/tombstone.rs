//! A tombstone in the place of a job: a region's answer about it is not about the job.
//!
//! This sidecar does not take the place of a tombstone for that of a job; but another one may have set it where this one saw the job before.

use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::ojs::{Class, ErrorDocument, Operation, shows_fence};
use crate::policy::RegionIndex;
use crate::proxy::{
    body::{collect::collect, shown_job::no_job},
    call::{
        ask::{ask, question},
        exchange::Exchange,
    },
    placement::is_guarded_region,
    state::{Proxy, Reply},
};

/// A tombstone holds only its id, and servers add some twenty members: a longer answer is a job, and is streamed.
/// Units: bytes.
const TOMBSTONE_BYTES_MAX: usize = 16 * 1024;

/// A region's answer to a call about a job, or "no such job" where it is about a tombstone. `headers`: those of the caller.
///
/// Errors: 504 where a short answer breaks off.
pub(super) async fn passed_over(
    proxy: &Proxy,
    exchange: &Exchange,
    (index, id): (RegionIndex, &str),
    headers: &HeaderMap,
    response: Response<Reply>,
) -> Result<Response<Reply>, ErrorDocument> {
    let shows_job = matches!(exchange.matched.operation, Operation::JobGet | Operation::JobCancel);
    let may_be_fenced = match response.status() {
        StatusCode::OK if shows_job && is_legible(&response) => return Box::pin(read(proxy, index, response)).await,
        StatusCode::OK => shows_job && response.body().size_hint().lower() <= TOMBSTONE_BYTES_MAX as u64,
        // A tombstone is over, so that nothing can be done to it.
        StatusCode::CONFLICT => true,
        _ => false,
    };
    let may_be_fenced = may_be_fenced && is_guarded_region(&proxy.shared, index);
    // Apart, as it is rare.
    if may_be_fenced && Box::pin(has_tombstone(proxy, exchange, (index, id), headers)).await {
        return Ok(no_job().into());
    }
    Ok(response)
}

/// A short answer, or "no such job" where it shows a tombstone.
async fn read(proxy: &Proxy, index: RegionIndex, response: Response<Reply>) -> Result<Response<Reply>, ErrorDocument> {
    let (head, body) = response.into_parts();
    let deadline = Instant::now() + proxy.shared.config.limits.call_timeout;
    let share = proxy.shared.buffered.answer();
    let body = collect(body.map_err(std::io::Error::other), TOMBSTONE_BYTES_MAX, deadline, share).await;
    let body = body.map_err(|_| ErrorDocument::upstream_timeout(proxy.region(index).id.as_str()))?.hold();
    Ok(if shows_fence(&body) { no_job().into() } else { Response::from_parts(head, Reply::full(body)) })
}

/// Whether an answer is short, and can be read as it is.
fn is_legible(response: &Response<Reply>) -> bool {
    let is_short = response.body().size_hint().exact().is_some_and(|bytes| bytes <= TOMBSTONE_BYTES_MAX as u64);
    is_short && !response.headers().contains_key(CONTENT_ENCODING)
}

/// Asks a region whether a tombstone has the id.
async fn has_tombstone(
    proxy: &Proxy,
    exchange: &Exchange,
    (index, id): (RegionIndex, &str),
    headers: &HeaderMap,
) -> bool {
    let deadline = Instant::now() + proxy.shared.config.limits.call_timeout;
    let Some(question) = question(exchange.request_id(), headers, id, deadline) else { return false };
    let answer = ask(proxy, Class::Job, index, question).await;
    answer.is_ok_and(|answer| answer.status.is_success() && shows_fence(&answer.body))
}
