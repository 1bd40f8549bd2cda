use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::*;
use crate::base::Clock;
use crate::config::tests::documented;
use crate::net::listen::bind_tcp;
use crate::net::{Drain, Violation};

type Served = Response<BoxBody<Bytes, io::Error>>;

/// A served listener with a service that records every request it got whole.
struct Fixture {
    address: SocketAddr,
    seen: Rc<RefCell<Vec<String>>>,
    go: Rc<Notify>,
    drain: Drain,
    permits: ConnectionPermits,
    /// The client of the last request.
    last: Rc<RefCell<Option<ClientSide>>>,
}

pub(in crate::net) fn limits() -> Limits {
    let (long, short) = (Duration::from_secs(3600), Duration::from_secs(30));
    Limits {
        body_bytes: 1 << 20,
        head_bytes: 16 * 1024,
        headers: 20,
        head_timeout: long,
        idle_timeout: long,
        stream_idle_timeout: short,
        call_timeout: short,
        connect_timeout: short,
        client_connections: 8,
        pool_idle_per_region: 1,
        pool_idle_timeout: short,
        connection_lifetime: short,
        worker_threads: 1,
        owner_entries: 100,
        lookups: 4,
        ..documented(&["eu"]).limits
    }
}

fn refused_document(refused: Refused) -> Bytes {
    let status = refused.status();
    let body = format!("{{\"error\":{{\"message\":\"{}\"}}}}", refused.to_string().replace('"', "'"));
    let length = body.len();
    Bytes::from(format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"))
}

impl Fixture {
    fn start(limits: Limits) -> Self {
        Self::resting_after(limits, Duration::from_secs(3600))
    }

    fn resting_after(limits: Limits, rest_after: Duration) -> Self {
        let listener = bind_tcp((IpAddr::V4(Ipv4Addr::LOCALHOST), 0).into()).unwrap();
        let crate::net::LocalAddress::Tcp(address) = *listener.local() else { panic!("a TCP listener") };
        let drain = Drain::new(Clock::system());
        let memory = limits.memory.unwrap_or(usize::MAX);
        let permits = ConnectionPermits::within(limits.client_connections, memory, None);
        let fixture = Self { address, seen: Rc::default(), go: Rc::default(), drain, permits, last: Rc::default() };
        let options = ServeOptions {
            limits,
            rest_after,
            activity: fixture.drain.worker(),
            permits: fixture.permits.clone(),
            on_refused: Rc::new(refused_document),
        };
        let (seen, go) = (Rc::clone(&fixture.seen), Rc::clone(&fixture.go));
        let acceptor = listener.register().unwrap();
        let last = Rc::clone(&fixture.last);
        let service = move |request, info: ConnectionInfo| {
            *last.borrow_mut() = Some(info.client.clone());
            serve(request, info, Rc::clone(&seen), Rc::clone(&go))
        };
        drop(tokio::task::spawn_local(accept_loop(acceptor, options, service)));
        fixture
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes on a connection of their own and reads all that comes back until the server closes.
    async fn ask(&self, bytes: &[u8]) -> String {
        let mut socket = self.connect().await;
        socket.write_all(bytes).await.unwrap();
        read_all(&mut socket).await
    }

    /// Waits until the connection of the last request rests: nobody but its task and this fixture knows of its client.
    async fn rest(&self) {
        while self.last.borrow().as_ref().is_none_or(|client| Arc::strong_count(&client.0.shared) > 2) {
            tokio::task::yield_now().await;
        }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.borrow().clone()
    }
}

async fn serve(
    request: Request<IncomingBody>,
    info: ConnectionInfo,
    seen: Rc<RefCell<Vec<String>>>,
    go: Rc<Notify>,
) -> Served {
    let answer = |status, text: String| {
        let mut response = Response::new(Full::from(text).map_err(|never| match never {}).boxed());
        *response.status_mut() = status;
        response
    };
    let name = format!("{} {}", request.method(), request.uri());
    match request.uri().path() {
        "/early" => return answer(StatusCode::PAYLOAD_TOO_LARGE, "early".into()),
        "/tunnel" => {
            let upgrade = hyper::upgrade::on(request);
            drop(tokio::task::spawn_local(async move {
                let mut tunnel = TokioIo::new(upgrade.await.unwrap());
                let mut four = [0; 4];
                tunnel.read_exact(&mut four).await.unwrap();
                tunnel.write_all(&four).await.unwrap();
                tunnel.shutdown().await.unwrap();
            }));
            return answer(StatusCode::SWITCHING_PROTOCOLS, String::new());
        }
        "/late-tunnel" => {
            seen.borrow_mut().push("begun".to_owned());
            go.notified().await;
            let upgrade = hyper::upgrade::on(request);
            drop(tokio::task::spawn_local(async move {
                let mut tunnel = TokioIo::new(upgrade.await.unwrap());
                let mut job = [0; JOB.len()];
                tunnel.read_exact(&mut job).await.unwrap();
                tunnel.write_all(&job).await.unwrap();
                tunnel.shutdown().await.unwrap();
            }));
            return answer(StatusCode::SWITCHING_PROTOCOLS, String::new());
        }
        "/wait" => go.notified().await,
        "/watch" => info.client.disconnected().await,
        "/brief" => {
            seen.borrow_mut().push("begun".to_owned());
            // As long as a region on the same machine takes.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        "/long" => {
            seen.borrow_mut().push("begun".to_owned());
            go.notified().await;
        }
        "/flow" => return Response::new(flowing::Flow::new().boxed()),
        "/cut" => {
            let part = Ok(Frame::data(Bytes::from("part")));
            return Response::new(Frames(vec![part, Err(io::Error::other("region cut"))].into()).boxed());
        }
        _ => {}
    }
    match request.into_body().collect().await {
        Ok(body) => {
            let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            seen.borrow_mut().push(format!("{name} {body}").trim_end().to_owned());
            answer(StatusCode::OK, format!("[{name} {body}]"))
        }
        Err(error) => match Violation::in_causes_of(&error) {
            Some(violation) => answer(violation.status(), format!("{{\"error\":\"{violation}\"}}")),
            None => {
                seen.borrow_mut().push(format!("{name} cut short"));
                answer(StatusCode::BAD_REQUEST, "gone".into())
            }
        },
    }
}

/// A body of given frames.
struct Frames(VecDeque<Result<Frame<Bytes>, io::Error>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(self.0.pop_front())
    }
}

async fn read_all(socket: &mut TcpStream) -> String {
    let mut text = Vec::new();
    socket.read_to_end(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

/// Reads until the text so far ends in `end`.
async fn read_until(socket: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let byte = socket.read_u8().await;
        text.push(byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&text))));
    }
    String::from_utf8(text).unwrap()
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // A hang is a failure with a name; nothing here takes as long.
    let test = async { tokio::time::timeout(Duration::from_secs(20), test).await.expect("the test hangs") };
    LocalSet::new().block_on(&runtime, test)
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

