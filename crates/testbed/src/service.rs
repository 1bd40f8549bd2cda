//! The life of a request at a demo region: recorded, perhaps struck by a fault, then served.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::answer::{Body, BoxError, MEDIA_TYPE, document, full, sign, typed};
use super::context::Context;
use super::faults::{Fault, FaultAnswer};
use super::operations;
use super::problem::Problem;
use super::query::parameter;
use super::record::Recorded;
use super::routes::Route;
use super::seen;
use super::socket::{self, Echo};
use super::sse;
use super::stream::{self, Arriving};
use super::wire::Wire;

/// How long a call waits for a result: by default, and at most.
const RESULT_WAIT: Duration = Duration::from_secs(30);
const RESULT_WAIT_MAX: Duration = Duration::from_secs(300);

/// The connection that a request came by.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    pub(super) wire: Arc<Wire>,
    pub(super) subject: Option<String>,
}

/// Why a request gets no answer: the connection is cut, or the stream is reset with the reason inside.
type NoAnswer = BoxError;

/// Serves one request.
///
/// Errors: an `h2::Error` whose reason resets the stream. Cancel safety: a request whose connection ends is dropped
/// where it stands; a held one takes effect all the same.
pub(super) async fn serve(
    context: Arc<Context>,
    peer: Peer,
    request: Request<Incoming>,
) -> Result<Response<Body>, NoAnswer> {
    let order = context.record.began(recorded(&peer, &request));
    let fault = context.faults.for_request(request.method(), request.uri().path());
    let view = context.faults.view(request.method(), request.uri().path());
    let is_enqueue = request.method() == Method::POST && request.uri().path() == "/ojs/v1/jobs";
    let _under_way = is_enqueue.then(|| context.at_once.begin());
    let (mut head, body) = request.into_parts();
    head.extensions.insert(view);
    let body = Arriving::new(body, context.record.clone(), order);
    match fault {
        None => Ok(answer(&context, &peer, head, body).await),
        Some(fault) => struck(context, peer, head, body, fault).await,
    }
}

fn recorded(peer: &Peer, request: &Request<Incoming>) -> Recorded {
    // A proxy sends the origin form; text before the path would blur what tests compare.
    let path = request.uri().path_and_query().map_or_else(|| request.uri().to_string(), ToString::to_string);
    Recorded {
        order: 0,
        connection: peer.wire.number,
        method: request.method().clone(),
        path,
        headers: request.headers().clone(),
        body: Bytes::new(),
        complete: false,
        client_subject: peer.subject.clone(),
    }
}

async fn answer(context: &Arc<Context>, peer: &Peer, head: Parts, body: Arriving) -> Response<Body> {
    let request_id = request_id(&head);
    let route = Route::of(head.uri.path(), context.reading.dialect);
    if let Some(Route::JobResult(id)) = &route {
        wait_for_result(context, &head, id).await;
    }
    let mut response = match route {
        Some(Route::Socket) => socket::accept(Request::from_parts(head, ()), &peer.wire, Echo::Frames),
        Some(Route::Tunnel) => socket::accept(Request::from_parts(head, ()), &peer.wire, Echo::Bytes),
        Some(Route::Echo) => stream::echo(body),
        _ => match collected(context, body).await {
            Ok(body) => effect(context, &head, &body),
            Err(problem) => problem.answer(request_id.to_str().unwrap_or_default(), context.reading.dialect),
        },
    };
    sign(response.headers_mut(), &request_id);
    response
}

/// The effect of a request with its body read, and its answer.
fn effect(context: &Arc<Context>, head: &Parts, body: &Bytes) -> Response<Body> {
    let request_id = request_id(head);
    let dialect = context.reading.dialect;
    let served = match Route::of(head.uri.path(), dialect) {
        None => Err(Problem::NoSuchPath),
        Some(Route::Stream) => Ok(stream::made_up(head)),
        Some(Route::JobEvents(id)) => sse::job_events(context, id),
        Some(Route::Job(id)) if seen::is_hidden(context, head, &id) => Err(Problem::NoSuchJob(id)),
        Some(Route::QueueEvents(name)) => Ok(sse::queue_events(context, name)),
        Some(route) => operations::serve(context, route, head, body),
    };
    let mut response =
        served.unwrap_or_else(|problem| problem.answer(request_id.to_str().unwrap_or_default(), dialect));
    sign(response.headers_mut(), &request_id);
    response
}

async fn wait_for_result(context: &Context, head: &Parts, id: &str) {
    if parameter(&head.uri, "wait").as_deref() != Some("true") {
        return;
    }
    let seconds = parameter(&head.uri, "timeout").and_then(|seconds| seconds.parse().ok());
    let patience = seconds.map_or(RESULT_WAIT, Duration::from_secs).min(RESULT_WAIT_MAX);
    sse::until_final(context, id, patience).await;
}

