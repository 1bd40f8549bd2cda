//! Regions that are slow, greedy or mad, and the connections to those that are not.

mod closing;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery};
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use ojs_sidecar::config::RegionTls;
use ojs_sidecar::net::body::Outgoing;
use ojs_sidecar::net::dial::{DialError, Endpoint};
use ojs_sidecar::net::pool::{NotSent, Pool, PoolLimits, PoolMeters, RegionBody, SendError};
use ojs_sidecar::net::tls::{ClientTls, TlsFiles, build};
use ojs_sidecar::net::usual::UsualConnect;
use ojs_testbed::{self, DemoRegion, Fault, Gate, RegionOptions, When};
use prometheus::{IntCounter, IntGauge};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, LocalSet};
use tokio_rustls::TlsAcceptor;

use crate::support::{Federation, Setup, Wire, eventually, job, pinned};

/// Deadlines so late that only the bound under test can end a call.
fn patient() -> Setup {
    let setup = Setup::default().steered().regions(2);
    setup.yaml("limits: { worker_threads: 1, call_timeout: 10min, stream_idle_timeout: 10min, body_bytes: 64KiB }")
}

async fn check_unknown(federation: &Federation, fault: Fault) {
    let name = format!("{fault:?}").chars().take(80).collect::<String>();
    federation.regions[0].faults().add(When::enqueue().next(1), fault);
    federation.mute(0);
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{name} {answer:?}");
    assert_eq!(federation.enqueues(1), 0);
}

