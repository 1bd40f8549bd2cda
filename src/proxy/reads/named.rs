//! Cron jobs by their names and workflows by their ids: to the region where they live.

use crate::net::IncomingBody;
use http::uri::PathAndQuery;
use http::{Request, Response, StatusCode};
use http_body::Body as _;

use super::residency::Guard;
use crate::ojs::{ErrorDocument, Operation};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::exchange::Exchange,
    locate::{
        find::unsure,
        place::{Placed, Subject, place},
    },
    state::{Proxy, Reply},
    stream::local::{Parts, forward, local, pass},
};

/// `Retry-After` where no better time is known. Units: seconds.
const RETRY_AFTER_MIN: u64 = 1;

/// Passes a call on to the region that has the named thing. Where no region has it, the local one answers.
///
/// Errors: 403 `residency` where `residency.read` hides the thing; those of [`local`]; 503 `owner_unavailable` when no
/// region has it and not all of them could be asked.
pub(crate) async fn named(
    proxy: &Proxy,
    exchange: &mut Exchange,
    mut request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let Some(guard) = Guard::of(proxy, exchange, &mut request) else { return to_home(proxy, exchange, request).await };
    let response = to_home(proxy, exchange, request).await?;
    guard.judge(proxy, exchange, response).await
}

async fn to_home(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    if exchange.addressed.is_some() {
        return local(proxy, exchange, request).await;
    }
    let name = exchange.matched.named_in(request.uri().path());
    let subject = match exchange.matched.operation {
        Operation::Workflow => Subject::Workflow,
        _ => Subject::Cron { first: proxy.shared.registry.view().local, quiet: false },
    };
    match place(proxy, exchange, request.headers(), subject, &name).await {
        Placed::At(index) => at_home(proxy, exchange, index, subject, &name, request).await,
        // The region gives its refusal to the call itself.
        Placed::Hidden(index, _) => forward(proxy, exchange, index, request).await,
        Placed::Refused(index, answer) => {
            exchange.region = Some(proxy.region(index).id.clone());
            Ok(answer.into())
        }
        Placed::Nowhere => local(proxy, exchange, request).await,
        Placed::Unsure(document) => Err(unsure(proxy, exchange, &document)),
    }
}

/// Passes a call to the region that should have the named thing. A remembered region of a workflow is checked before
/// its client gets a 404.
async fn at_home(
    proxy: &Proxy,
    exchange: &mut Exchange,
    index: RegionIndex,
    subject: Subject,
    name: &str,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let (method, headers, bare) = (request.method().clone(), request.headers().clone(), request.body().is_end_stream());
    let response = forward(proxy, exchange, index, request).await?;
    if response.status() != StatusCode::NOT_FOUND || !matches!(subject, Subject::Workflow) {
        return Ok(response);
    }
    proxy.shared.owners.forget(name);
    let other = match place(proxy, exchange, &headers, subject, name).await {
        Placed::At(other) | Placed::Hidden(other, _) if other != index => other,
        Placed::At(_) | Placed::Hidden(..) | Placed::Nowhere => return Ok(response),
        Placed::Refused(other, answer) => {
            exchange.region = Some(proxy.region(other).id.clone());
            return Ok(answer.into());
        }
        Placed::Unsure(document) => return Err(unsure(proxy, exchange, &document)),
    };
    if bare {
        return pass(proxy, exchange, other, Parts::bare(method, path, headers)).await;
    }
    let region = &proxy.region(other).id;
    exchange.region = Some(region.clone());
    Err(ErrorDocument::owner_unavailable(Some(region.as_str()), RETRY_AFTER_MIN))
}