fn request_id(head: &Parts) -> HeaderValue {
    let minted = || HeaderValue::from_str(&format!("req_{}", Uuid::now_v7()));
    let given = head.headers.get("x-request-id").cloned();
    given.or_else(|| minted().ok()).unwrap_or_else(|| HeaderValue::from_static("req"))
}

async fn collected(context: &Context, body: Arriving) -> Result<Bytes, Problem> {
    let limited = Limited::new(body, context.body_bytes_max);
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::TooLarge),
        // The client disconnected in the middle of its body: this answer is not read.
        Err(_) => Err(super::members::Invalid::Payload.into()),
    }
}

/// Reads the whole request; when it breaks off, there is nothing to go on with.
async fn whole(context: &Context, body: Arriving) -> Bytes {
    match collected(context, body).await {
        Ok(body) => body,
        Err(_) => std::future::pending().await,
    }
}

async fn struck(
    context: Arc<Context>,
    peer: Peer,
    head: Parts,
    body: Arriving,
    fault: Fault,
) -> Result<Response<Body>, NoAnswer> {
    match fault {
        // A request never sees the first three here: they strike elsewhere.
        Fault::Refuse | Fault::ReadsLag { .. } | Fault::OthersUnseen | Fault::HangBeforeBody => {
            std::future::pending().await
        }
        Fault::CutBeforeBody => cut(&peer).await,
        Fault::RefuseStream if head.version == Version::HTTP_2 => {
            Err(h2::Error::from(h2::Reason::REFUSED_STREAM).into())
        }
        Fault::GoAway if head.version == Version::HTTP_2 => {
            peer.wire.end_with(Bytes::from_static(&GO_AWAY_BELOW_ALL), true);
            std::future::pending().await
        }
        Fault::RefuseStream | Fault::GoAway => cut(&peer).await,
        Fault::Slow { delay } => {
            context.clock.sleep(delay).await;
            Ok(answer(&context, &peer, head, body).await)
        }
        Fault::LyingHealth { status_text } => {
            let mut response = document(StatusCode::OK, operations::health(&context, &status_text));
            sign(response.headers_mut(), &request_id(&head));
            Ok(response)
        }
        Fault::Hold { gate } => {
            let body = whole(&context, body).await;
            // A task of its own, so that the effect comes even when the client has given up.
            let late = tokio::spawn(async move {
                gate.passed().await;
                effect(&context, &head, &body)
            });
            Ok(late.await?)
        }
        Fault::LateWrite { delay, cut: is_cut } => {
            let body = whole(&context, body).await;
            let (here, gone) = oneshot::channel::<()>();
            tokio::spawn(async move {
                // Nothing is ever sent: it ends with the request, however that does.
                let _ = gone.await;
                context.clock.sleep(delay).await;
                effect(&context, &head, &body);
            });
            if is_cut {
                peer.wire.cut();
            }
            let never = std::future::pending().await;
            drop(here);
            never
        }
        after => {
            let body = whole(&context, body).await;
            struck_after_body(&context, &peer, &head, &body, after).await
        }
    }
}

/// The faults of a request that was read completely.
async fn struck_after_body(
    context: &Arc<Context>,
    peer: &Peer,
    head: &Parts,
    body: &Bytes,
    fault: Fault,
) -> Result<Response<Body>, NoAnswer> {
    let stores = match &fault {
        Fault::HangAfterBody { store } | Fault::CutAfterRequest { store } | Fault::Answer { store, .. } => *store,
        _ => true,
    };
    let true_answer = stores.then(|| effect(context, head, body));
    match (fault, true_answer) {
        (Fault::Answer { answer, .. }, _) => Ok(instead(answer)),
        (Fault::CutAfterRequest { .. }, _) => cut(peer).await,
        (Fault::EndlessBody, _) => Ok(typed(StatusCode::CREATED, MEDIA_TYPE, stream::endless())),
        (Fault::Raw { bytes }, _) if head.version != Version::HTTP_2 => {
            peer.wire.end_with(bytes, true);
            std::future::pending().await
        }
        (Fault::Raw { .. }, _) => cut(peer).await,
        (Fault::CancelMidResponse { after_bytes, gate }, Some(response)) if head.version == Version::HTTP_2 => {
            Ok(stream::cancelled(response, after_bytes, gate).await)
        }
        (Fault::CutMidResponse { after_bytes } | Fault::CancelMidResponse { after_bytes, .. }, Some(response)) => {
            Ok(stream::cut_short(response, after_bytes, Arc::clone(&peer.wire)).await)
        }
        _ => std::future::pending().await,
    }
}

async fn cut<T>(peer: &Peer) -> T {
    peer.wire.cut();
    std::future::pending().await
}

fn instead(answer: FaultAnswer) -> Response<Body> {
    let mut response = Response::new(full(answer.body));
    *response.status_mut() = answer.status;
    for (name, value) in answer.headers {
        // A script that names an impossible header gets an answer without it.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// A GOAWAY frame: 8 bytes on stream 0, last stream 0, `NO_ERROR`.
const GO_AWAY_BELOW_ALL: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
