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
use crate::net::{Drain, bind_tcp};

type Served = Response<BoxBody<Bytes, io::Error>>;

/// A served listener with a service that records every request it got whole.
struct Fixture {
    address: SocketAddr,
    seen: Rc<RefCell<Vec<String>>>,
    go: Rc<Notify>,
    drain: Drain,
    permits: ConnectionPermits,
}

fn limits() -> Limits {
    let (long, short) = (Duration::from_secs(3600), Duration::from_secs(30));
    Limits {
        body_bytes: 1 << 20,
        json_depth: 128,
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
        let listener = bind_tcp((IpAddr::V4(Ipv4Addr::LOCALHOST), 0).into()).unwrap();
        let crate::net::LocalAddress::Tcp(address) = *listener.local() else { panic!("a TCP listener") };
        let drain = Drain::new(Clock::system());
        let permits = ConnectionPermits::new(limits.client_connections);
        let fixture = Self { address, seen: Rc::default(), go: Rc::default(), drain, permits };
        let options = ServeOptions {
            limits,
            activity: fixture.drain.worker(),
            permits: fixture.permits.clone(),
            on_refused: Rc::new(refused_document),
        };
        let (seen, go) = (Rc::clone(&fixture.seen), Rc::clone(&fixture.go));
        let service = move |request, info| serve(request, info, Rc::clone(&seen), Rc::clone(&go));
        drop(tokio::task::spawn_local(accept_loop(listener, options, service)));
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

    fn seen(&self) -> Vec<String> {
        self.seen.borrow().clone()
    }
}

async fn serve(
    request: Request<Incoming>,
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
        "/wait" => go.notified().await,
        "/watch" => info.client.gone().await,
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

#[test]
fn requests_that_could_be_read_two_ways_are_answered_and_never_served() {
    run(async {
        let fixture = Fixture::start(limits());
        let long = format!("x: {}\r\n", "a".repeat(20_000));
        for (headers, body, expected) in [
            ("Content-Length: 18\r\nTransfer-Encoding: chunked\r\n", CHUNKED, "400"),
            ("Transfer-Encoding: chunked\r\nContent-Length: 18\r\n", CHUNKED, "400"),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", "hello", "400"),
            ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello", "400"),
            ("Content-Length: 5, 5\r\n", "hello", "400"),
            ("Content-Length: +5\r\n", "hello", "400"),
            ("x: a\r\n b\r\nContent-Length: 5\r\n", "hello", "400"),
            ("x: a\nContent-Length: 5\r\n", "hello", "400"),
            ("Content-Length: 5\n\n", "hello", "400"),
            ("Content-Length : 5\r\n", "hello", "400"),
            ("Host: other\r\n", "", "400"),
            ("Transfer-Encoding: gzip, chunked\r\n", CHUNKED, "400"),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKED, "400"),
            (&long, "", "431"),
            (&"x: y\r\n".repeat(30), "", "431"),
            ("Transfer-Encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "+5\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", " 5\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "5;ext\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "5\nhello\n0\n\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "00000000000000005\r\nhello\r\n0\r\n\r\n", "400"),
            ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nx: y\r\n\r\n", "400"),
        ] {
            let request = format!("POST /jobs HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}");
            let answer = fixture.ask(request.as_bytes()).await;
            assert_eq!(status(&answer), expected, "{request:?} was answered {answer:?}");
            assert!(answer.contains("{\"error\":"), "{request:?} was answered {answer:?}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request:?} was answered {answer:?}");
            assert_eq!(fixture.seen(), [""; 0], "{request:?} was served");
        }
    });
}

#[test]
fn other_protocols_and_versions_are_answered() {
    run(async {
        let fixture = Fixture::start(limits());
        for (bytes, expected) in [
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"),
            ("\x16\x03\x01\x02\x00", "400"),
            ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "400"),
            ("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"),
            ("GET / HTTP/1.1\r\n\r\n", "400"),
            (&format!("GET /{} HTTP/1.1\r\n", "a".repeat(20_000)), "414"),
        ] {
            assert_eq!(status(&fixture.ask(bytes.as_bytes()).await), expected, "{bytes:?}");
        }
        assert_eq!(fixture.seen(), [""; 0]);
    });
}

#[test]
fn answers_to_earlier_requests_come_before_a_refusal() {
    run(async {
        let fixture = Fixture::start(limits());
        // The h2c offer makes hyper keep an upgrade in mind, which must not swallow the refusal.
        let offer = "GET /1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        let answer = fixture.ask(format!("{offer}{JOB}GET /3 HTTP/1.1\nHost: a\r\n\r\n").as_bytes()).await;
        let places: Vec<_> = ["[GET /1 ]", "[POST /jobs hello]", "HTTP/1.1 400"].map(|part| answer.find(part)).into();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{answer}");
        assert_eq!(fixture.seen(), ["GET /1", "POST /jobs hello"]);
    });
}

