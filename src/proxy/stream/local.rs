//! Everything that is not interpreted: streamed to the local region and back, unbuffered, with back-pressure.
//!
//! A body that may define jobs is read first, and goes on only if nothing in it asks for another region ([`super::vet`]).
//! A vanished client ends the region's side of a read. Nothing is tried twice.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::net::{IncomingBody, Room};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body as _;

use super::vet::vet;
use crate::net::body::{Outgoing, Side, Upload};
use crate::net::headers::{number, strip_answer, strip_hop_by_hop};
use crate::net::pool::{Pool, RegionBody, SendError};
use crate::ojs::header::{QUEUE_STATUS, REQUEST_ID};
use crate::ojs::{Class, ErrorDocument, Operation};
use crate::policy::{CallPermit, GuardClass, RegionIndex, RequestOutcome, effect};
use crate::proxy::{
    body::collect::{OVERLOADED_RETRY_AFTER, broken_body},
    call::{
        ask::unavailable,
        attempt::{reason, shed_document},
        disconnected::disconnected,
        exchange::Exchange,
        feedback,
        shut::check_breaker,
    },
    state::{Proxy, Reply},
};
use crate::telemetry::{AttemptOutcome, Held, event};

/// A longer answer may stay here while its client does not read: a shorter one has room in the client's socket. Units: bytes.
const LONG_ANSWER_BYTES: u64 = 64 * 1024;

/// Streams a call to the local region, or to the one that the client named.
///
/// Errors: those of [`vet`]; 503 `owner_unavailable` when nothing was sent; when something was, 504 for a call that may be repeated, else
/// 500 `outcome_unknown`, which no SDK replays.
pub(crate) async fn local(
    proxy: &Proxy,
    exchange: &mut Exchange,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let index = exchange.addressed.unwrap_or(proxy.shared.registry.view().local);
    forward(proxy, exchange, index, request).await
}

/// Streams a call to one region. Errors: as for [`local`].
pub(crate) async fn forward(
    proxy: &Proxy,
    exchange: &mut Exchange,
    index: RegionIndex,
    request: Request<IncomingBody>,
) -> Result<Response<Reply>, ErrorDocument> {
    let (mut parts, body) = request.into_parts();
    let upload = Upload::begin();
    let outgoing = vet(proxy, exchange, index, &mut parts.headers, body, &upload).await?;
    let path = parts.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    pass(proxy, exchange, index, Parts { method: parts.method, path, headers: parts.headers, outgoing, upload }).await
}

/// Sends a call whose body may go to this region, and streams the answer. Takes the client's own headers.
///
/// Errors: as for [`local`].
// Not an async function, which would hold the call once more.
pub(crate) fn pass<'c>(
    proxy: &'c Proxy,
    exchange: &'c mut Exchange,
    index: RegionIndex,
    parts: Parts,
) -> impl Future<Output = Result<Response<Reply>, ErrorDocument>> + 'c {
    pass_on(proxy, exchange, (index, proxy.pool(index)), parts)
}

/// As [`pass`], on connections to the region from a pool.
pub(crate) async fn pass_on(
    proxy: &Proxy,
    exchange: &mut Exchange,
    (index, pool): (RegionIndex, &Pool),
    mut parts: Parts,
) -> Result<Response<Reply>, ErrorDocument> {
    check_breaker(proxy, exchange, index)?;
    parts.headers = headers_for(proxy, exchange, index, parts.headers);
    let repeatable = is_repeatable(&parts.method, exchange.matched.operation);
    let is_stream = exchange.matched.class == Class::Stream;
    // A call that may change something is short, and needs no room among reads.
    let mut room = if exchange.is_read() { Some(room_for_read(exchange, is_stream)?) } else { None };
    let permit = place(proxy, exchange, index)?;
    let response = send(proxy, exchange, (index, pool), parts, repeatable).await?;
    if let Some(room) = room.as_mut().filter(|_| !is_stream) {
        if !response.body().is_longer_than(LONG_ANSWER_BYTES) {
            room.for_short_answer();
        } else if !room.for_long_answer(exchange.client()) {
            return Err(no_room(exchange));
        }
    }
    // An event stream lasts as long as its client likes, and holds no place in the limits.
    let permit = Some(permit).filter(|_| !is_stream);
    let idle = proxy.shared.config.limits.stream_idle_timeout;
    let is_plain = !response.headers().contains_key(CONTENT_ENCODING);
    let mut response = response.map(|body| Reply::stream(body, idle, permit, room));
    // Figures of the server itself name queues as the server has them.
    let is_named = is_plain && exchange.matched.class != Class::System;
    if let Some(shards) = proxy.shared.shards.as_ref().filter(|_| is_named) {
        response = response.map(|reply| reply.renamed(shards));
        if matches!(response.body(), Reply::Stream(_)) {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
    }
    Ok(response)
}

/// Memory for an answer that is passed on as it comes.
///
/// Errors: 503 `overloaded` where clients hold as much as `limits.memory` allows.
pub(crate) fn room(exchange: &mut Exchange) -> Result<Room, ErrorDocument> {
    let room = exchange.client().room();
    room.ok_or_else(|| no_room(exchange))
}

/// The same for a read. The answer to one that we do not know may have any length: it has room for that before its region is asked,
/// which would else send megabytes in vain.
fn room_for_read(exchange: &mut Exchange, is_stream: bool) -> Result<Room, ErrorDocument> {
    let mut room = room(exchange)?;
    let is_known = is_stream || GuardClass::of(exchange.matched.operation).is_some();
    if is_known || room.for_long_answer(exchange.client()) { Ok(room) } else { Err(no_room(exchange)) }
}

fn no_room(exchange: &mut Exchange) -> ErrorDocument {
    exchange.region = None;
    ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER)
}

