//! `GET /ojs/v1/queues/{name}/events` of a queue with shards: the streams of all its names, as the stream of one queue.
//!
//! Spec: ojs-protocol 2.11; fair-scheduling 9.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode};

use super::local::{Parts, local, pass_on};
use crate::net::IncomingBody;
use crate::net::pool::Pool;
use crate::ojs::shards::Naming;
use crate::ojs::{ErrorDocument, Operation};
use crate::policy::RegionIndex;
use crate::proxy::{
    call::exchange::Exchange,
    state::{Merged, Proxy, Reply, pool_limits, pool_meters},
};

/// Streams that share a connection of HTTP/2: fewer than servers permit, and none of them is one of other calls, which must not wait for them.
const PER_CONNECTION: usize = 50;

/// Whether a call asks for the events of a queue with shards.
pub(crate) fn is_sharded(proxy: &Proxy, exchange: &Exchange, request: &Request<IncomingBody>) -> bool {
    let (uri, matched) = (request.uri(), &exchange.matched);
    let is_of_queue = matched.operation == Operation::QueueEvents && request.method() == Method::GET;
    let shards = proxy.shared.shards.as_deref().filter(|_| is_of_queue);
    shards.is_some_and(|shards| Naming::of(shards, matched, uri.path(), None, &[]).is_some())
}

/// Opens the streams of all names of a queue, one after the other and its own first, on connections of their own, and answers when all are open. The answer ends with the first
/// stream that ends, so that the client comes back and hears all names again.
///
/// Errors: as for [`super::local::local`]; an answer of the region to one of the names that is no event stream is the answer of all.
pub(crate) async fn queue_events(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let index = exchange.addressed.unwrap_or(proxy.shared.registry.view().local);
    // Any other queue has one stream.
    let Some(targets) = targets(proxy, exchange, request.uri()) else { return local(proxy, exchange, request).await };
    let (parts, _) = request.into_parts();
    let mut opened: Option<Response<Merged<Reply>>> = None;
    let (mut waited, mut pool) = (Duration::ZERO, own_pool(proxy, index));
    for (place, path) in targets.into_iter().enumerate() {
        if place > 0 && place.is_multiple_of(PER_CONNECTION) {
            pool = own_pool(proxy, index);
        }
        let path = PathAndQuery::try_from(path).map_err(|_| ErrorDocument::uri_too_long())?;
        let call = Parts::bare(Method::GET, path, parts.headers.clone());
        let response = pass_on(proxy, exchange, (index, &pool), call).await;
        // The region took the time of all answers.
        waited += exchange.upstream;
        exchange.upstream = waited;
        let response = response?;
        if response.status() != StatusCode::OK || !is_event_stream(response.headers()) {
            return Ok(response);
        }
        match &mut opened {
            Some(merged) => merged.body_mut().add(response.into_body()),
            None => opened = Some(response.map(Merged::of)),
        }
    }
    opened.map(|response| response.map(Reply::merged)).ok_or_else(ErrorDocument::uri_too_long)
}

/// No connection yet. A stream keeps its connection when the pool is dropped.
fn own_pool(proxy: &Proxy, index: RegionIndex) -> Pool {
    Pool::new(pool_limits(&proxy.shared.config), pool_meters(proxy.metrics(index)))
}

/// The path and query for each name of the queue, its own first; none for a queue without shards.
fn targets(proxy: &Proxy, exchange: &Exchange, uri: &http::Uri) -> Option<Vec<String>> {
    let shards = proxy.shared.shards.as_deref()?;
    let naming = Naming::of(shards, &exchange.matched, uri.path(), uri.query(), &[])?;
    Some(naming.queue().suffixes().map(|suffix| naming.target(suffix)).collect())
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes().to_ascii_lowercase());
    kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"))
}
