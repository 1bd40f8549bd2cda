//! WebSocket upgrades: a tunnel to the region that the client named, else to the local one, which copies bytes both ways once both sides have
//! switched.

use std::sync::Arc;
use std::time::Duration;

use crate::net::{ClientSide, IncomingBody, Room};
use http::header::{CONNECTION, SEC_WEBSOCKET_EXTENSIONS, UPGRADE};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;

use super::local::{headers_for, place, room as room_of};
use super::socket::Relay;
use crate::net::headers::{strip_answer, strip_ours};
use crate::net::pool::upgrade;
use crate::ojs::shards::Shards;
use crate::ojs::{ErrorDocument, Operation};
use crate::policy::RequestOutcome;
use crate::proxy::{
    body::collect::OVERLOADED_RETRY_AFTER,
    call::{
        address::admit_unjudged, ask::unavailable, attempt::of_dial, exchange::Exchange, feedback, shut::check_breaker,
    },
    state::{Proxy, Reply},
};

/// Switches the client's connection and a new connection to the region to WebSocket, and copies between them. A region's answer other
/// than 101 is passed on.
///
/// Errors: 403 `residency` for a region other than the local one, unless `residency.read` is `allow`; 503 when the region cannot be reached
/// or a limit is reached.
pub(crate) async fn tunnel(
    proxy: &Proxy,
    exchange: &mut Exchange,
    mut request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    admit_unjudged(proxy, exchange)?;
    let index = exchange.addressed.unwrap_or(proxy.shared.registry.view().local);
    check_breaker(proxy, exchange, index)?;
    let room = room_of(exchange)?;
    let permit = place(proxy, exchange, index)?;
    let client = hyper::upgrade::on(&mut request);
    let (parts, _) = request.into_parts();
    let offer = parts.headers.get(UPGRADE).cloned();
    let mut headers = headers_for(proxy, exchange, index, parts.headers);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.extend(offer.map(|offer| (UPGRADE, offer)));
    let shards = proxy.shared.shards.clone().filter(|_| exchange.matched.operation == Operation::WebSocket);
    // Messages are in memory on both sides.
    let other_room = shards.is_some().then(|| room_of(exchange)).transpose()?;
    if shards.is_some() {
        // Its messages are to be read.
        headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    }
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let region = proxy.region(index);
    let reach = region.reach(proxy.connect_timeout()).await;
    let request = reach.request(parts.method, &path, headers, crate::net::body::Outgoing::EMPTY);
    let request = request.ok_or_else(|| unavailable(proxy, index))?;
    let endpoint = reach.endpoint(proxy.connect_timeout());
    let limits = crate::proxy::state::pools::pool_limits(&proxy.shared.config);
    let timeout = proxy.shared.config.limits.call_timeout;
    let switched = async {
        let turn = proxy.pool(index).turn(&endpoint, true).await?;
        upgrade(&endpoint, &limits, request, turn).await
    };
    let sent = tokio::time::timeout(timeout, switched).await;
    if matches!(&sent, Ok(Err(error)) if error.is_own()) {
        exchange.region = None;
        return Err(ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER));
    }
    let sent = sent.map_err(|_| feedback::TIMEOUT).and_then(|sent| sent.map_err(|error| of_dial(&error).as_str()));
    let mut response = match sent {
        Ok(response) => response,
        Err(reason) => {
            feedback::unanswered(proxy, index, reason);
            proxy.shared.registry.on_request(index, RequestOutcome::Failure);
            return Err(unavailable(proxy, index));
        }
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = response.status();
        strip_answer(&Method::GET, status, response.headers_mut());
        let idle = proxy.shared.config.limits.stream_idle_timeout;
        return Ok(response.map(|body| Reply::stream(body, idle, Some(permit), Some(room))));
    }
    // A tunnel lasts as long as its ends like, and holds no place in the limits.
    drop(permit);
    let far = hyper::upgrade::on(&mut response);
    let (mut parts, _) = response.into_parts();
    strip_ours(&mut parts.headers);
    if shards.is_some() {
        parts.headers.remove(SEC_WEBSOCKET_EXTENSIONS);
    }
    let relayed = shards.map(|shards| (shards, proxy.shared.config.limits.stream_idle_timeout));
    tokio::task::spawn_local(copy((client, far), relayed, exchange.client().clone(), (room, other_room)));
    Ok(Response::from_parts(parts, Reply::Empty))
}

/// Copies bytes both ways, or messages where queues have shards, until both sides have ended: the end of one side is passed on to the other. WebSocket peers ping each other, so a
/// dead one does not stay for ever. The tunnel counts as an open call, until the process is about to end: then both connections are shut down.
async fn copy(
    (client, region): (OnUpgrade, OnUpgrade),
    relayed: Option<(Arc<Shards>, Duration)>,
    connection: ClientSide,
    _rooms: (Room, Option<Room>),
) {
    let _open = connection.begin();
    let (Ok(client), Ok(region)) = (client.await, region.await) else { return };
    if let Some((shards, patience)) = relayed {
        return Relay::new(shards, patience).run(client, region, &connection).await;
    }
    let (mut client, mut region) = (TokioIo::new(client), TokioIo::new(region));
    // An error of a copy ends the tunnel, and the peers report it.
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut client, &mut region) => {}
        () = connection.closing() => {
            let _ = tokio::join!(client.shutdown(), region.shutdown());
        }
    }
}
