//! One connection to a region, and its evidence about a request that got no answer.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::{Sleep, sleep_until};

use super::busy::Busy;
use super::limits::PoolLimits;
use crate::base::{SystemTime, Time as _};
use crate::net::body::Outgoing;
use crate::net::dial::DialError;
use crate::net::evidence::Evidence;
use crate::net::framing::{Violation, judge_answer};
use crate::net::send_queue;
use crate::net::stream::Stream;
use crate::net::tls::ClientTls;
use crate::net::wake_filter::WakeFilter;
use crate::net::{IncomingBody, LocalExecutor};

/// An HTTP/2 connection with calls on it is pinged after this much silence, so that a black hole is noticed.
const PING_AFTER: Duration = Duration::from_secs(10);
/// How many times a connection that was just given back is asked again whether its last exchange is over.
const READY_TRIES: usize = 4;

/// A request without an answer, with the connection's evidence.
#[derive(Debug)]
pub(super) enum Failed {
    /// Nothing of the request left this process; it is handed back where that was possible.
    NotSent(Option<Box<Request<Outgoing>>>),
    /// It left, and the region proved that it did not look at it.
    Refused,
    /// It left, and the region rejected our certificate and with it everything that we sent.
    Rejected(hyper::Error),
    /// Some of it may have arrived.
    Unknown(hyper::Error),
    /// Some of it may have arrived, and the answer could be read in two ways.
    Broken(Violation),
    /// Some of it may have arrived, and no answer came in time.
    TimedOut,
}

/// How long a connection may live that was begun at this time: no longer than the certificates of both sides, with which its session ends,
/// too. One that had ended before, and was accepted, ends nothing: each call would connect anew. Units: milliseconds since the Unix epoch.
pub(super) fn lifetime(
    longest: Duration,
    began_ms: u64,
    server_expiry: Option<i64>,
    tls: Option<&ClientTls>,
) -> Duration {
    let Some(tls) = tls else { return longest };
    // A certificate is good for the whole of its last second.
    let end = |expiry: i64| u64::try_from(expiry.saturating_add(1).saturating_mul(1000)).ok();
    let ends = [server_expiry, tls.client_expiry].into_iter().flatten().filter_map(end);
    let Some(end) = ends.filter(|end| *end > began_ms).min() else { return longest };
    tls.sessions.end_by(end);
    longest.min(Duration::from_millis(end.saturating_sub(SystemTime.unix_ms())))
}

/// An HTTP/1.1 connection: one request at a time. One pointer, because it is handed from the pool through the call to the answer's body,
/// and back.
#[derive(Debug)]
pub(super) struct Http1(Box<Open>);

