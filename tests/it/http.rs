//! HTTP/1.1 as clients speak it, kept-alive, pipelined, upgraded or abandoned, and what becomes of it at a region.

use futures_util::future::join_all;
use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, Gate, When};

use crate::support::{Federation, Setup};

fn post(target: &str, headers: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn job(name: &str) -> String {
    format!(r#"{{"type":"t","args":["{name}"]}}"#)
}

/// One worker thread, so that there is one pool a region.
fn one_thread() -> Setup {
    Setup::default().yaml("limits: { worker_threads: 1 }")
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    for turn in 0..5 {
        wire.send(post("/ojs/v1/jobs", "", &job(&format!("turn-{turn}")))).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (StatusCode::CREATED, None));
        wire.send(get(&format!("/ojs/v1/jobs/{}", answer.job_id()))).await;
        assert_eq!(wire.answer().await.job_id(), answer.job_id());
        wire.send(get("/v1/federation/health")).await;
        assert_eq!(wire.answer().await.status, 200);
        wire.send(post("/ojs/v1/jobs", "", "{")).await;
        assert_eq!(wire.answer().await.status, 400, "and a refusal ends no connection");
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_their_order() {
    let federation = Federation::start().await;
    let gate = Gate::new();
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let mut wire = federation.client.wire().await;
    let chunked = format!("{:x}\r\n{}\r\n0\r\n\r\n", job("second").len(), job("second"));
    let requests = [
        post("/ojs/v1/jobs", "", &job("first")),
        format!("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunked}"),
        get("/ojs/v1/health"),
        get("/ojs/v1/nothing"),
        post("/ojs/v1/jobs", "", &job("fifth")),
    ];
    wire.send(requests.concat()).await;
    federation.regions[0].record().wait_for(|record| record.contains(b"first")).await;
    assert!(!federation.regions[0].record().contains(b"second"), "the second waits for the first");
    gate.open();
    assert_eq!(wire.answer().await.json()["job"]["args"][0], "first");
    assert_eq!(wire.answer().await.json()["job"]["args"][0], "second");
    assert_eq!(wire.answer().await.json()["status"], "ok");
    assert_eq!(wire.answer().await.status, 404);
    assert_eq!(wire.answer().await.json()["job"]["args"][0], "fifth");
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_send_its_body() {
    let federation = Federation::start().await;
    for target in ["/ojs/v1/jobs", "/ojs/v1/debug/echo"] {
        let mut wire = federation.client.wire().await;
        let request = post(target, "Expect: 100-continue\r\n", &job("asked"));
        let (head, body) = request.split_at(request.find("\r\n\r\n").unwrap() + 4);
        wire.send(head).await;
        assert_eq!(wire.head().await.0, StatusCode::CONTINUE, "{target}");
        wire.send(body).await;
        assert!(wire.answer().await.status.is_success(), "{target}");
        wire.send(get("/ojs/v1/health")).await;
        assert_eq!(wire.answer().await.status, 200);
    }
    assert!(!federation.regions[0].record().contains(b"100-continue"), "it is answered here");
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_refused_before_it_is_sent() {
    let federation = Setup::default().yaml("limits: { body_bytes: 64KiB }").start().await;
    let head = "POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 65537\r\n\r\n";
    let mut wire = federation.client.wire().await;
    wire.send(head).await;
    let answer = wire.answer().await;
    assert_eq!(answer.status, 413, "and not 100");
    assert_eq!(answer.reason(), "body_too_large");
    assert_eq!(answer.header("connection"), Some("close"), "the body may come all the same");
    assert!(wire.is_closed().await);
    // Nor does one that never says how long it is get any further.
    let mut wire = federation.client.wire().await;
    wire.send("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    wire.send(format!("20000\r\n{}\r\n0\r\n\r\n", "c".repeat(0x20000))).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (StatusCode::PAYLOAD_TOO_LARGE, Some("close")));
    assert_eq!(federation.seen("ccccc"), [0; 0]);
}

#[tokio::test]
async fn offers_of_h2c_are_ignored_and_the_connection_is_kept() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    // What Java's HttpClient sends with its first request, whatever the method.
    let offer = "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAABgAGAAA\r\n\
                 Upgrade: h2c\r\n";
    for turn in 0..3 {
        wire.send(post("/ojs/v1/jobs", offer, &job(&format!("java-{turn}")))).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (StatusCode::CREATED, None));
        wire.send(format!("GET /ojs/v1/queues HTTP/1.1\r\nHost: localhost\r\n{offer}\r\n")).await;
        assert_eq!(wire.answer().await.status, 200);
    }
    for request in federation.regions[0].record().requests() {
        for name in ["upgrade", "http2-settings", "connection"] {
            assert!(!request.headers.contains_key(name), "{request:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_to_head_has_no_body_and_the_connection_is_kept() {
    let federation = Federation::start().await;
    let answer = FaultAnswer::balancer(StatusCode::OK);
    federation.regions[0].faults().add(When::always().method(Method::HEAD), Fault::Answer { answer, store: false });
    let mut wire = federation.client.wire().await;
    for target in ["/ojs/v1/queues", "/nothing", "/v1/federation/regions"] {
        wire.send(format!("HEAD {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        wire.answer_to("HEAD").await;
        wire.send(get("/ojs/v1/health")).await;
        assert_eq!(wire.answer().await.json()["status"], "ok", "{target}");
    }
}

#[tokio::test]
async fn http_1_0_is_answered_without_chunks_and_closed() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    wire.send(format!("POST /ojs/v1/jobs HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", job("old").len(), job("old")))
        .await;
    assert_eq!(wire.answer().await.status, 201);
    assert!(wire.is_closed().await);
    let mut wire = federation.client.wire().await;
    wire.send("GET /ojs/v1/debug/stream?bytes=50000&chunked=true HTTP/1.0\r\n\r\n").await;
    let answer = wire.answer().await;
    assert_eq!((answer.header("transfer-encoding"), answer.body.len()), (None, 50_000));
    let versions = federation.regions[0].record().raw_bytes();
    assert!(versions.iter().all(|raw| memchr::memmem::find(raw, b"HTTP/1.0").is_none()), "the hop has its own version");
}

#[tokio::test]
async fn a_client_that_asks_for_a_close_gets_it() {
    let federation = Federation::start().await;
    for target in ["/ojs/v1/queues", "/ojs/v1/health", "/nothing"] {
        let mut wire = federation.client.wire().await;
        wire.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")).await;
        assert_eq!(wire.answer().await.header("connection"), Some("close"), "{target}");
        assert!(wire.is_closed().await, "{target}");
    }
}

#[tokio::test]
async fn an_enqueue_on_the_wire_is_finished_when_its_client_vanishes() {
    let federation = one_thread().start().await;
    let region = &federation.regions[0];
    let gate = Gate::new();
    region.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let mut wire = federation.client.wire().await;
    wire.send(post("/ojs/v1/jobs", "", &job("orphan"))).await;
    region.record().wait_for(|record| record.requests_to("/ojs/v1/jobs").iter().any(|it| it.complete)).await;
    drop(wire);
    // Another call goes through while the first is abandoned: it has to have a connection of its own.
    assert_eq!(federation.client.enqueue(job("meanwhile")).await.status, 201);
    gate.open();
    region.wait_for_jobs(|jobs| jobs.len() == 2).await;
    let used = region.record().requests_to("/ojs/v1/jobs");
    assert_ne!(used[0].connection, used[1].connection);
    // Every round has one call more at once than there are other connections: as soon as the abandoned call's answer was
    // read, its connection is needed.
    let mut crowd = 1;
    crate::support::eventually("the abandoned call's connection is used again", async || {
        crowd += 1;
        queues_at_once(&federation, crowd).await.contains(&used[0].connection)
    })
    .await;
}

/// The connections of the region over which that many calls, all of them under way together, have gone.
async fn queues_at_once(federation: &Federation, calls: usize) -> Vec<u64> {
    const PATH: &str = "/ojs/v1/queues";
    let region = &federation.regions[0];
    let gate = Gate::new();
    let before = region.record().requests_to(PATH).len();
    region.faults().add(When::path(PATH).next(calls as u64), Fault::Hold { gate: gate.clone() });
    let answers = join_all((0..calls).map(|_| federation.client.get(PATH)));
    let all_there = async {
        region.record().wait_for(|record| record.requests_to(PATH).len() == before + calls).await;
        gate.open();
    };
    let (answers, ()) = tokio::join!(answers, all_there);
    assert!(answers.iter().all(|answer| answer.status == 200));
    region.record().requests_to(PATH)[before..].iter().map(|it| it.connection).collect()
}

#[tokio::test]
async fn a_vanished_client_ends_its_read_at_the_region() {
    for setup in [one_thread(), one_thread().http2()] {
        let federation = setup.start().await;
        let region = &federation.regions[0];
        region.faults().add(When::path("/ojs/v1/queues").method(Method::GET), Fault::HangBeforeBody);
        let mut wire = federation.client.wire().await;
        wire.send(get("/ojs/v1/queues")).await;
        region.record().wait_for(|record| !record.requests_to("/ojs/v1/queues").is_empty()).await;
        let connection = region.record().requests_to("/ojs/v1/queues")[0].connection;
        let find =
            |record: &ojs_testbed::Record| record.connections().into_iter().find(|it| it.number == connection).unwrap();
        let protocol = find(region.record()).protocol;
        drop(wire);
        if protocol == "http/1.1" {
            region.record().wait_for(|record| !find(record).open).await;
        } else {
            // The stream is reset and the connection carries on.
            assert_eq!(federation.client.get("/ojs/v1/nothing").await.status, 404);
        }
        crate::support::eventually("nothing is in flight", async || {
            let metrics = federation.admin.get("/metrics").await.body;
            String::from_utf8(metrics.to_vec()).unwrap().lines().any(|line| {
                line.starts_with("ojs_federation_in_flight") && line.contains("us-east-1") && line.ends_with(" 0")
            })
        })
        .await;
        assert_eq!(federation.breaker(0), "closed");
    }
}

#[tokio::test]
async fn a_client_that_only_closed_its_sending_side_is_answered() {
    let federation = Federation::start().await;
    for request in [post("/ojs/v1/jobs", "", &job("half")), get("/ojs/v1/queues"), get("/ojs/v1/health")] {
        let answer = String::from_utf8(federation.client.raw(request.as_bytes()).await).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{request:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_target_with_a_host_is_served_if_that_host_is_ours() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    let (port, job) = (federation.address().port(), job("absolute"));
    let send = |target: &str, host: &str| {
        format!("POST {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{job}", job.len())
    };
    for (target, host, status) in [
        (format!("http://localhost:{port}/ojs/v1/jobs"), "localhost", 201),
        ("HTTP://127.0.0.1/ojs/v1/jobs".to_owned(), "evil.example", 201),
        ("http://[::1]:80/ojs/v1/jobs?x=1".to_owned(), "localhost", 201),
        ("http://evil.example/ojs/v1/jobs".to_owned(), "localhost", 421),
        ("http://localhost.evil.example/ojs/v1/jobs".to_owned(), "localhost", 421),
        ("http://localhost".to_owned(), "localhost", 404),
    ] {
        wire.send(send(&target, host)).await;
        assert_eq!(wire.answer().await.status, status, "{target}");
    }
    let seen: Vec<_> =
        federation.regions[0].record().requests_to("/ojs/v1/jobs").into_iter().map(|it| it.path).collect();
    assert_eq!(seen, ["/ojs/v1/jobs", "/ojs/v1/jobs", "/ojs/v1/jobs?x=1"]);
}

#[tokio::test]
async fn trailers_are_dropped_and_the_connection_goes_on() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    for (path, status) in [("/ojs/v1/jobs", 201), ("/ojs/v1/webhooks/subscriptions", 404), ("/ojs/v1/jobs", 201)] {
        let job = job("with-trailers");
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n");
        let trailers = "X-Sum: canary-trailer\r\nX-Empty:\r\n";
        wire.send(format!("{head}\r\n{:x}\r\n{job}\r\n0\r\n{trailers}\r\n", job.len())).await;
        let answer = wire.answer().await;
        assert_eq!((answer.status.as_u16(), answer.header("connection")), (status, None), "{path}");
        let received = federation.regions[0].record().requests_to(path).pop().unwrap();
        assert!(received.complete && !received.headers.contains_key("trailer"), "{received:?}");
        assert!(String::from_utf8_lossy(&received.body).contains("with-trailers"), "{received:?}");
    }
    assert_eq!(federation.seen("canary-trailer"), [0; 0]);
}

#[tokio::test]
async fn the_chunks_of_a_read_are_read_as_those_of_any_call() {
    let federation = Federation::start().await;
    let path = "/ojs/v1/webhooks/x";
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut wire = federation.client.wire().await;
    wire.send(format!("{head}5\r\nhello\r\n0\r\n\r\n")).await;
    assert_eq!(wire.answer().await.status, 404);
    let received = federation.regions[0].record().requests_to(path).pop().unwrap();
    assert_eq!((&received.body[..], received.complete), (&b"hello"[..], true), "{received:?}");
    wire.send(format!("{head}5\r\nhello0\r\n\r\n")).await;
    assert_eq!(wire.answer().await.status, 400);
    assert!(wire.is_closed().await);
    let calls = federation.regions[0].record().requests_to(path);
    assert!(calls[1..].iter().all(|call| !call.complete), "{calls:?}");
}

#[tokio::test]
async fn a_line_that_can_become_none_is_refused_before_it_ends() {
    let federation = Federation::start().await;
    for bytes in [
        &b"PO\xb4ST "[..],
        b"GET /ojs/v1/health HTTP/1.1 ",
        b"GET /ojs/v1/health HTTP/1.1\r\nX: a\rb",
        b"GET /ojs/v1/health HTTP/1.1\r\nX ",
        b"GET /ojs/v1/health HTTP/1.1\r\nX: a\0",
    ] {
        let mut wire = federation.client.wire().await;
        wire.send(bytes).await;
        assert_eq!(wire.answer().await.status, 400, "{}", bytes.escape_ascii());
        assert!(wire.is_closed().await);
    }
}
