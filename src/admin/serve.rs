//! The sockets of the admin listener and of the control socket: bounded in number, size and time, because the former may listen on any
//! address.

use std::cell::Cell;
use std::cmp::Reverse;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::AdminState;

/// Scrapers and probes are few. More than this is a mistake or an attack, and the idlest makes room for the next, so
/// that no client can starve a probe.
const CONNECTIONS_MAX: usize = 64;
/// For a head to arrive. It also ends idle connections, so it is longer than the usual scrape interval of 15 s.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection that lives longer is ended, so that a client that never reads cannot hold its place for good.
const LIFETIME: Duration = Duration::from_secs(300);
/// For the answer in progress when a connection is ended.
const GRACE: Duration = Duration::from_secs(5);
/// The heads of scrapers are well below 1 KiB.
const HEAD_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// After a failed accept: most often the process is out of descriptors, and trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The admin listener, or the control socket, on the current thread's runtime.
#[derive(Debug)]
pub struct Listener(Registered);

#[derive(Debug)]
enum Registered {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Hands a bound listener to the runtime that this is called on.
    ///
    /// Errors: the system's, when the runtime cannot take it.
    pub fn register(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener).map(|tcp| Self(Registered::Tcp(tcp)))
    }

    /// Hands a bound Unix socket to the runtime that this is called on.
    ///
    /// Errors: the system's, when the runtime cannot take it.
    pub fn register_unix(listener: std::os::unix::net::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener).map(|unix| Self(Registered::Unix(unix)))
    }

    /// The next connection, and its peer; none for a Unix socket.
    async fn accept(&self) -> io::Result<(Box<dyn Stream>, Option<IpAddr>)> {
        Ok(match &self.0 {
            Registered::Tcp(tcp) => {
                let (stream, peer) = tcp.accept().await?;
                (Box::new(stream), Some(peer.ip().to_canonical()))
            }
            Registered::Unix(unix) => (Box::new(unix.accept().await?.0), None),
        })
    }
}

/// One connection, TCP or Unix.
trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}

/// Serves the admin paths until `until` resolves, then lets the answers under way finish, for at most five seconds.
///
/// Must run within a `LocalSet`.
///
/// Cancel: open connections are dropped.
pub async fn serve(listener: Listener, state: AdminState, until: impl Future<Output = ()>) {
    let state = Rc::new(state);
    let (stop, stopped) = tokio::sync::watch::channel(());
    let mut connections = JoinSet::new();
    let mut held = Vec::new();
    let mut until = pin!(until);
    loop {
        tokio::select! {
            () = &mut until => break,
            (stream, peer) = accept(&listener) => {
                make_room(&mut held);
                let asked = Rc::new(Cell::new(Instant::now()));
                let (state, mut stopped) = (Rc::clone(&state), stopped.clone());
                let last_asked = Rc::clone(&asked);
                let task = connections.spawn_local(async move {
                    let told_to_end = async {
                        tokio::select! {
                            _ = stopped.changed() => {}
                            () = sleep(LIFETIME) => {}
                        }
                    };
                    connection(stream, state, &last_asked, told_to_end).await;
                });
                held.push(Held { task, peer, asked });
                // A request that came together with the connection is answered before another connection can take its
                // place.
                tokio::task::yield_now().await;
            }
            // Finished connections are collected as they end, so that the set does not grow.
            Some(_) = connections.join_next() => {}
        }
    }
    drop(stop);
    let _ = timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
}

/// An open connection.
struct Held {
    task: AbortHandle,
    peer: Option<IpAddr>,
    /// When its last request came, or it was accepted: a head that trickles in is no request.
    asked: Rc<Cell<Instant>>,
}

/// Ends a connection if there are as many as there may be: of the peer that holds most of them the one that asked last the longest ago.
fn make_room(held: &mut Vec<Held>) {
    held.retain(|it| !it.task.is_finished());
    if held.len() < CONNECTIONS_MAX {
        return;
    }
    let share = |peer| held.iter().filter(|it| it.peer == peer).count();
    let idlest = held.iter().enumerate().max_by_key(|(_, it)| (share(it.peer), Reverse(it.asked.get())));
    if let Some((at, _)) = idlest {
        held.swap_remove(at).task.abort();
    }
}

/// The next connection, after as many tries as it takes.
async fn accept(listener: &Listener) -> (Box<dyn Stream>, Option<IpAddr>) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => tracing::warn!(%error, "the admin listener could not accept a connection"),
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

async fn connection(
    stream: Box<dyn Stream>,
    state: Rc<AdminState>,
    asked: &Cell<Instant>,
    told_to_end: impl Future<Output = ()>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        asked.set(Instant::now());
        let state = Rc::clone(&state);
        async move {
            let response: Response<Bytes> = state.answer_to(&request).await;
            Ok::<_, Infallible>(response.map(Full::new))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // How a scraper's connection ends, well or badly, is its own business.
    tokio::select! {
        _ = &mut connection => {}
        () = told_to_end => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(GRACE, connection).await;
        }
    }
}