/// A place among the calls that are under way at a region.
///
/// Errors: 503 `overloaded` at once where there is none, except for words about leased jobs.
pub(crate) fn place(proxy: &Proxy, exchange: &mut Exchange, index: RegionIndex) -> Result<CallPermit, ErrorDocument> {
    // A call without a class is a read by its method, or may change something: unread reads leave room for jobs.
    let unknown = if exchange.is_read() { GuardClass::Read } else { GuardClass::Admin };
    let class = GuardClass::of(exchange.matched.operation).unwrap_or(unknown);
    proxy.shared.concurrency.acquire_owned(index, class, Instant::now()).map_err(|shed| {
        exchange.region = None;
        shed_document(shed, &proxy.region(index).id)
    })
}

/// A client's headers for a region: nothing that belongs to the client's connection, and its request id.
pub(crate) fn headers_for(proxy: &Proxy, exchange: &Exchange, index: RegionIndex, mut headers: HeaderMap) -> HeaderMap {
    strip_hop_by_hop(&mut headers);
    headers.insert(REQUEST_ID, exchange.request_id().clone());
    if proxy.shared.shards.is_some() {
        // The answer is to be read.
        headers.remove(ACCEPT_ENCODING);
    }
    if proxy.region(index).drops_authorization() && headers.contains_key(http::header::AUTHORIZATION) {
        event::dropped_authorization(proxy.metrics(index));
    }
    headers
}

/// A call that is streamed.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) outgoing: Outgoing,
    /// The client's body, as far as there is one.
    pub(crate) upload: Rc<Upload>,
}

impl Parts {
    /// A call without a body.
    pub(crate) fn bare(method: Method, path: PathAndQuery, headers: HeaderMap) -> Self {
        Self { method, path, headers, outgoing: Outgoing::EMPTY, upload: Upload::begin() }
    }
}

/// Sends a call to one region, reports to its breaker and guards, and counts.
///
/// Errors: the error document for the client, when no answer came.
pub(crate) async fn send(
    proxy: &Proxy,
    exchange: &mut Exchange,
    (index, pool): (RegionIndex, &Pool),
    parts: Parts,
    repeatable: bool,
) -> Result<Response<RegionBody>, ErrorDocument> {
    let region = proxy.region(index);
    let Parts { method, path, mut headers, outgoing, upload } = parts;
    let is_read = matches!(method, Method::GET | Method::HEAD);
    delimit(&mut headers, &outgoing, is_read);
    let reach = region.reach(proxy.connect_timeout()).await;
    let mut request =
        Some(reach.request(method.clone(), &path, headers, outgoing).ok_or_else(|| unavailable(proxy, index))?);
    let endpoint = reach.endpoint(proxy.connect_timeout());
    let started = Instant::now();
    let sent = {
        let _in_flight = Held::one(&proxy.metrics(index).in_flight);
        let sending = pool.send(&endpoint, &mut request, started, None);
        tokio::select! {
            sent = sending => Some(Ok(sent)),
            () = stalled(&upload, proxy.shared.config.limits.stream_idle_timeout) => Some(Err(())),
            () = disconnected(exchange.client()), if is_read => None,
        }
    };
    exchange.upstream = started.elapsed();
    let Some(sent) = sent else {
        exchange.vanished();
        return Err(unavailable(proxy, index));
    };
    if !matches!(sent, Ok(Ok(_)))
        && let Some(document) = fault_of_client(upload.side(), sent.is_err())
    {
        record(proxy, exchange, index, AttemptOutcome::Unknown);
        return Err(document);
    }
    let unanswered = unanswered(&sent);
    let (outcome, result) = match sent {
        // This call asked for no switch of protocols, and a 101 that is passed on would end HTTP for the client.
        Ok(Ok(mut response)) if !response.status().is_informational() => {
            let status = response.status();
            strip_answer(&method, status, response.headers_mut());
            (AttemptOutcome::Answered, Ok(response))
        }
        Ok(Err(SendError::NotSent(why))) if why.is_own() => {
            record(proxy, exchange, index, AttemptOutcome::NotSent);
            exchange.region = None;
            return Err(ErrorDocument::overloaded(OVERLOADED_RETRY_AFTER));
        }
        Ok(Err(SendError::NotSent(_))) => (AttemptOutcome::NotSent, Err(None)),
        Ok(Ok(_) | Err(SendError::Unknown(_) | SendError::Broken(_) | SendError::TimedOut)) | Err(()) => {
            let is_broken = match &sent {
                Ok(Ok(_) | Err(SendError::Broken(_))) => true,
                Ok(Err(SendError::Unknown(error))) => error.is_parse(),
                Ok(Err(_)) | Err(()) => false,
            };
            let id = region.id.as_str();
            let document = match (repeatable, is_broken) {
                (true, true) => ErrorDocument::broken_answer(id),
                (true, false) => ErrorDocument::upstream_timeout(id),
                (false, _) => ErrorDocument::outcome_unknown(id, None),
            };
            (AttemptOutcome::Unknown, Err(Some(document)))
        }
    };
    if let Some(reason) = unanswered {
        feedback::unanswered(proxy, index, reason);
    }
    report(proxy, exchange, index, &path, result.as_ref().ok().map(|response| (response.status(), response.headers())));
    record(proxy, exchange, index, outcome);
    // Only now is it known whether that has opened the breaker.
    result.map_err(|document| document.unwrap_or_else(|| unavailable(proxy, index)))
}

