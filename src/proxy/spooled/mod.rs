//! Answers about jobs that are in the outage spool and in no region: to their enqueue, to its repetition, to a look-up and to a cancellation.

mod shown;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use crate::config::ReadResidency;
use crate::net::IncomingBody;
use crate::ojs::header::{FEDERATION_SPOOLED, MEDIA_TYPE};
use crate::ojs::{ErrorDocument, Operation};
use crate::outcome::Identity;
use crate::proxy::{
    call::exchange::Exchange,
    placement::tenant_of,
    state::{Proxy, RegionAnswer, Reply, digest},
};
use crate::spool::{Known, Ordered, Spool};
use crate::telemetry::SpoolResult;

/// When it is worth another try: a commit, or a try at a region, is over by then. Units: seconds.
pub(crate) const RETRY_AFTER: u64 = 1;
/// The state of a spooled job, as OJS has it.
const PENDING: &str = "pending";
const CANCELLED: &str = "cancelled";

/// The answer about a spooled job: 202 to its enqueue, 200 to other calls. `body`: the job, where it may be shown.
pub(crate) fn answer(status: StatusCode, job_id: &str, state: &str, body: Option<&[u8]>) -> RegionAnswer {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(FEDERATION_SPOOLED, HeaderValue::from_static("true"));
    let body = shown::document(job_id, state, body.unwrap_or(b"{}"));
    RegionAnswer { status, headers, body: body.into() }
}

/// The answer to an enqueue that is held.
pub(crate) fn accepted(job_id: &str, body: &[u8]) -> RegionAnswer {
    answer(StatusCode::ACCEPTED, job_id, PENDING, Some(body))
}

/// The answer to the repetition of an enqueue under its own id; `None` where no such job is spooled.
///
/// Errors: 503 `id_in_use` for another body, 409 `spool_aside` where the job is set aside.
pub(crate) async fn repeated(
    proxy: &Proxy,
    identity: &Identity,
    own_id: Option<&str>,
) -> Result<Option<RegionAnswer>, ErrorDocument> {
    let Some((spool, id)) = proxy.shared.spool.as_deref().zip(own_id) else { return Ok(None) };
    if spool.is_storing(id, &identity.tenant) {
        return Err(ErrorDocument::spool_behind("unconfirmed", RETRY_AFTER));
    }
    let Some(known) = spool.of_id(id, || identity.tenant) else { return Ok(None) };
    if known.head.identity.body != identity.body {
        return Err(ErrorDocument::spooled_id_in_use(id, RETRY_AFTER));
    }
    held(spool, &known).await.map(Some)
}

/// The answer to the repetition of an enqueue under its own tracking id and with this body; `None` where no such job is spooled.
///
/// Errors: 503 `spool_behind` where its first commit is in doubt, 409 `spool_aside` where the job is set aside.
pub(crate) async fn repeated_by_federation_id(
    proxy: &Proxy,
    headers: &HeaderMap,
    federation_id: &str,
    body: &[&[u8]],
) -> Result<Option<RegionAnswer>, ErrorDocument> {
    let Some(spool) = proxy.shared.spool.as_deref().filter(|spool| spool.counts_any()) else { return Ok(None) };
    let (tenant, body) = (tenant_of(headers), digest(body));
    if spool.is_storing_tracked(federation_id, &tenant, &body) {
        return Err(ErrorDocument::spool_behind("unconfirmed", RETRY_AFTER));
    }
    match spool.of_federation_id(federation_id, &tenant, &body) {
        Some(known) => held(spool, &known).await.map(Some),
        None => Ok(None),
    }
}

/// The answer to a repetition of the enqueue of this job.
///
/// Errors: 409 where the job is set aside.
pub(crate) async fn held(spool: &Spool, known: &Known) -> Result<RegionAnswer, ErrorDocument> {
    let id = known.head.job_id();
    if known.state.is_aside() {
        return Err(ErrorDocument::spool_aside(id, known.state.as_str()));
    }
    let content = spool.content(known.number).await;
    Ok(answer(StatusCode::ACCEPTED, id, PENDING, content.as_ref().map(|content| &*content.body)))
}

/// Answers a look-up or a cancellation of a spooled job; `None` for all other calls and jobs.
///
/// Errors: 503 `spool_busy` while the job may be in the file or not, 409 `spool_aside` where it is set aside; for a cancellation that is not
/// carried out also 500 `outcome_unknown`.
pub(crate) async fn about(
    proxy: &Proxy,
    exchange: &Exchange,
    id: &str,
    request: &Request<IncomingBody>,
) -> Result<Option<Response<Reply>>, ErrorDocument> {
    let Some(spool) = proxy.shared.spool.as_deref() else { return Ok(None) };
    let is_lookup =
        exchange.matched.operation == Operation::JobGet && matches!(*request.method(), Method::GET | Method::HEAD);
    let is_cancellation = exchange.matched.operation == Operation::JobCancel;
    if !is_lookup && !is_cancellation {
        return Ok(None);
    }
    if spool.counts_any() && spool.is_storing(id, &tenant_of(request.headers())) {
        return Err(ErrorDocument::spool_busy("unconfirmed", RETRY_AFTER));
    }
    let Some(known) = spool.of_id(id, || tenant_of(request.headers())) else { return Ok(None) };
    if is_lookup && known.state.is_aside() {
        return Err(ErrorDocument::spool_aside(id, known.state.as_str()));
    }
    // Only its region can judge by its data whether it may be seen here.
    let is_shown = proxy.shared.config.residency.read == ReadResidency::Allow;
    let content = if is_shown { spool.content(known.number).await } else { None };
    let body = content.as_ref().map(|content| &*content.body);
    if is_lookup {
        return Ok(Some(answer(StatusCode::OK, id, PENDING, body).into()));
    }
    match spool.cancel(&known).await {
        Ordered::Done => {
            proxy.shared.metrics.spool.results[SpoolResult::Cancelled].inc();
            Ok(Some(answer(StatusCode::OK, id, CANCELLED, body).into()))
        }
        // A region has it by now.
        Ordered::NotFound => Ok(None),
        Ordered::Sent if known.state.is_aside() => Err(ErrorDocument::spool_aside(id, known.state.as_str())),
        Ordered::Sent => Err(ErrorDocument::spool_busy("sent", RETRY_AFTER)),
        Ordered::Busy | Ordered::Ambiguous | Ordered::Damaged => {
            Err(ErrorDocument::spool_busy("on_its_way", RETRY_AFTER))
        }
        Ordered::NotTried => Err(ErrorDocument::spool_busy("unusable", RETRY_AFTER)),
        Ordered::Unknown => Err(ErrorDocument::spool_unknown(id)),
    }
}

/// The answer that no region has a job: it may be in a file that could not be read since the start.
///
/// Errors: 503 `spool_busy` then.
pub(crate) fn nowhere(
    proxy: &Proxy,
    exchange: &Exchange,
    response: Response<Reply>,
) -> Result<Response<Reply>, ErrorDocument> {
    let is_about_job = matches!(exchange.matched.operation, Operation::JobGet | Operation::JobCancel);
    let is_unread = proxy.shared.spool.as_deref().is_some_and(Spool::is_unread);
    if is_unread && is_about_job && response.status() == StatusCode::NOT_FOUND {
        return Err(ErrorDocument::spool_busy("not_read", RETRY_AFTER));
    }
    Ok(response)
}