#[derive(Debug)]
struct Open {
    /// The number of the identity that it was made with.
    identity: u64,
    sender: http1::SendRequest<Outgoing>,
    evidence: Arc<Evidence>,
    /// When it has lived for long enough.
    old_at: Instant,
    /// When it has been idle for too long.
    stale_at: Instant,
    /// Kept from one request to the next.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Http1 {
    pub(super) async fn start(stream: Stream, limits: &PoolLimits, identity: u64) -> Result<Self, DialError> {
        let evidence = Arc::clone(stream.evidence());
        let (sender, connection) = http1::Builder::new()
            .max_headers(limits.headers)
            .max_header_size(limits.head_bytes)
            .max_buf_size(limits.buffer_bytes())
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| DialError::Connect(io::Error::other(error)))?;
        // Errors of the connection reach the request that is on it; with none on it they mean "closed", or bytes that no request asked for.
        let of_connection = Arc::clone(&evidence);
        tokio::task::spawn_local(async move {
            if let Err(error) = WakeFilter::new(connection).await {
                of_connection.answer.ended(&error);
            }
        });
        let now = Instant::now();
        let (old_at, stale_at) = (now + limits.lifetime, now + limits.idle_timeout);
        Ok(Self(Box::new(Open { identity, sender, evidence, old_at, stale_at, timer: None })))
    }

    /// Sends a request and waits for the answer's head, not beyond `deadline` where there is one.
    pub(super) async fn send(
        &mut self,
        request: &mut Option<Request<Outgoing>>,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Response<IncomingBody>, Failed> {
        let request = request.take().ok_or(Failed::NotSent(None))?;
        let Open { sender, evidence, timer, .. } = &mut *self.0;
        let before = evidence.written();
        evidence.answer.begin(request.method());
        let mut answer = std::pin::pin!(sender.try_send_request(request));
        let answered = poll_fn(|cx| match (answer.as_mut().poll(cx), deadline) {
            (Poll::Ready(answered), _) => Poll::Ready(Some(answered)),
            (Poll::Pending, Some(deadline)) => poll_timer(timer, deadline, cx).map(|()| None),
            (Poll::Pending, None) => Poll::Pending,
        });
        let answered = answered.await.ok_or(Failed::TimedOut)?;
        let (mut parts, incoming) = answered.map_err(|error| failed(error, evidence, before))?.into_parts();
        let whole = evidence.answer.take();
        // A body is taken out only where the head was judged before.
        if whole.is_none() {
            judge_answer(parts.version, &parts.headers).map_err(Failed::Broken)?;
        }
        if evidence.answer.has_surplus() {
            return Err(Failed::Broken(Violation::Surplus));
        }
        let body = IncomingBody::of(&mut parts.headers, incoming, whole);
        Ok(Response::from_parts(parts, body))
    }

    /// Whether bytes came behind the last answer, so that where it ends is in doubt.
    pub(super) fn has_surplus(&self) -> bool {
        self.0.evidence.answer.has_surplus()
    }

    /// Whether it was made with the identity of this number.
    pub(super) const fn is_of(&self, identity: u64) -> bool {
        self.0.identity == identity
    }

    /// Whether the connection is free for a request, as far as is known at once.
    pub(super) fn is_ready(&self) -> bool {
        self.0.sender.is_ready()
    }

    /// Whether the connection is free for a request; false also when it turns out to be closed.
    ///
    /// A connection is given back when its last answer was read; the task that drives it may need a turn or two to notice.
    pub(super) async fn becomes_ready(&mut self) -> bool {
        for _ in 0..READY_TRIES {
            let ready = poll_fn(|cx| match self.0.sender.poll_ready(cx) {
                Poll::Ready(result) => Poll::Ready(Some(result.is_ok())),
                Poll::Pending => Poll::Ready(None),
            })
            .await;
            if let Some(ready) = ready {
                return ready;
            }
            tokio::task::yield_now().await;
        }
        false
    }

    pub(super) fn is_open(&self) -> bool {
        !self.0.sender.is_closed()
    }

    pub(super) fn is_too_old(&self, now: Instant) -> bool {
        now >= self.0.old_at
    }

    pub(super) fn is_expired(&self, now: Instant) -> bool {
        self.is_too_old(now) || now >= self.0.stale_at
    }

    pub(super) fn rest(&mut self, now: Instant, limits: &PoolLimits) {
        self.0.stale_at = now + limits.idle_timeout;
    }
}

/// The result of the work in time.
pub(super) async fn within<F: Future>(deadline: Option<tokio::time::Instant>, work: F) -> Option<F::Output> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
        None => Some(work.await),
    }
}

/// Resolves at a deadline. The timer stays at that of an earlier request until it is over: to set it for each costs more than to find out
/// once in a while that it was not meant.
fn poll_timer(timer: &mut Option<Pin<Box<Sleep>>>, deadline: tokio::time::Instant, cx: &mut Context<'_>) -> Poll<()> {
    let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
    if timer.deadline() <= deadline {
        ready!(timer.as_mut().poll(cx));
    }
    if timer.deadline() != deadline {
        timer.as_mut().reset(deadline);
    }
    timer.as_mut().poll(cx)
}

/// An HTTP/2 connection: all requests of a thread at once.
#[derive(Debug, Clone)]
pub(super) struct Http2 {
    /// The number of the identity that it was made with.
    pub(super) identity: u64,
    sender: http2::SendRequest<Outgoing>,
    evidence: Arc<Evidence>,
    life: Rc<Life>,
}

#[derive(Debug)]
struct Life {
    /// When it has lived for long enough.
    old_at: Instant,
    _open: Busy,
}