/// The closed word for why there is no answer, or none that counts.
fn unanswered(sent: &Result<Result<Response<RegionBody>, SendError>, ()>) -> Option<&'static str> {
    match sent {
        Ok(Ok(response)) => response.status().is_informational().then_some(feedback::BROKEN),
        Ok(Err(SendError::NotSent(why))) => Some(reason(why).as_str()),
        Ok(Err(SendError::Unknown(_) | SendError::Broken(_))) => Some(feedback::BROKEN),
        Ok(Err(SendError::TimedOut)) | Err(()) => Some(feedback::TIMEOUT),
    }
}

/// Writes the header that delimits the body. The client's own header was removed where the body was read whole.
fn delimit(headers: &mut HeaderMap, outgoing: &Outgoing, is_read: bool) {
    if outgoing.is_empty() {
        if headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0") {
            headers.remove(CONTENT_LENGTH);
        }
    } else if let Some(length) = outgoing.size_hint().exact() {
        headers.insert(CONTENT_LENGTH, number(length));
    } else if is_read {
        // Without it the HTTP library takes a read for one without a body. Over HTTP/2 it leaves the header out.
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Resolves when neither a piece of the body nor the answer's head came for so long.
async fn stalled(upload: &Upload, idle_timeout: Duration) {
    loop {
        let deadline = upload.moved_at() + idle_timeout;
        if tokio::time::Instant::now() >= deadline {
            return;
        }
        tokio::time::sleep_until(deadline).await;
    }
}

/// The error document for a call that failed because of the client's own body: no failure of the region, which cannot
/// have taken the body as whole.
fn fault_of_client(side: Side, stalled: bool) -> Option<ErrorDocument> {
    match side {
        Side::Broken(violation) => Some(broken_body(violation)),
        Side::Client if stalled => Some(ErrorDocument::request_timeout()),
        Side::Client | Side::Region => None,
    }
}

/// Reports to the breaker, and to the guards where the operation has a class.
fn report(
    proxy: &Proxy,
    exchange: &Exchange,
    index: RegionIndex,
    path: &PathAndQuery,
    answer: Option<(StatusCode, &HeaderMap)>,
) {
    if let Some(class) = GuardClass::of(exchange.matched.operation) {
        return feedback::report(proxy, index, class, answer, || Some(feedback::source(path.path())));
    }
    let shows = match answer {
        Some((status, headers)) => effect(status.as_u16(), headers.contains_key(QUEUE_STATUS)),
        None => Some(RequestOutcome::Failure),
    };
    if let Some(shows) = shows {
        if let Some((status, _)) = answer.filter(|_| shows != RequestOutcome::Success) {
            feedback::failed(proxy, index, status.as_u16());
        }
        proxy.shared.registry.on_request(index, shows);
    }
}

/// Counts.
fn record(proxy: &Proxy, exchange: &mut Exchange, index: RegionIndex, outcome: AttemptOutcome) {
    let (metrics, class) = (proxy.metrics(index), exchange.matched.class.index());
    metrics.attempts[class][outcome].inc();
    if outcome == AttemptOutcome::Answered {
        metrics.request_duration[class].observe(exchange.upstream.as_secs_f64());
    }
    exchange.outcome = Some(outcome);
}

/// Whether repeating the call is harmless, so that a client may be told to try again.
fn is_repeatable(method: &Method, operation: Operation) -> bool {
    // A fetch that got no answer leaves its jobs to their leases; acknowledgements and heartbeats settle on the first one.
    let safe_post = matches!(
        operation,
        Operation::Fetch
            | Operation::Ack
            | Operation::Nack
            | Operation::Heartbeat
            | Operation::Progress
            | Operation::JobSettle
            | Operation::JobResults
            | Operation::QueuePause
            | Operation::QueueResume
    );
    safe_post || !matches!(*method, Method::POST | Method::PATCH)
}
