//! Regions without end or measure.

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::support::{Federation, Setup, Wire, eventually, job};

/// A federation whose first region answers a call with the one text, and then with the other for as long as anybody listens; with
/// none it says nothing more.
async fn federation(start: &'static str, piece: String, limits: &str) -> Federation {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("url: http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(Wire::new(socket), start, piece.clone()));
        }
    });
    let limits = format!("insecure_dev: true\nlimits: {{ worker_threads: 1, {limits} }}");
    Setup::default().regions(2).region(0, &url).region(0, "tls: {}").steered().yaml(&limits).start().await
}

async fn serve(mut wire: Wire, start: &str, piece: String) {
    if wire.until(b"\r\n\r\n").await.starts_with(b"GET /ojs/v1/health") {
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{\"status\":\"ok\"}").await;
        return;
    }
    wire.send(start).await;
    if piece.is_empty() {
        std::future::pending::<()>().await;
    }
    let many = if piece.len() > 1 { piece.repeat(1024 / piece.len() + 1) } else { piece };
    // Cut, it has been heard for long enough.
    while wire.socket.write_all(many.as_bytes()).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

/// Deadlines so late that only a bound on size can end a call.
const PATIENT: &str = "call_timeout: 10min, stream_idle_timeout: 10min";
/// Bounds on time that something which flows without end must come to.
const HURRIED: &str = "call_timeout: 1s, stream_idle_timeout: 1s";

/// The enqueue ends as unknown, and what goes elsewhere is served beside it and afterwards.
async fn check(start: &'static str, piece: &str, limits: &str) {
    let federation = federation(start, piece.to_owned(), limits).await;
    let hung = federation.client.enqueue(job("hung"));
    let other = async {
        let pinned = crate::support::pinned("eu-west-1", "beside");
        assert_eq!(federation.client.enqueue(pinned).await.status, 201, "{start}");
    };
    let (answer, ()) = tokio::join!(hung, other);
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{start} {answer:?}");
    assert_eq!(federation.shared.buffered.bytes(), 0, "{start}");
}

#[tokio::test]
async fn heads_chunks_and_trailers_without_end_are_cut_by_their_size() {
    let chunked = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n";
    check("HTTP/1.1 201 Created\r\n", "x-padding: yyyyyyyyyyyyyyyyyyyyyyyy\r\n", PATIENT).await;
    check("HTTP/1.1 201 Created\r\nx-padding: ", "yyyyyyyyyyyyyyyy", PATIENT).await;
    check("HTTP/1.1 201 ", "yyyyyyyyyyyyyyyy", PATIENT).await;
    check(chunked, "1000000000000\r\n", PATIENT).await;
    check("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2;", "yyyyyyyyyyyyyyyy", PATIENT).await;
    check("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "x-padding: yyyyyyyy\r\n", PATIENT).await;
}

#[tokio::test]
async fn answers_without_end_leave_room_for_jobs_elsewhere() {
    let body = "x".repeat(3 << 20);
    let start = format!("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}", 1 << 30);
    let limits = format!("{PATIENT}, body_bytes: 4MiB, buffered_bytes: 4MiB");
    let federation = federation(start.leak(), String::new(), &limits).await;
    let client = federation.client;
    let hung = tokio::spawn(async move { client.enqueue(job("hung")).await });
    // A little more than an answer needs, and then all that is free for what nobody expects.
    eventually("the answer is cut", async || {
        federation.metric("unknown_outcomes_total{region=\"us-east-1\"}").await > 0.0
    })
    .await;
    assert_eq!(hung.await.unwrap().reason(), "outcome_unknown");
    assert_eq!(federation.shared.buffered.bytes(), 0);
}

#[tokio::test]
async fn events_that_nobody_reads_hold_the_region_back_until_the_reader_is_reset() {
    let start = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let event = format!("event: job.available\ndata: {{\"note\":\"{}\"}}\n\n", "x".repeat(1000));
    let federation = federation(start, event, "stream_idle_timeout: 1s").await;
    let others = federation.metric("client_connections").await;
    let mut reader = federation.client.wire().await;
    reader.send("GET /ojs/v1/queues/default/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(reader.head().await.0, 200);
    // On the same thread as the stream, which flows until its buffers are full.
    let pinned = crate::support::pinned("eu-west-1", "beside");
    assert_eq!(federation.client.enqueue(pinned).await.status, 201);
    eventually("the reader is given up", async || federation.metric("client_connections").await <= others).await;
    assert!(reader.rest().await.is_err(), "it does not look complete");
}

#[tokio::test]
async fn what_flows_within_its_size_is_cut_by_its_time() {
    // Interim answers are small, and no bound on size sees how many there are.
    check("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n", HURRIED).await;
    check("HTTP/1.1 201 Created\r\nContent-Length: 1000000\r\n\r\n", "", HURRIED).await;
    check("HTTP/1.1 201 Created\r\nx", "", HURRIED).await;
}

#[tokio::test]
async fn a_streamed_call_whose_answer_does_not_begin_is_given_up_whatever_flows() {
    let federation =
        federation("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n".into(), HURRIED).await;
    let answer = federation.client.get("/ojs/v1/webhooks/subscriptions?region=us-east-1").await;
    answer.check_error(504, "backend_error", "upstream_timeout");
}

#[tokio::test]
async fn too_long_a_head_is_no_answer_over_http_2_either() {
    let federation = Setup::default().steered().http2().start().await;
    let answer = FaultAnswer::balancer(StatusCode::CREATED).header("x-padding", &"y".repeat(128 * 1024));
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
    federation.mute(0);
    let answer = federation.client.enqueue(job("long")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
}

/// Looks like a compressed document of any size; what it would expand to is nobody's business here.
const COMPRESSED: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 0xed, 0xc1, 1, 1, 0, 0, 0, 0x80, 0x90];

fn compressed() -> Fault {
    let answer = FaultAnswer { body: COMPRESSED.into(), ..FaultAnswer::balancer(StatusCode::CREATED) };
    Fault::Answer { answer: answer.header("content-encoding", "gzip"), store: false }
}

#[tokio::test]
async fn nothing_is_expanded_and_nobody_is_asked_to_compress_what_is_interpreted() {
    let federation = Setup::default().steered().regions(2).start().await;
    let region = &federation.regions[0];
    region.faults().add(When::enqueue(), compressed());
    region.faults().add(When::path("/ojs/v1/dead-letter").method(Method::GET), compressed());
    let request = http::Request::post("/ojs/v1/jobs").header("accept-encoding", "gzip");
    let answer = federation.client.send(request, job("bomb")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "it shows no job");
    let request = http::Request::get("/ojs/v1/dead-letter").header("accept-encoding", "gzip");
    let answer = federation.client.send(request, "").await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-partial")), (200, Some("us-east-1")));
    for request in region.record().requests() {
        assert!(!request.headers.contains_key("accept-encoding"), "{request:?}");
    }
}