#[test]
fn a_refusal_waits_for_the_request_that_is_being_served() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        socket.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\nGARBAGE\n").await.unwrap();
        fixture.go.notify_one();
        let answer = read_all(&mut socket).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("HTTP/1.1 400"), "{answer}");
    });
}

#[test]
fn pipelined_requests_are_answered_in_order_however_they_are_cut() {
    run(async {
        let fixture = Fixture::start(limits());
        let get = "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
        let chunked = format!("POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKED}");
        let text = format!("\r\n{JOB}{get}\r\n{chunked}{get}");
        for cut in [1, 3, 50, 1000] {
            let mut socket = fixture.connect().await;
            socket.set_nodelay(true).unwrap();
            for part in text.as_bytes().chunks(cut) {
                socket.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
            // A client that closes its sending side still gets its answers.
            socket.shutdown().await.unwrap();
            let answer = read_all(&mut socket).await;
            assert_eq!(answer.matches("HTTP/1.1 200").count(), 4, "{answer}");
            assert_eq!(fixture.seen.take(), ["POST /jobs hello", "GET /2", "POST /3 hello", "GET /2"], "cut by {cut}");
        }
    });
}

#[test]
fn h2c_offers_are_served_as_http_1_1_with_keep_alive() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        let offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n";
        for _ in 0..3 {
            let request = format!("POST /j HTTP/1.1\r\nHost: a\r\n{offer}Content-Length: 5\r\n\r\nhello");
            socket.write_all(request.as_bytes()).await.unwrap();
            let answer = read_until(&mut socket, "[POST /j hello]").await;
            assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("close"), "{answer}");
        }
    });
}

#[test]
fn a_large_head_in_many_pieces_is_served() {
    run(async {
        let fixture = Fixture::start(limits());
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n", "a".repeat(15_000));
        let mut socket = fixture.connect().await;
        socket.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(status(&read_until(&mut socket, "[GET / ]").await), "200");
        let (start, rest) = head.split_at(9_000);
        socket.write_all(start.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
        socket.write_all(rest.as_bytes()).await.unwrap();
        assert_eq!(status(&read_until(&mut socket, "[GET / ]").await), "200");
    });
}

#[test]
fn expect_100_continue_is_answered_before_the_body() {
    run(async {
        let fixture = Fixture::start(limits());
        let mut socket = fixture.connect().await;
        let head = "POST /j HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        socket.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(read_until(&mut socket, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        socket.write_all(b"hello").await.unwrap();
        read_until(&mut socket, "[POST /j hello]").await;
    });
}

#[test]
fn a_head_that_does_not_come_to_its_end_is_answered_408() {
    run(async {
        let fixture = Fixture::start(Limits { head_timeout: Duration::from_millis(50), ..limits() });
        let mut socket = fixture.connect().await;
        socket.write_all(JOB.as_bytes()).await.unwrap();
        read_until(&mut socket, "hello]").await;
        socket.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
        assert_eq!(status(&read_all(&mut socket).await), "408");
    });
}

#[test]
fn the_head_timeout_does_not_close_idle_connections() {
    run(async {
        let limits = Limits { head_timeout: Duration::ZERO, idle_timeout: Duration::from_millis(50), ..limits() };
        let fixture = Fixture::start(limits);
        assert_eq!(fixture.ask(b"").await, "", "an idle connection is closed without a word");
        let mut socket = fixture.connect().await;
        socket.write_all(JOB.as_bytes()).await.unwrap();
        let answer = read_all(&mut socket).await;
        assert!(answer.ends_with("hello]"), "answered, kept, and closed without a word: {answer}");
    });
}

#[test]
fn a_request_longer_than_the_idle_timeout_is_served_and_the_connection_idles_anew() {
    run(async {
        let fixture = Fixture::start(Limits { idle_timeout: Duration::from_millis(200), ..limits() });
        let mut socket = fixture.connect().await;
        socket.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        // A connection that only idles is closed meanwhile.
        assert_eq!(fixture.ask(b"").await, "");
        assert_eq!(fixture.ask(b"").await, "");
        fixture.go.notify_one();
        read_until(&mut socket, "[GET /wait ]").await;
        socket.write_all(JOB.as_bytes()).await.unwrap();
        assert!(read_all(&mut socket).await.ends_with("[POST /jobs hello]"));
    });
}

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