const JOB: &str = "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
const CHUNKED: &str = "5\r\nhello\r\n0\r\n\r\n";

mod flowing;
mod reading;
mod resting;
mod turns;
mod whole;

#[test]
fn a_truncated_head_is_answered_and_a_truncated_body_fails() {
    run(async {
        let fixture = Fixture::start(limits());
        for (text, expected) in [("GET / HTTP/1.1\r\nHost", "400"), (&JOB[..JOB.len() - 1], "400")] {
            let mut socket = fixture.connect().await;
            socket.write_all(text.as_bytes()).await.unwrap();
            socket.shutdown().await.unwrap();
            assert_eq!(status(&read_all(&mut socket).await), expected, "{text:?}");
        }
        assert_eq!(fixture.seen(), ["POST /jobs cut short"]);
    });
}

#[test]
fn a_vanished_client_is_told_to_who_watches_and_the_others_finish() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut watched = fixture.connect().await;
        watched.write_all(b"GET /watch HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let mut waiting = fixture.connect().await;
        waiting.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        while fixture.permits.open() < 2 {
            tokio::task::yield_now().await;
        }
        drop((watched, waiting));
        while fixture.permits.open() > 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fixture.seen(), ["GET /watch"]);
        fixture.go.notify_one();
        while fixture.permits.open() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(fixture.seen(), ["GET /watch", "GET /wait"]);
    });
}

#[test]
fn an_answer_that_is_cut_does_not_look_complete() {
    run(async {
        let fixture = Fixture::start(limits());
        for version in ["1.0", "1.1"] {
            let mut socket = fixture.connect().await;
            socket.write_all(format!("GET /cut HTTP/{version}\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
            let read = socket.read_to_end(&mut Vec::new()).await;
            assert!(read.is_err(), "HTTP/{version} ended cleanly");
        }
    });
}

#[test]
fn an_early_answer_arrives_though_the_body_is_still_coming() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        socket.write_all(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 17000000\r\n\r\n").await.unwrap();
        // More than the system's buffers hold, so that somebody has to read it.
        socket.write_all(&vec![b'x'; 16_000_000]).await.unwrap();
        assert_eq!(status(&read_all(&mut socket).await), "413");
    });
}

#[test]
fn an_upgrade_becomes_a_tunnel_that_keeps_its_permit() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        let upgrade = "GET /tunnel HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        socket.write_all(upgrade.as_bytes()).await.unwrap();
        assert_eq!(status(&read_until(&mut socket, "\r\n\r\n").await), "101");
        assert_eq!(fixture.permits.open(), 1);
        socket.write_all(b"\x81\n\n\x00").await.unwrap();
        let mut echo = Vec::new();
        socket.read_to_end(&mut echo).await.unwrap();
        assert_eq!(echo, b"\x81\n\n\x00");
    });
}

#[test]
fn connections_over_the_bound_are_told_so() {
    run(async {
        let fixture = Fixture::start(Limits { client_connections: 1, ..limits() });
        let mut first = fixture.connect().await;
        first.write_all(JOB.as_bytes()).await.unwrap();
        read_until(&mut first, "hello]").await;
        assert_eq!(status(&fixture.ask(JOB.as_bytes()).await), "503");
        drop(first);
        while fixture.permits.open() > 0 {
            tokio::task::yield_now().await;
        }
        let close = JOB.replace("Host", "Connection: close\r\nHost");
        assert_eq!(status(&fixture.ask(close.as_bytes()).await), "200");
    });
}

#[test]
fn while_draining_requests_are_served_and_connections_closed() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut kept = fixture.connect().await;
        kept.write_all(JOB.as_bytes()).await.unwrap();
        assert!(!read_until(&mut kept, "hello]").await.contains("close"));
        fixture.drain.start();
        for socket in [&mut kept, &mut fixture.connect().await] {
            socket.write_all(JOB.as_bytes()).await.unwrap();
            let answer = read_all(socket).await;
            assert!(answer.contains("connection: close") && answer.ends_with("hello]"), "{answer}");
        }
        assert_eq!(fixture.seen().len(), 3);
    });
}
