//! Calls about one job with its id in the path: to the region that holds it, streamed both ways.
//!
//! A job is in any region, because routing put it there. Where nothing is known of it the regions are asked first, with reads,
//! so that only its own region gets the call. A 404 for a job is passed on only when every region has said so. A tombstone is no job:
//! where one has the id, the region has no such job.

mod tombstone;

use crate::net::IncomingBody;
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;

use super::residency::Guard;
use crate::ojs::{ErrorDocument, Operation};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::exchange::Exchange,
    locate::find::{Located, in_doubt, known, search},
    spooled,
    state::{NotFound, Proxy, Reply},
    stream::local::{Parts, forward, local, pass},
};
use crate::replica::ChangeKind;

/// `Retry-After` where no better time is known. Units: seconds.
const RETRY_AFTER_MIN: u64 = 1;

/// Passes a call to the owner of its job.
///
/// Errors: 403 `residency` where `residency.read` does not let the job be seen; those of [`local`], and 503 `owner_unavailable` when no region has the job and not all of them could be asked.
pub(crate) async fn owned(
    proxy: &Proxy,
    exchange: &mut Exchange,
    mut request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let Some(guard) = Guard::of(proxy, exchange, &mut request) else { return to_owner(proxy, exchange, request).await };
    // Apart, so that calls that stream through, which are nearly all, do not carry its weight.
    Box::pin(guarded(proxy, exchange, request, &guard)).await
}

async fn guarded(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
    guard: &Guard,
) -> Result<Response<Reply>, ErrorDocument> {
    guard.admit(proxy, exchange).await?;
    let response = to_owner(proxy, exchange, request).await?;
    guard.judge(proxy, exchange, response).await
}

async fn to_owner(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let id = exchange.matched.named_in(request.uri().path()).to_owned();
    let response = to_owner_of(proxy, exchange, &id, request).await?;
    if exchange.matched.operation == Operation::JobCancel
        && response.status().is_success()
        && let Some(region) = &exchange.region
    {
        proxy.shared.saw(ChangeKind::Cancelled, &id, region, None);
        if !proxy.shared.pools.is_empty() || proxy.shared.quotas.active.is_on() {
            proxy.shared.journal.free_place(&id);
        }
    }
    Ok(response)
}

async fn to_owner_of(
    proxy: &Proxy,
    exchange: &mut Exchange,
    id: &str,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    if let Some(index) = exchange.addressed {
        let headers = request.headers().clone();
        let response = local(proxy, exchange, request).await?;
        return tombstone::passed_over(proxy, exchange, (index, id), &headers, response).await;
    }
    if let Some(response) = spooled::about(proxy, exchange, id, &request).await? {
        return Ok(response);
    }
    let response = in_regions(proxy, exchange, id, request).await?;
    spooled::nowhere(proxy, exchange, response)
}

async fn in_regions(
    proxy: &Proxy,
    exchange: &mut Exchange,
    id: &str,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    if let Some(index) = known(proxy, id) {
        return at_owner(proxy, exchange, index, id, request).await;
    }
    match search(proxy, exchange, request.headers(), id).await {
        Located::At(index) => at_owner(proxy, exchange, index, id, request).await,
        Located::Nowhere(nobody) => nowhere(proxy, exchange, &nobody, request).await,
        Located::Unsure(doubt) => match doubt.left_or_shown(proxy) {
            Some(index) => forward(proxy, exchange, index, request).await,
            None => in_doubt(proxy, exchange, &doubt).map(Into::into),
        },
    }
}

/// Asks the region that should have the job. Where that does not know the job any more, the other regions are asked
/// before the client gets a 404.
async fn at_owner(
    proxy: &Proxy,
    exchange: &mut Exchange,
    index: RegionIndex,
    id: &str,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let of_job = matches!(exchange.matched.operation, Operation::JobGet | Operation::JobCancel);
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let (method, headers, bare) = (request.method().clone(), request.headers().clone(), request.body().is_end_stream());
    let response = forward(proxy, exchange, index, request).await?;
    let response = tombstone::passed_over(proxy, exchange, (index, id), &headers, response).await?;
    if response.status() != StatusCode::NOT_FOUND {
        return Ok(response);
    }
    let (owner, shown) = match search(proxy, exchange, &headers, id).await {
        Located::At(owner) => (owner, true),
        Located::Nowhere(_) => {
            proxy.shared.owners.forget(id);
            return Ok(response);
        }
        Located::Unsure(doubt) => match doubt.left_or_shown(proxy) {
            Some(owner) => (owner, false),
            None => return in_doubt(proxy, exchange, &doubt).map(Into::into),
        },
    };
    // A region that has the job may lack a part of it, such as the result: its 404 did not say that the job is absent.
    let contradicted = shown && of_job;
    if owner == index && !contradicted {
        return Ok(response);
    }
    let unavailable = || ErrorDocument::owner_unavailable(Some(proxy.region(owner).id.as_str()), RETRY_AFTER_MIN);
    // A body cannot be sent a second time; the next call goes to the right region.
    if !bare {
        exchange.region = Some(proxy.region(owner).id.clone());
        return Err(unavailable());
    }
    let response = pass(proxy, exchange, owner, Parts::bare(method, path, headers)).await?;
    if response.status() == StatusCode::NOT_FOUND && contradicted { Err(unavailable()) } else { Ok(response) }
}

/// No region has the job. A look-up gets the local region's answer; any other call goes to the local region, because
/// its id may not be that of a job. Where the local region has a tombstone, another one answers.
async fn nowhere(
    proxy: &Proxy,
    exchange: &mut Exchange,
    nobody: &NotFound,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let is_lookup = exchange.matched.operation == Operation::JobGet && *request.method() == Method::GET;
    let view = proxy.shared.registry.view();
    match nobody.index(proxy) {
        Some(index) if !is_lookup || request.uri().query().is_some() => {
            drop(view);
            forward(proxy, exchange, index, request).await
        }
        index => {
            exchange.region = Some(view.region(index.unwrap_or(view.local)).id.clone());
            Ok(nobody.answer.clone().into())
        }
    }
}
