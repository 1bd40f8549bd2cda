//! Serving one listener on the current thread: one task a connection, strict framing below hyper, a farewell after it.

use std::cell::Cell;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;

use crate::base::{Boxed, apart, in_place};
use crate::config::Limits;

use super::bound::Acceptor;
use super::drain::Activity;
use super::framing::{Framing, HeadLimits};
use super::guard::{ClientSide, End, Guard, Leftover, Phase, Shared, Stall, Timers};
use super::headers::to_origin_form;
use super::incoming_body::IncomingBody;
use super::permit::{ConnectionPermits, Permit};
use super::refused::Refused;
use super::request_scheduler::InTurn;
use super::socket::Socket;
use super::wake_filter::WakeFilter;

mod answer;
mod farewell;

use answer::Answer;

/// The pause before the next accept when the process is out of descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// The least that hyper's buffers may hold: small enough for many connections and for the caches of a core, large enough for a
/// streamed body.
const BUFFER_BYTES: usize = 128 * 1024;

/// The value of [`ServeOptions::rest_after`] outside tests: short against the pauses of clients with connection pools,
/// long against those of a client at work.
pub const REST_AFTER: Duration = Duration::from_secs(1);

/// How a listener is served.
#[derive(Clone)]
pub struct ServeOptions {
    /// Bounds on heads, times and connections.
    pub limits: Limits,
    /// A client that has sent nothing for so long costs its socket and a timer only, until its next byte.
    pub rest_after: Duration,
    /// This thread's counters of its clients.
    pub activity: Activity,
    /// The bound on connections over all listeners.
    pub permits: ConnectionPermits,
    /// Builds the whole response (HTTP/1.1 head with `Connection: close`, and body) that says why something was refused.
    pub on_refused: Rc<dyn Fn(Refused) -> Bytes>,
}

impl std::fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeOptions").field("permits", &self.permits).finish_non_exhaustive()
    }
}

/// Where a request comes from.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    /// The client's address; `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The client's side of the connection, for work that may be abandoned.
    pub client: ClientSide,
}

impl ConnectionInfo {
    /// Whether the client came over a Unix socket.
    #[must_use]
    pub const fn is_unix(&self) -> bool {
        self.peer.is_none()
    }
}

/// Accepts and serves connections on the current thread, until it is dropped. A failing accept is logged and tried again.
///
/// On a socket that was handed over it accepts until draining begins: later clients belong to the next process.
///
/// Must run inside a `LocalSet`. The service is called for verified requests only, one at a time for each connection. Its
/// future is not dropped when the client disconnects ([`ClientSide::disconnected`]); it is when this thread's `LocalSet` is.
/// Upgrades are taken with `hyper::upgrade::on`, and are in force when the service answers 101.
///
/// Cancel: connections that were accepted are served on.
pub async fn accept_loop<S, F, B>(acceptor: Acceptor, options: ServeOptions, service: S)
where
    S: Fn(Request<IncomingBody>, ConnectionInfo) -> F + 'static,
    F: Future<Output = Response<B>> + 'static,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let server = Rc::new(Server { http: http(&options.limits), options, service });
    loop {
        let (socket, peer) = tokio::select! {
            accepted = accepted(&acceptor) => accepted,
            () = handed_on(&acceptor, &server.options.activity) => break,
            () = server.options.activity.closing() => break,
        };
        server.options.activity.touch();
        let server = Rc::clone(&server);
        match server.options.permits.acquire() {
            Some(permit) => drop(tokio::task::spawn_local(async move {
                server.connection(socket, peer, Arc::new(permit)).await;
            })),
            None => farewell::busy(socket, &server.options.on_refused),
        }
    }
    drop(acceptor);
    std::future::pending().await
}

/// Resolves when this process ends and another one accepts from the same socket, or will.
async fn handed_on(acceptor: &Acceptor, activity: &Activity) {
    if acceptor.is_handed_over() {
        activity.draining().await;
    } else {
        std::future::pending().await
    }
}

