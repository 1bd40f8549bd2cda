//! The accept loop of a region: listens, stops, resumes and cuts on command.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{HandshakeKind, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::context::Context;
use super::record::RecordedConnection;
use super::service::{self, Peer};
use super::wire::{Tap, Wire};

/// Connections that may wait to be accepted: more than any test opens at once.
const BACKLOG: u32 = 1024;

/// How long a connection may idle: longer than any pool keeps one.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// The orders to a running region; the sender gets an answer once the order is done.
#[derive(Debug)]
pub(super) enum Command {
    Stop(oneshot::Sender<()>),
    Resume(oneshot::Sender<io::Result<()>>),
    Cut(oneshot::Sender<()>),
}

/// The port of a region: reserved even while the region does not listen on it.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    // Bound and never listening, so that connections are refused and the number stays reserved.
    _reserved: TcpSocket,
}

impl Port {
    /// Takes the address and listens on it.
    ///
    /// Errors: the operating system's, when the port is taken.
    pub(super) fn take(address: SocketAddr) -> io::Result<(Self, TcpListener)> {
        let reserved = bound(address)?;
        let port = Self { address: reserved.local_addr()?, _reserved: reserved };
        let listener = port.listen()?;
        Ok((port, listener))
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    fn listen(&self) -> io::Result<TcpListener> {
        bound(self.address)?.listen(BACKLOG)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// A region at work.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) context: Arc<Context>,
    pub(super) tls: Option<Arc<ArcSwap<ServerConfig>>>,
    pub(super) port: Port,
}

/// The connections that are open, by number.
#[derive(Debug, Default)]
struct Open {
    tasks: JoinSet<u64>,
    wires: HashMap<u64, Arc<Wire>>,
    next_number: u64,
}

impl Server {
    /// Serves until the sender of the commands is dropped.
    pub(super) async fn run(self, listener: TcpListener, mut commands: mpsc::Receiver<Command>) {
        let mut listener = Some(listener);
        let mut open = Open::default();
        loop {
            tokio::select! {
                // Commands first: nothing is accepted any more once a stop was asked for.
                biased;
                command = commands.recv() => match command {
                    None => return,
                    Some(command) => self.obey(command, &mut listener, &mut open).await,
                },
                ended = open.tasks.join_next(), if !open.tasks.is_empty() => open.ended(ended),
                accepted = accept(listener.as_ref()) => self.welcome(accepted, &mut open),
            }
        }
    }

    async fn obey(&self, command: Command, listener: &mut Option<TcpListener>, open: &mut Open) {
        // A sender that no longer listens has been dropped while it waited; the command stands all the same.
        match command {
            Command::Stop(done) => {
                *listener = None;
                open.cut().await;
                let _ = done.send(());
            }
            Command::Cut(done) => {
                open.cut().await;
                let _ = done.send(());
            }
            Command::Resume(done) => {
                let resumed =
                    if listener.is_some() { Ok(()) } else { self.port.listen().map(|new| *listener = Some(new)) };
                let _ = done.send(resumed);
            }
        }
    }

    fn welcome(&self, stream: TcpStream, open: &mut Open) {
        if self.context.faults.for_connection() {
            // Without lingering the close is a reset, as a dying host sends it.
            let _ = stream.set_zero_linger();
            return;
        }
        // Answers are small; waiting to fill a segment would only delay them.
        let _ = stream.set_nodelay(true);
        let wire = Wire::new(open.next_number);
        open.next_number += 1;
        open.wires.insert(wire.number, Arc::clone(&wire));
        let tls = self.tls.as_ref().map(|tls| tls.load_full());
        open.tasks.spawn(connection(Arc::clone(&self.context), tls, stream, wire));
    }
}

impl Open {
    fn ended(&mut self, ended: Option<Result<u64, tokio::task::JoinError>>) {
        if let Some(Ok(number)) = ended {
            self.wires.remove(&number);
        }
    }

    /// Cuts every connection and waits until all sockets are closed.
    async fn cut(&mut self) {
        for (_, wire) in self.wires.drain() {
            wire.cut();
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Out of descriptors, mostly: let connections end before the next try.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(context: Arc<Context>, tls: Option<Arc<ServerConfig>>, stream: TcpStream, wire: Arc<Wire>) -> u64 {
    tokio::select! {
        biased;
        () = wire.cut_asked() => {}
        () = Box::pin(secured(&context, tls, stream, &wire)) => {}
    }
    if let Some(mut task) = wire.upgraded() {
        tokio::select! {
            biased;
            () = wire.cut_asked() => {
                task.abort();
                let _ = task.await;
            }
            _ = &mut task => {}
        }
    }
    context.record.closed(wire.number);
    wire.number
}

async fn secured(context: &Arc<Context>, tls: Option<Arc<ServerConfig>>, stream: TcpStream, wire: &Arc<Wire>) {
    let Some(tls) = tls else { return converse(context, stream, seen(wire, "http/1.1"), wire).await };
    // A handshake that fails is the client's to report.
    let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await else { return };
    let (_, session) = stream.get_ref();
    let protocol = if session.alpn_protocol() == Some(b"h2".as_slice()) { "h2" } else { "http/1.1" };
    let connection = RecordedConnection {
        resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        client_subject: session.peer_certificates().and_then(<[_]>::first).and_then(super::tls::subject),
        ..seen(wire, protocol)
    };
    converse(context, stream, connection, wire).await;
}

const fn seen(wire: &Wire, protocol: &'static str) -> RecordedConnection {
    let number = wire.number;
    RecordedConnection { number, protocol, resumed: false, client_subject: None, open: true, raw: Bytes::new() }
}

async fn converse<S>(context: &Arc<Context>, stream: S, connection: RecordedConnection, wire: &Arc<Wire>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_h2 = connection.protocol == "h2";
    let peer = Peer { wire: Arc::clone(wire), subject: connection.client_subject.clone() };
    context.record.opened(connection);
    let shared = Arc::clone(context);
    let service = service_fn(move |request| service::serve(Arc::clone(&shared), peer.clone(), request));
    let io = TokioIo::new(Tap::new(stream, context.record.clone(), Arc::clone(wire)));
    // The client judges how a connection ends; the record has the arrived bytes.
    let _ = if is_h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).max_concurrent_streams(context.streams_max);
        builder.serve_connection(io, service).await
    } else {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(IDLE_MAX);
        builder.serve_connection(io, service).with_upgrades().await
    };
}
