//! Bodies that are not interpreted: they flow both ways as they come, with back-pressure, and may pause for so long only.

use std::time::{Duration, Instant};

use http::{Method, Request};
use ojs_testbed::{Fault, Gate, When};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Federation, Setup, Wire, eventually};

const MIB: usize = 1 << 20;

/// What some server could take for a job is read first; data is not.
const DATA: &str = "Content-Type: application/octet-stream";

/// Data that nobody reads on its way; the demo region takes it in and does not know what it is.
const UPLOAD: &str = "/ojs/v1/webhooks/data";

fn idle_timeout(timeout: &str) -> Setup {
    Setup::default().yaml(&format!("limits: {{ stream_idle_timeout: {timeout}, worker_threads: 1 }}"))
}

async fn begin(federation: &Federation, target: &str) -> Wire {
    let mut wire = federation.client.wire().await;
    wire.send(format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{DATA}\r\nTransfer-Encoding: chunked\r\n\r\n"))
        .await;
    wire
}

async fn send_chunk(wire: &mut Wire, data: &str) {
    wire.send(format!("{:x}\r\n{data}\r\n", data.len())).await;
}

#[tokio::test]
async fn what_is_sent_first_comes_back_before_the_last_is_sent() {
    for setup in [Setup::default(), Setup::default().http2()] {
        let federation = setup.start().await;
        let mut wire = begin(&federation, "/ojs/v1/debug/echo").await;
        send_chunk(&mut wire, "first").await;
        assert_eq!(wire.head().await.0, 200);
        assert_eq!(wire.chunk().await, b"first");
        for turn in 0..10 {
            send_chunk(&mut wire, &format!("turn-{turn}")).await;
            assert_eq!(wire.chunk().await, format!("turn-{turn}").into_bytes());
        }
        wire.send("0\r\n\r\n").await;
        assert_eq!(wire.chunk().await, b"");
        wire.send("GET /ojs/v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(wire.answer().await.status, 200, "the connection is kept");
    }
}

#[tokio::test]
async fn large_downloads_arrive_whole_whether_announced_or_not() {
    for setup in [Setup::default(), Setup::default().http2()] {
        let federation = setup.start().await;
        for (query, announced) in [("", Some("33554435")), ("&chunked=true", None)] {
            let answer = federation.client.get(&format!("/ojs/v1/debug/stream?bytes=33554435{query}")).await;
            assert_eq!((answer.status.as_u16(), answer.header("content-length")), (200, announced));
            assert_eq!(answer.body.len(), 32 * MIB + 3);
            assert!(answer.body.iter().all(|byte| *byte == b'x'));
        }
    }
}

#[tokio::test]
async fn large_uploads_arrive_whole_whether_announced_or_not() {
    for setup in [Setup::default(), Setup::default().http2()] {
        let federation = setup.start().await;
        let data: Vec<u8> = (0..12 * MIB).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let request = Request::post("/ojs/v1/debug/echo").header("content-type", "application/octet-stream");
        let answer = federation.client.send(request, data.clone()).await;
        assert!(answer.body == data, "{} bytes came back", answer.body.len());
        let request = federation.regions[0].record().requests_to("/ojs/v1/debug/echo").remove(0);
        assert_eq!(request.headers.get("transfer-encoding"), None, "an announced length is passed on");
        let mut wire = begin(&federation, UPLOAD).await;
        for part in data.chunks(MIB) {
            wire.send(format!("{:x}\r\n", part.len())).await;
            wire.send(part).await;
            wire.send("\r\n").await;
        }
        wire.send("0\r\n\r\n").await;
        assert_eq!(wire.answer().await.status, 404, "the region's word");
        assert!(federation.regions[0].record().requests_to(UPLOAD)[0].body == data);
    }
}

/// The header line of a short body is not the client's own any more: what leaves has the length of what leaves.
#[tokio::test]
async fn short_bodies_pass_both_ways_with_their_length_and_nothing_else_that_delimits_them() {
    const BODY: &str = r#"{"type":"a","args":[]}"#;
    for setup in [Setup::default(), Setup::default().http2()] {
        let federation = setup.start().await;
        let mut wire = federation.client.wire().await;
        for (call, status) in [
            ("POST /ojs/v1/webhooks/data", 404),
            ("PUT /ojs/v1/webhooks/data", 404),
            ("GET /ojs/v1/something", 404),
            ("POST /ojs/v1/jobs", 201),
        ] {
            let length = BODY.len();
            let lines = format!("Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n");
            wire.send(format!("{call} HTTP/1.1\r\n{lines}\r\n{BODY}")).await;
            let (answered, headers) = wire.head().await;
            assert_eq!(answered, status, "{call}");
            assert_eq!(headers.get_all("content-length").iter().count(), 1, "{call}: {headers:?}");
            // The next head begins where it ends.
            wire.take(headers["content-length"].to_str().unwrap().parse().unwrap()).await;
            let (_, target) = call.split_once(' ').unwrap();
            let request = federation.regions[0].record().requests_to(target).pop().unwrap();
            assert_eq!(request.headers["content-length"], request.body.len().to_string().as_str(), "{call}");
            assert!(request.body.len() >= length && !request.headers.contains_key("transfer-encoding"), "{call}");
        }
    }
}

/// When a side that is not read counts as held back. A machine that is slow for longer makes these tests easier to pass.
const HELD_BACK: Duration = Duration::from_millis(500);

/// Writes until nothing more is taken, and answers how much was; all of it if nobody held it back.
async fn write_until_held_back(socket: &mut (impl AsyncWriteExt + Unpin), bytes: usize) -> usize {
    let part = vec![b'p'; 64 * 1024];
    let mut written = 0;
    while written < bytes {
        let next = part.len().min(bytes - written);
        match tokio::time::timeout(HELD_BACK, socket.write(&part[..next])).await {
            Ok(taken) => written += taken.unwrap(),
            Err(_) => return written,
        }
    }
    written
}

/// Reads so many bytes, of which no more than a part is kept at once.
async fn pass_over(wire: &mut Wire, bytes: usize) {
    let mut left = bytes;
    while left > 0 {
        left -= wire.take(left.min(MIB)).await.len();
    }
}

/// A region in plain HTTP whose sockets the test works by hand: what is not for it is a probe, and answered.
struct ByHand {
    listener: tokio::net::TcpListener,
}

impl ByHand {
    async fn start() -> (Self, Federation) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("url: http://{}", listener.local_addr().unwrap());
        let setup = Setup::default().regions(1).region(0, &url).region(0, "tls: {}").steered();
        // Without idle connections none is kept warm, so that what connects here is what the test sends.
        let yaml = "insecure_dev: true\nlimits: { worker_threads: 1, pool_idle_per_region: 0 }";
        let region = Self { listener };
        let (federation, ()) = tokio::join!(setup.yaml(yaml).start(), region.probe());
        (region, federation)
    }

    /// Answers the first probe.
    async fn probe(&self) {
        let mut wire = self.accept("GET /ojs/v1/health").await;
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}").await;
    }

    /// Has a client begin an upload, of so many bytes behind its first, and takes its connection. The first byte tells that it is no job.
    async fn accept_upload(&self, client: &mut Wire, bytes: usize) -> Wire {
        let target = "POST /ojs/v1/any";
        client
            .send(format!("{target} HTTP/1.1\r\nHost: localhost\r\n{DATA}\r\nContent-Length: {}\r\n\r\np", bytes + 1))
            .await;
        self.accept(target).await
    }

    /// Takes the next connection and the head of its request.
    async fn accept(&self, start: &str) -> Wire {
        let accepted = tokio::time::timeout(Duration::from_secs(60), self.listener.accept()).await;
        let mut wire = Wire::new(accepted.unwrap_or_else(|_| panic!("nobody connects for {start}")).unwrap().0);
        let head = wire.until(b"\r\n\r\n").await;
        assert!(head.starts_with(start.as_bytes()), "{}", String::from_utf8_lossy(&head));
        wire
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_region_back() {
    const TOTAL: usize = 96 * MIB;
    let (region, federation) = ByHand::start().await;
    let mut client = federation.client.wire().await;
    client.send("GET /ojs/v1/debug/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let mut wire = region.accept("GET /ojs/v1/debug/stream").await;
    wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {TOTAL}\r\n\r\n")).await;
    let written = write_until_held_back(&mut wire.socket, TOTAL).await;
    assert!(written < TOTAL, "the sidecar took everything from the region while its client read nothing");
    let rest = tokio::spawn(async move { wire.send(vec![b'p'; TOTAL - written]).await });
    assert_eq!(client.head().await.0, 200);
    pass_over(&mut client, TOTAL).await;
    rest.await.unwrap();
}

#[tokio::test]
async fn a_region_that_does_not_read_holds_the_client_back() {
    const TOTAL: usize = 96 * MIB;
    let (region, federation) = ByHand::start().await;
    let mut client = federation.client.wire().await;
    let mut wire = region.accept_upload(&mut client, TOTAL).await;
    let written = write_until_held_back(&mut client.socket, TOTAL).await;
    assert!(written < TOTAL, "the sidecar took everything from its client while the region read nothing");
    let reading = tokio::spawn(async move {
        pass_over(&mut wire, TOTAL).await;
        wire.send("HTTP/1.1 204 No Content\r\n\r\n").await;
    });
    client.send(vec![b'p'; TOTAL - written]).await;
    assert_eq!(client.answer().await.status, 204);
    reading.await.unwrap();
}

#[tokio::test]
async fn a_client_that_sends_all_before_it_reads_is_not_held_back_by_an_early_answer() {
    const TOTAL: usize = 96 * MIB;
    let (region, federation) = ByHand::start().await;
    let mut client = federation.client.wire().await;
    let mut wire = region.accept_upload(&mut client, TOTAL).await;
    wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {TOTAL}\r\n\r\n")).await;
    let written = write_until_held_back(&mut wire.socket, TOTAL).await;
    assert!(written < TOTAL, "the sidecar took everything from the region while its client read nothing");
    let reading = async {
        pass_over(&mut wire, TOTAL).await;
        wire.send(vec![b'p'; TOTAL - written]).await;
    };
    let body = async {
        client.send(vec![b'p'; TOTAL]).await;
        assert_eq!(client.head().await.0, 200);
        pass_over(&mut client, TOTAL).await;
    };
    tokio::join!(reading, body);
}

#[tokio::test]
async fn events_arrive_as_they_happen() {
    for setup in [Setup::default(), Setup::default().http2()] {
        let federation = setup.start().await;
        let id = federation.client.enqueue(r#"{"type":"t","args":[]}"#).await.job_id();
        let mut wire = federation.client.wire().await;
        wire.send(format!(
            "GET /ojs/v1/jobs/{id}/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        ))
        .await;
        let (status, headers) = wire.head().await;
        assert_eq!((status.as_u16(), headers["content-type"].as_bytes()), (200, &b"text/event-stream"[..]));
        wire.until(b"event: job.available\n").await;
        assert_eq!(federation.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await.status, 200);
        wire.until(b"event: job.cancelled\n").await;
        wire.until(b"\r\n0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn a_stream_that_pauses_for_too_long_is_cut_at_both_ends_and_does_not_look_complete() {
    let federation = idle_timeout("1s").start().await;
    let id = federation.client.enqueue(r#"{"type":"t","args":[]}"#).await.job_id();
    let mut wire = federation.client.wire().await;
    wire.send(format!("GET /ojs/v1/jobs/{id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
    wire.until(b"event: job.available\n").await;
    let rest = wire.rest().await;
    assert!(rest.as_ref().map_or(true, |rest| !rest.ends_with(b"0\r\n\r\n")), "{rest:?}");
    let region = &federation.regions[0];
    let connection = region.record().requests_to(&format!("/ojs/v1/jobs/{id}/events"))[0].connection;
    region.record().wait_for(|it| it.connections().iter().any(|it| it.number == connection && !it.open)).await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_stream_at_the_region() {
    let federation = Setup::default().yaml("limits: { worker_threads: 1 }").start().await;
    let id = federation.client.enqueue(r#"{"type":"t","args":[]}"#).await.job_id();
    let mut wire = federation.client.wire().await;
    wire.send(format!("GET /ojs/v1/jobs/{id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
    wire.until(b"event: job.available\n").await;
    let region = &federation.regions[0];
    let connection = region.record().requests_to(&format!("/ojs/v1/jobs/{id}/events"))[0].connection;
    drop(wire);
    region.record().wait_for(|it| it.connections().iter().any(|it| it.number == connection && !it.open)).await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_for_too_long_is_cut_and_frees_the_region() {
    let federation = idle_timeout("1s").start().await;
    let region = &federation.regions[0];
    for version in ["1.0", "1.1"] {
        let mut wire = federation.client.wire().await;
        let target = format!("/ojs/v1/debug/stream?bytes={}&chunked=true&v={version}", 1_u64 << 40);
        wire.send(format!("GET {target} HTTP/{version}\r\nHost: localhost\r\n\r\n")).await;
        region.record().wait_for(|record| !record.requests_to(&target).is_empty()).await;
        let connection = region.record().requests_to(&target)[0].connection;
        region.record().wait_for(|it| it.connections().iter().any(|it| it.number == connection && !it.open)).await;
        let rest = wire.rest().await;
        assert!(rest.is_err(), "HTTP/{version} ended as if it were complete, after {} bytes", rest.unwrap().len());
    }
}

#[tokio::test]
async fn an_upload_that_pauses_for_too_long_is_its_clients_fault() {
    let federation = idle_timeout("1s").yaml("circuit_breaker: { failure_threshold: 1 }").start().await;
    for _ in 0..2 {
        let mut wire = begin(&federation, UPLOAD).await;
        send_chunk(&mut wire, "{").await;
        let answer = wire.answer().await;
        assert_eq!((answer.status.as_u16(), answer.reason()), (408, "request_timeout".to_owned()));
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(wire.is_closed().await);
    }
    assert_eq!(federation.breaker(0), "closed");
    assert!(federation.regions[0].record().requests_to(UPLOAD).iter().all(|upload| !upload.complete));
}

#[tokio::test]
async fn an_upload_that_is_abandoned_is_its_clients_fault() {
    let federation = Federation::start().await;
    for _ in 0..6 {
        let mut wire = begin(&federation, UPLOAD).await;
        send_chunk(&mut wire, "{").await;
    }
    let region = &federation.regions[0];
    let uploads = || region.record().requests_to(UPLOAD);
    eventually("the region has seen all uploads end", async || {
        let open = |number| region.record().connections().iter().any(|it| it.number == number && it.open);
        uploads().len() == 6 && !uploads().iter().any(|upload| open(upload.connection))
    })
    .await;
    assert!(uploads().iter().all(|upload| !upload.complete));
    assert_eq!(federation.breaker(0), "closed");
}

#[tokio::test]
async fn an_upload_that_moves_may_take_longer_than_it_may_pause() {
    let timeout = Duration::from_secs(2);
    let federation = idle_timeout("2s").start().await;
    let mut wire = begin(&federation, UPLOAD).await;
    let begun = Instant::now();
    while begun.elapsed() < timeout + timeout / 4 {
        send_chunk(&mut wire, "x").await;
        // Takes a while.
        federation.client.get("/ojs/v1/queues").await;
    }
    wire.send("0\r\n\r\n").await;
    assert_eq!(wire.answer().await.status, 404, "the region's word");
}

#[tokio::test]
async fn a_region_that_does_not_begin_to_answer_is_given_up() {
    let federation = idle_timeout("200ms").start().await;
    federation.regions[0].faults().add(When::path("/ojs/v1/webhooks"), Fault::HangAfterBody { store: false });
    federation.regions[0].faults().add(When::path("/ojs/v1/queues"), Fault::HangAfterBody { store: false });
    let answer = federation.client.get("/ojs/v1/webhooks/subscriptions").await;
    assert_eq!((answer.status.as_u16(), answer.reason()), (504, "upstream_timeout".to_owned()));
    // What may have happened must not be repeated by an SDK, which 504 would make it do.
    let answer = federation.client.send(Request::post("/ojs/v1/queues/q/unknown"), "{}").await;
    assert_eq!((answer.status.as_u16(), answer.reason()), (500, "outcome_unknown".to_owned()));
    assert_eq!(answer.json()["error"]["retryable"], false);
}

#[tokio::test]
async fn an_answer_whose_stream_a_region_resets_does_not_look_complete() {
    let federation = Setup::default().http2().start().await;
    let region = &federation.regions[0];
    let gate = Gate::new();
    let fault = Fault::CancelMidResponse { after_bytes: 5, gate: gate.clone() };
    region.faults().add(When::path("/ojs/v1/debug/stream"), fault);
    let mut socket = federation.client.connect().await;
    socket.write_all(b"GET /ojs/v1/debug/stream?bytes=9 HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while memchr::memmem::find(&answer, b"xxxxx").is_none() {
        assert_ne!(socket.read_buf(&mut answer).await.unwrap(), 0, "{}", String::from_utf8_lossy(&answer));
    }
    gate.open();
    // A reset or a close, without the chunk that would say that this was all.
    let _ = socket.read_to_end(&mut answer).await;
    assert!(!answer.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn an_answer_that_a_region_cuts_does_not_look_complete() {
    let federation = Federation::start().await;
    let region = &federation.regions[0];
    region.faults().add(When::path("/ojs/v1/queues"), Fault::CutMidResponse { after_bytes: 5 });
    let mut socket = federation.client.connect().await;
    socket.write_all(b"GET /ojs/v1/queues HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let read = socket.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert!(
        read.is_err() || text.contains("content-length"),
        "without a length only a reset tells that it was cut: {text}"
    );
}