impl Http2 {
    pub(super) async fn start(
        stream: Stream,
        limits: &PoolLimits,
        identity: u64,
        open: Busy,
    ) -> Result<Self, DialError> {
        let evidence = Arc::clone(stream.evidence());
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_AFTER)
            .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| DialError::Connect(io::Error::other(error)))?;
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Self {
            identity,
            sender,
            evidence,
            life: Rc::new(Life { old_at: Instant::now() + limits.lifetime, _open: open }),
        })
    }

    pub(super) async fn send(
        mut self,
        request: &mut Option<Request<Outgoing>>,
        authority: &Authority,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Response<Incoming>, Failed> {
        let mut request = request.take().ok_or(Failed::NotSent(None))?;
        request.headers_mut().remove(HOST);
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(Scheme::HTTPS);
        parts.authority = Some(authority.clone());
        // Both parts came out of parsed URIs; a request without a path would be answered by the region with a 400.
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        let before = self.evidence.written();
        let answered = within(deadline, self.sender.try_send_request(request)).await;
        match answered.ok_or(Failed::TimedOut)? {
            Ok(response) => {
                judge_answer(response.version(), response.headers()).map_err(Failed::Broken)?;
                Ok(response)
            }
            Err(error) => {
                let mut failed = failed(error, &self.evidence, before);
                if let Failed::NotSent(Some(unsent)) = &mut failed {
                    as_it_was(unsent, authority);
                }
                Err(failed)
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Requests that are on an expired connection finish there; new ones go to a new connection.
    pub(super) fn is_expired(&self, now: Instant) -> bool {
        now >= self.life.old_at
    }
}

/// Gives a request that was not sent the shape that it came in: the next connection may speak HTTP/1.1.
fn as_it_was(request: &mut Request<Outgoing>, authority: &Authority) {
    let path = std::mem::take(request.uri_mut()).into_parts().path_and_query;
    *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
    // An authority that was parsed is text.
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
}

/// Judges the evidence about a request without an answer; `before` is the connection's count when it got the request.
fn failed(mut error: TrySendError<Request<Outgoing>>, evidence: &Evidence, before: u64) -> Failed {
    // Bytes that were written in this time slice count as written until the kernel has taken or refused them.
    send_queue::send_all();
    let unsent = error.take_message();
    let error = error.into_error();
    if evidence.is_rejected() {
        return Failed::Rejected(error);
    }
    // A request that is handed back was never taken up. Else the socket's count is the evidence.
    if unsent.is_some() || evidence.written() == before {
        return Failed::NotSent(unsent.map(Box::new));
    }
    if proves_unprocessed(&error) { Failed::Refused } else { Failed::Unknown(error) }
}

/// Whether the region itself said that it did not look at the stream: REFUSED_STREAM, or a GOAWAY, which h2 reports only
/// to streams above its last one. Spec: RFC 9113 §8.7.
fn proves_unprocessed(error: &hyper::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<h2::Error>() {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (refused || error.is_go_away());
        }
        source = cause.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_request_has_its_own_deadline_whatever_that_of_the_one_before_was() {
        const HOUR: Duration = Duration::from_secs(3600);
        let now = tokio::time::Instant::now();
        let mut timer = None;
        for _ in 0..2 {
            for hours in [1, 2] {
                let deadline = now + hours * HOUR;
                let mut cx = Context::from_waker(std::task::Waker::noop());
                assert!(
                    poll_timer(&mut timer, deadline, &mut cx).is_pending(),
                    "whether the one before it is over or not"
                );
            }
            poll_fn(|cx| poll_timer(&mut timer, now, cx)).await;
        }
    }

    #[tokio::test]
    async fn a_request_that_outlives_the_previous_deadline_ends_at_its_own() {
        let now = tokio::time::Instant::now();
        let [before, own] = [1, 5].map(|ms| now + Duration::from_millis(ms));
        let mut timer = None;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(poll_timer(&mut timer, before, &mut cx).is_pending());
        let over = tokio::time::timeout(Duration::from_secs(20), poll_fn(|cx| poll_timer(&mut timer, own, cx))).await;
        assert!(over.is_ok() && tokio::time::Instant::now() >= own, "{over:?}");
    }

    #[test]
    fn a_request_that_http_2_did_not_send_fits_http_1_1_again() {
        let authority = Authority::from_static("region.example:8443");
        let uri = "https://region.example:8443/ojs/v1/jobs?x=1";
        let mut request = Request::post(uri).body(Outgoing::EMPTY).unwrap();
        as_it_was(&mut request, &authority);
        assert_eq!(request.uri(), "/ojs/v1/jobs?x=1");
        assert_eq!(request.headers()[HOST], "region.example:8443");
    }
}