/// The next connection, after as many tries as it takes.
async fn accepted(acceptor: &Acceptor) -> (Socket, Option<SocketAddr>) {
    loop {
        match acceptor.accept().await {
            Ok(accepted) => return accepted,
            // The client was faster than we were; the next one may be waiting already.
            Err(error) if is_of_one_connection(&error) => {}
            // The listener was shut down: the loop that asks ends, too.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => std::future::pending().await,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; check the limit on open files");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn http(limits: &Limits) -> http1::Builder {
    let mut http = http1::Builder::new();
    // The guard times heads from their first byte, and idle connections apart from that.
    http.header_read_timeout(None);
    http.max_buf_size(BUFFER_BYTES.max(limits.head_bytes.saturating_mul(2)));
    // hyper has room for this many in any case, and the guard counts.
    if limits.headers > 100 {
        http.max_headers(limits.headers);
    }
    http
}

/// Waits for the next byte of a client, or its end; false when neither came in time.
async fn is_heard(socket: &Socket, deadline: Instant) -> bool {
    tokio::time::timeout_at(deadline, socket.readable()).await.is_ok_and(|readable| readable.is_ok())
}

struct Server<S> {
    http: http1::Builder,
    options: ServeOptions,
    service: S,
}

impl<S> Server<S> {
    /// Serves one connection to its end. hyper and its buffers are there only while the client is active: one that pauses
    /// costs its socket and a timer.
    async fn connection<F, B>(&self, mut socket: Socket, peer: Option<SocketAddr>, permit: Arc<Permit>)
    where
        S: Fn(Request<IncomingBody>, ConnectionInfo) -> F,
        F: Future<Output = Response<B>> + 'static,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let shared = Arc::new(Shared::default());
        let mut idle_since = Instant::now();
        while is_heard(&socket, idle_since + self.options.limits.idle_timeout).await {
            match self.active((socket, idle_since), peer, Arc::clone(&permit), &shared).await {
                Some((resting, since)) => (socket, idle_since) = (resting, since),
                None => return,
            }
        }
    }

    /// Serves requests until the connection ends, or pauses: then its socket comes back, with the time since when it does.
    async fn active<F, B>(
        &self,
        (socket, idle_since): (Socket, Instant),
        peer: Option<SocketAddr>,
        permit: Arc<Permit>,
        shared: &Arc<Shared>,
    ) -> Option<(Socket, Instant)>
    where
        S: Fn(Request<IncomingBody>, ConnectionInfo) -> F,
        F: Future<Output = Response<B>> + 'static,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        // Boxed, because a connection that waits has no need of the room.
        let served = apart(|| self.served((socket, idle_since), peer, permit, shared)).await;
        match shared.take_leftover()? {
            // hyper saw the end while it awaited a request: it has seen every byte that was read.
            Leftover { socket, end: Some(End::Resting(since)), told: true } if served.is_ok() => Some((socket, since)),
            leftover => {
                let cut = served.is_err_and(|error| error.is_user() || error.is_body_write_aborted());
                apart(|| farewell::say(leftover, cut, &self.options.on_refused)).await;
                None
            }
        }
    }

    /// Serves requests as long as hyper has the connection. Not an async function: its future would hold the connection
    /// twice.
    fn served<'c, F, B>(
        &'c self,
        (socket, idle_since): (Socket, Instant),
        peer: Option<SocketAddr>,
        permit: Arc<Permit>,
        shared: &'c Arc<Shared>,
    ) -> impl Future<Output = hyper::Result<()>> + use<'c, S, F, B>
    where
        S: Fn(Request<IncomingBody>, ConnectionInfo) -> F,
        F: Future<Output = Response<B>> + 'static,
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let limits = &self.options.limits;
        let framing = Framing::new(HeadLimits { bytes: limits.head_bytes, headers: limits.headers });
        let timers = Timers::new(limits, self.options.rest_after, idle_since);
        let timers = (timers, Stall::new(limits.stream_idle_timeout));
        let client = ClientSide::new(Arc::clone(shared), self.options.activity.clone(), permit.memory());
        let guard = Guard::new(socket, permit, Arc::clone(shared), framing, timers);
        let info = ConnectionInfo { peer, client };
        shared.beside().clear();
        let requests = Cell::new(0);
        let service = service_fn(move |request: Request<Incoming>| {
            // At once and not when it is first polled: the guard asks whether a request is open.
            shared.enter(Phase::Open);
            let open = self.options.activity.begin();
            requests.set(requests.get() + 1);
            let (mut parts, incoming) = request.into_parts();
            if parts.uri.authority().is_some() {
                to_origin_form(&mut parts);
            }
            let body = IncomingBody::of(&mut parts.headers, incoming, shared.beside().take(requests.get()));
            let request = Request::from_parts(parts, body);
            let client = info.client.clone();
            // Boxed, because hyper keeps room for it as long as the connection lives, and a whole call is far larger.
            // An async block would have room for the call twice: for its arguments and for its awaits. Of an unknown
            // type, so that it is not polled within hyper's own function, as `apart` has it.
            let answered: Boxed<'c, _> = in_place!((self.service)(request, info.clone()).map(move |mut response| {
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    client.0.begin_tunnel();
                } else if self.options.activity.is_draining() || client.0.is_breached() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response.map(|body| Answer::new(body, client, open)))
            }));
            answered
        });
        let connection = self.http.serve_connection(TokioIo::new(guard), service).with_upgrades();
        InTurn::new(WakeFilter::new(connection), Arc::clone(shared))
    }
}

#[cfg(test)]
pub(super) mod tests;