fn raw(text: impl Into<String>) -> Fault {
    Fault::Raw { bytes: Bytes::from(text.into()) }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_at_its_bound() {
    for http2 in [false, true] {
        let setup = patient();
        let federation = if http2 { setup.http2() } else { setup }.start().await;
        check_unknown(&federation, Fault::EndlessBody).await;
        let record = federation.regions[0].record();
        if !http2 {
            // Nobody reads the rest: the connection is gone. Over HTTP/2 only the stream is.
            let sent = record.requests_to("/ojs/v1/jobs").first().unwrap().connection;
            record.wait_for(|record| record.connections().iter().any(|it| it.number == sent && !it.open)).await;
        }
        let answer = federation.client.enqueue(job("next")).await;
        assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    }
}

#[tokio::test]
async fn an_answer_with_too_long_a_head_or_too_many_headers_is_no_answer() {
    let federation = patient().yaml("circuit_breaker: { failure_threshold: 1000 }").start().await;
    let created = "HTTP/1.1 201 Created\r\ncontent-length: 18\r\n";
    check_unknown(
        &federation,
        raw(format!("{created}x-padding: {}\r\n\r\n{{\"job\":{{\"id\":\"a\"}}}}", "x".repeat(128 * 1024))),
    )
    .await;
    check_unknown(
        &federation,
        raw(format!("{created}{}\r\n{{\"job\":{{\"id\":\"a\"}}}}", "x-more: y\r\n".repeat(200))),
    )
    .await;
    // The same answer within bounds is one.
    federation.regions[0]
        .faults()
        .add(When::enqueue().next(1), raw(format!("{created}x-more: y\r\n\r\n{{\"job\":{{\"id\":\"a\"}}}}")));
    assert_eq!(federation.client.enqueue(r#"{"id":"a","type":"t","args":[]}"#.to_owned()).await.status, 201);
}

#[tokio::test]
async fn an_answer_that_announces_more_than_its_bound_is_not_read() {
    let federation = patient().start().await;
    check_unknown(&federation, raw("HTTP/1.1 201 Created\r\ncontent-length: 99999999999\r\n\r\n{")).await;
}

#[tokio::test]
async fn garbage_is_no_answer() {
    let federation = patient().yaml("circuit_breaker: { failure_threshold: 1000 }").start().await;
    for text in [
        "",
        "\r\n\r\n",
        "220 mail.example ESMTP\r\n",
        "HTTP/1.1 2O1 Created\r\n\r\n",
        "HTTP/9.9 201 Created\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\n{}",
        "HTTP/1.1 201 Created\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{} ",
        "HTTP/1.1 201 Created\r\ncontent-length: -2\r\n\r\n{}",
        "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
        "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        "HTTP/1.1 201 Created\r\nbad header: x\r\ncontent-length: 2\r\n\r\n{}",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: none\r\nconnection: upgrade\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00",
    ] {
        check_unknown(&federation, raw(text)).await;
    }
    let bytes = Bytes::from_static(&[0xff; 4096]);
    check_unknown(&federation, Fault::Raw { bytes }).await;
    assert_eq!(federation.client.enqueue(job("well")).await.status, 201);
}

#[tokio::test]
async fn a_mad_answer_to_a_streamed_call_is_an_error_of_ours_and_not_a_broken_connection() {
    let federation = patient().start().await;
    let switch = "HTTP/1.1 101 Switching Protocols\r\nupgrade: none\r\nconnection: upgrade\r\n\r\n";
    for text in ["no HTTP at all\r\n\r\n", switch] {
        federation.regions[0].faults().add(When::path("/ojs/v1/webhooks").next(1), raw(text));
        let answer = federation.client.get("/ojs/v1/webhooks/subscriptions").await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (502, "broken_answer"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_slow_or_silent_health_endpoint_is_given_up_by_its_timeout() {
    let setup = Setup::default().steered().regions(2).yaml("health_check: { timeout: 500ms }");
    let federation = setup.start().await;
    let becomes = async |health: &str, what: &str| {
        eventually(what, async || {
            federation.advance(Duration::from_secs(12));
            federation.settle().await;
            federation.health(0) == health
        })
        .await;
    };
    for fault in [Fault::HangBeforeBody, Fault::EndlessBody, raw("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")] {
        let name = format!("{fault:?}");
        federation.regions[0].faults().add(When::health(), fault);
        becomes("unhealthy", &name).await;
        federation.regions[0].faults().clear();
        becomes("healthy", &name).await;
    }
}

#[tokio::test]
async fn connections_are_reused_and_as_few_as_the_protocol_allows() {
    for http2 in [false, true] {
        let federation = if http2 { patient().http2() } else { patient() }.start().await;
        let before = federation.regions[0].record().connections().len();
        for round in 0..30 {
            assert_eq!(federation.client.enqueue(job(&format!("a{round}"))).await.status, 201);
            assert_eq!(federation.client.get("/ojs/v1/queues").await.status, 200);
        }
        assert_eq!(federation.regions[0].record().connections().len(), before + 1, "http2: {http2}");
        let client = federation.client;
        let crowd: JoinSet<_> = (0..20)
            .map(|call| async move { client.enqueue(pinned("us-east-1", &format!("b{call}"))).await.status })
            .collect();
        assert!(crowd.join_all().await.iter().all(|status| *status == 201));
        let more = federation.regions[0].record().connections().len() - before;
        assert!(if http2 { more == 1 } else { more <= 21 }, "{more} connections, http2: {http2}");
    }
}

const ROOMY: PoolLimits = PoolLimits {
    idle_max: 8,
    idle_timeout: Duration::from_secs(600),
    lifetime: Duration::from_secs(600),
    head_bytes: 64 * 1024,
    headers: 100,
};

fn meters() -> PoolMeters {
    let gauge = |name: &str| IntGauge::new(name, name).unwrap();
    let counter = |name: &str| IntCounter::new(name, name).unwrap();
    PoolMeters {
        idle: gauge("idle"),
        busy: gauge("busy"),
        established: counter("established"),
        dns: counter("dns"),
        refused: counter("refused"),
        tls: counter("tls"),
        timeout: counter("timeout"),
        server_expiry: prometheus::Gauge::new("server_expiry", "server_expiry").unwrap(),
    }
}

/// Asks a region on a connection of the pool.
async fn ask(pool: &Pool, address: SocketAddr, tls: Option<&ClientTls>) -> Response<RegionBody> {
    send(pool, address, tls, Outgoing::EMPTY).await
}

async fn send(pool: &Pool, address: SocketAddr, tls: Option<&ClientTls>, body: Outgoing) -> Response<RegionBody> {
    send_until(pool, address, tls, body, None).await.unwrap()
}

async fn send_until(
    pool: &Pool,
    address: SocketAddr,
    tls: Option<&ClientTls>,
    body: Outgoing,
    deadline: Option<tokio::time::Instant>,
) -> Result<Response<RegionBody>, SendError> {
    let authority = Authority::from_static("localhost");
    let endpoint = Endpoint {
        addresses: &[address],
        authority: &authority,
        tls,
        identity: 0,
        connect_timeout: Duration::from_secs(10),
        usual: &UsualConnect::default(),
        elsewhere: None,
    };
    let mut request = Request::new(body);
    *request.uri_mut() = Uri::from(PathAndQuery::from_static("/ojs/v1/health"));
    request.headers_mut().insert("host", http::HeaderValue::from_static("localhost"));
    pool.send(&endpoint, &mut Some(request), Instant::now(), deadline).await
}

/// Three questions one after the other, with a look over the pool between them: so many connections, and so many idle at the
/// end.
async fn check_pool(limits: PoolLimits, connections: usize, idle: i64) {
    let region = DemoRegion::start(RegionOptions::new("us-east-1")).await.unwrap();
    let meters = meters();
    let asking = async {
        let pool = Pool::new(limits, meters.clone());
        for _ in 0..3 {
            let (gate, requests) = (Gate::new(), region.record().requests().len());
            region.faults().add(When::always().next(1), Fault::Hold { gate: gate.clone() });
            let asked = async {
                eventually("the region has the request", async || region.record().requests().len() > requests).await;
                assert_eq!(meters.busy.get(), 1);
                gate.open();
            };
            let (response, ()) = tokio::join!(ask(&pool, region.address(), None), asked);
            response.into_body().collect().await.unwrap();
            assert_eq!(meters.busy.get(), 0);
            pool.sweep(0);
        }
        assert_eq!((region.record().connections().len(), meters.idle.get()), (connections, idle), "{limits:?}");
    };
    LocalSet::new().run_until(asking).await;
    assert_eq!(meters.established.get(), connections as u64);
    assert_eq!(meters.idle.get(), 0, "its connections went with the pool");
}

#[tokio::test]
async fn a_pool_keeps_what_is_young_and_fresh_and_retires_the_rest() {
    check_pool(ROOMY, 1, 1).await;
    check_pool(PoolLimits { lifetime: Duration::ZERO, ..ROOMY }, 3, 0).await;
    check_pool(PoolLimits { idle_timeout: Duration::ZERO, ..ROOMY }, 3, 0).await;
    check_pool(PoolLimits { idle_max: 0, ..ROOMY }, 3, 0).await;
}

/// The next connection and its first question, answered.
async fn answered<S: AsyncRead + AsyncWrite + Unpin>(accepted: impl Future<Output = S>) -> Wire<S> {
    let mut wire = Wire::new(accepted.await);
    wire.until(b"\r\n\r\n").await;
    wire.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    wire
}

/// A question on a connection of its own, and its answer: whatever another connection was told before is not it.
async fn check_next(pool: &Pool, address: SocketAddr, listener: &TcpListener) {
    let next = async {
        let mut wire = Wire::new(listener.accept().await.unwrap().0);
        wire.until(b"\r\n\r\n").await;
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext").await;
        wire
    };
    let asked = async { tokio::join!(ask(pool, address, None), next) };
    let asked = tokio::time::timeout(Duration::from_secs(20), asked).await;
    let (answer, _wire) = asked.unwrap_or_else(|_| panic!("it uses a connection that is not free"));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "next");
}

#[tokio::test]
async fn a_connection_whose_answer_came_whole_is_not_free_before_the_request_is_written() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asking = async {
        let pool = Pool::new(ROOMY, meters());
        // More than the buffers of two sockets have room for.
        let upload = Outgoing::pieces(&[Bytes::from(vec![b'x'; 64 << 20])]);
        let early = async {
            let mut wire = Wire::new(listener.accept().await.unwrap().0);
            wire.until(b"\r\n\r\n").await;
            wire.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\n\r\nlarge").await;
            wire
        };
        let (answer, _wire) = tokio::join!(send(&pool, address, None, upload), early);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "large");
        check_next(&pool, address, &listener).await;
    };
    LocalSet::new().run_until(asking).await;
}

#[tokio::test]
async fn an_answer_to_a_call_that_was_given_up_is_nobody_elses() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asking = async {
        let pool = Pool::new(ROOMY, meters());
        let mut given_up = Box::pin(ask(&pool, address, None));
        let region = async {
            let mut wire = Wire::new(listener.accept().await.unwrap().0);
            wire.until(b"\r\n\r\n").await;
            wire
        };
        let mut wire = tokio::select! {
            _ = &mut given_up => panic!("nobody has answered"),
            wire = region => wire,
        };
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst").await;
        // The connection reads it, and the call is not asked any more.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        drop(given_up);
        check_next(&pool, address, &listener).await;
    };
    LocalSet::new().run_until(Box::pin(asking)).await;
}

#[tokio::test]
async fn what_the_region_closed_while_it_was_idle_is_not_used_again_and_goes_with_the_next_sweep() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, meters) = (listener.local_addr().unwrap(), meters());
    let accept = async || listener.accept().await.unwrap().0;
    let asking = async {
        let pool = Pool::new(ROOMY, meters.clone());
        let (_, first) = tokio::join!(ask(&pool, address, None), answered(accept()));
        drop(first);
        // Whatever comes later by another socket is noticed no earlier.
        let _other = tokio::join!(async { TcpStream::connect(address).await.unwrap() }, accept());
        let (_, second) = tokio::join!(ask(&pool, address, None), answered(accept()));
        assert_eq!((meters.established.get(), meters.idle.get()), (2, 1));
        drop(second);
        eventually("the pool has swept what is closed", async || {
            pool.sweep(0);
            meters.idle.get() == 0
        })
        .await;
    };
    LocalSet::new().run_until(asking).await;
}
