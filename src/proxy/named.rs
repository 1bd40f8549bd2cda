//! Cron jobs by their names and workflows by their ids: to the region where they live.

use http::{Request, Response};
use hyper::body::Incoming;

use super::exchange::Exchange;
use super::local::{forward, local};
use super::locate::unsure;
use super::place::{Placed, Subject, place};
use super::{Proxy, Reply};
use crate::ojs::{ErrorDocument, Operation};

/// Passes a call on to the region that has what it names. Where no region has it, the local one says so.
///
/// Errors: those of [`local`], and 503 `owner_unavailable` when no region has it and not all of them could be asked.
pub(super) async fn named(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<Incoming>,
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
        // What it does not tell, it says to the call itself.
        Placed::At(index) | Placed::Hidden(index, _) => forward(proxy, exchange, index, request).await,
        Placed::Refused(index, answer) => {
            exchange.region = Some(proxy.region(index).id.clone());
            Ok(answer.into())
        }
        Placed::Nowhere => local(proxy, exchange, request).await,
        Placed::Unsure(document) => Err(unsure(proxy, exchange, &document)),
    }
}
