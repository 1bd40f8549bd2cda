//! The hub's sockets: TLS, then HTTP/2 or HTTP/1.1 by ALPN, bounded in number, size and time.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::answer::answer;
use super::credentials::Certificate;
use super::state::Hub;
use crate::net::LocalExecutor;
use crate::net::descriptors::{self, Need};

/// One connection a sidecar, and some for operators.
pub const CONNECTIONS_MAX: usize = 24_000;
/// Connections without a certificate at once, where the hub takes tokens: anyone can open them, and they take no places of the others.
const BARE_CONNECTIONS_MAX: usize = 256;
/// A command of an operator needs a second.
const BARE_LIFETIME: Duration = Duration::from_secs(60);
/// Handshakes at once: clients without a certificate can take only these, and [`BARE_CONNECTIONS_MAX`] where the hub takes tokens.
const HANDSHAKES_MAX: usize = 512;
/// For the handshake. A sidecar in another continent needs less than a second.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client of a hub needs its connection alone. Apart from those of clients with certificates are handshakes, clients without, 64 of the
/// admin listener, a probe of each of 256 regions, and the record.
pub const DESCRIPTORS: Need = Need { each: 1, apart: (HANDSHAKES_MAX + BARE_CONNECTIONS_MAX + 64 + 256 + 192) as u64 };
/// For a head to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection ends after this, so that a certificate that was withdrawn or has ended is looked at again.
const LIFETIME: Duration = Duration::from_secs(60 * 60);
/// For the answers in progress when a connection is ended.
const GRACE: Duration = Duration::from_secs(5);
/// A sidecar has a feed, two more requests, and up to 32 questions about keys, 16 about jobs and 8 look-ups at a time.
const STREAMS_MAX: u32 = 64;
/// Units: bytes.
const HEAD_BYTES_MAX: u32 = 16 * 1024;
/// A peer that does not answer a ping has disconnected.
const PING_EVERY: Duration = Duration::from_secs(10);
/// After a failed accept: most often the process is out of descriptors, and trying at once would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves clients until `until` resolves, then lets the answers under way finish for five seconds; feeds end.
///
/// Must run within a local runtime. Cancel: open connections are dropped.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<ArcSwap<ServerConfig>>,
    hub: Rc<Hub>,
    until: impl Future<Output = ()>,
) {
    let (stop, stopped) = watch::channel(());
    let places = Arc::new(Semaphore::new(descriptors::room_for(CONNECTIONS_MAX, DESCRIPTORS, 1)));
    let bare_places = Arc::new(Semaphore::new(BARE_CONNECTIONS_MAX));
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let mut connections = JoinSet::new();
    let mut until = pin!(until);
    loop {
        tokio::select! {
            () = &mut until => break,
            (stream, peer, handshake) = accept(&listener, &handshakes) => {
                let (acceptor, hub, mut stopped) = (TlsAcceptor::from(tls.load_full()), Rc::clone(&hub), stopped.clone());
                let (places, bare_places) = (Arc::clone(&places), Arc::clone(&bare_places));
                connections.spawn_local(async move {
                    let shaken = shaken(acceptor, stream, peer).await;
                    drop(handshake);
                    let Some(stream) = shaken else { return };
                    let is_bare = stream.get_ref().1.peer_certificates().is_none();
                    let (places, lifetime) = if is_bare { (bare_places, BARE_LIFETIME) } else { (places, LIFETIME) };
                    let Ok(_place) = places.try_acquire_owned() else {
                        refuse(peer, is_bare);
                        return;
                    };
                    let ended = async {
                        tokio::select! {
                            _ = stopped.changed() => {}
                            () = sleep(lifetime) => {}
                        }
                    };
                    connection(stream, hub, ended).await;
                });
            }
            // Finished connections are collected as they end, so that the set does not grow.
            Some(_) = connections.join_next() => {}
        }
    }
    hub.end_feeds();
    drop(stop);
    let _ = timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
}

/// Says that there is no place for a connection. Anyone can open those without a certificate, so that they must not fill the log.
fn refuse(peer: SocketAddr, is_bare: bool) {
    if is_bare {
        tracing::debug!(%peer, "the hub has as many connections without a certificate as it may; this one is closed");
    } else {
        tracing::warn!(%peer, "the hub has as many connections as it may; this one is closed");
    }
}

/// The next connection, after as many tries as it takes, once there is room for it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(places).acquire_owned().await else { continue };
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, place),
            Err(error) => tracing::warn!(%error, "the hub could not accept a connection"),
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

async fn shaken(acceptor: TlsAcceptor, stream: TcpStream, peer: SocketAddr) -> Option<TlsStream<TcpStream>> {
    // Answers are written whole; waiting for more to send would only add latency.
    let _ = stream.set_nodelay(true);
    match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a TLS handshake failed");
            None
        }
        Err(_) => None,
    }
}

/// Serves a connection until its end, and for [`GRACE`] behind that of `$ended`. How a connection ends, well or badly, is the business of its
/// client, which connects again. A macro, because the connections of the two versions of HTTP share no trait.
macro_rules! until_ended {
    ($served:expr, $ended:expr) => {
        let mut served = pin!($served);
        tokio::select! {
            _ = &mut served => {}
            () = $ended => {
                served.as_mut().graceful_shutdown();
                let _ = timeout(GRACE, served).await;
            }
        }
    };
}

async fn connection(stream: TlsStream<TcpStream>, hub: Rc<Hub>, ended: impl Future<Output = ()>) {
    let session = stream.get_ref().1;
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let certificate = Rc::new(Certificate::new(&hub, session.peer_certificates().and_then(<[_]>::first)));
    let service = service_fn(move |request: Request<Incoming>| {
        let (hub, certificate) = (Rc::clone(&hub), Rc::clone(&certificate));
        async move { Ok::<_, Infallible>(answer(hub, &certificate, request).await) }
    });
    if is_http2 {
        let served = http2::Builder::new(LocalExecutor)
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX)
            .keep_alive_interval(PING_EVERY)
            .serve_connection(TokioIo::new(stream), service);
        until_ended!(served, ended);
    } else {
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES_MAX as usize)
            .serve_connection(TokioIo::new(stream), service);
        until_ended!(served, ended);
    }
}

/// Hands a bound listener to the runtime that this is called on.
///
/// Errors: the kernel's, when the runtime cannot take it.
pub(super) fn registered(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}
