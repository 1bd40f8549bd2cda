//! `GET /ojs/v1/events/stream?channel=…`, translated to the stream of a job or of a queue.
//!
//! SDKs call it and no server has it. A job's stream is in the region that holds the job, a queue's in the local region.

use crate::net::IncomingBody;
use http::uri::PathAndQuery;
use http::{HeaderName, Request, Response, Uri};

use super::owned::owned;
use crate::ojs::{Channel, ErrorDocument, identify};
use crate::proxy::{
    call::{address::admit_unjudged, exchange::Exchange},
    state::{Proxy, Reply},
    stream::{
        local::local,
        queue_events::{is_sharded, queue_events},
    },
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Streams the events of a channel. A call without a channel, or with `compat.event_stream` off, is passed on
/// unchanged.
///
/// Errors: 400 for a channel that no server has a stream for; those of [`owned`] and [`local`].
pub(crate) async fn event_stream(
    proxy: &Proxy,
    exchange: &mut Exchange,
    mut request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let query = request.uri().query();
    // Without a channel it is the stream of a server that has one by this name, as any path that we do not know.
    if !proxy.shared.config.compat.event_stream || !Channel::is_named(query) {
        admit_unjudged(proxy, exchange)?;
        return local(proxy, exchange, request).await;
    }
    let channel = Channel::of(query).ok_or_else(ErrorDocument::unknown_channel)?;
    let target = PathAndQuery::try_from(channel.target(query)).map_err(|_| ErrorDocument::unknown_channel())?;
    lead(request.uri_mut(), target)?;
    // From here on it is the call that servers know, in routing, counters and logs.
    exchange.matched = identify(request.method(), request.uri().path());
    match channel {
        // A job's events are numbered by the one region that holds it, so the number stays good wherever that is.
        Channel::Job(_) => owned(proxy, exchange, request).await,
        Channel::Queue(_) => {
            admit_unjudged(proxy, exchange)?;
            // The number counts the events of one region, and without an address that is the local one.
            if exchange.addressed.is_some_and(|index| index != proxy.shared.registry.view().local) {
                request.headers_mut().remove(LAST_EVENT_ID);
            }
            if is_sharded(proxy, exchange, &request) {
                return Box::pin(queue_events(proxy, exchange, request)).await;
            }
            local(proxy, exchange, request).await
        }
    }
}

fn lead(uri: &mut Uri, target: PathAndQuery) -> Result<(), ErrorDocument> {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target);
    *uri = Uri::from_parts(parts).map_err(|_| ErrorDocument::unknown_channel())?;
    Ok(())
}
