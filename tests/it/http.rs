//! HTTP/1.1 as clients speak it, kept-alive, pipelined, upgraded or abandoned, and what of it arrives at a region.

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use ojs_sidecar::demo::{Fault, FaultAnswer, Gate, When};

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
async fn what_belongs_to_a_connection_stays_on_it_and_everything_else_travels() {
    for http2 in [false, true] {
        let federation = if http2 { Setup::default().http2() } else { Setup::default() }.start().await;
        let answer = FaultAnswer::error_document(StatusCode::CONFLICT, "conflict")
            .header("connection", "x-back-a")
            .header("connection", "X-Back-B")
            .header("x-back-a", "1")
            .header("x-back-b", "2")
            .header("keep-alive", "timeout=9")
            .header("proxy-authenticate", "Basic")
            .header("x-back-c", "3")
            .header("set-cookie", "a=1")
            .header("set-cookie", "b=2");
        let fault = Fault::Answer { answer, store: false };
        federation.regions[0].faults().add(When::always().method(Method::POST), fault);
        let headers = "Connection: keep-alive, x-forth-a\r\nConnection: X-Forth-B\r\nX-Forth-A: 1\r\nX-Forth-B: 2\r\n\
                       Keep-Alive: timeout=5\r\nTE: trailers\r\nTrailer: X-Sum\r\nProxy-Authorization: Basic eA==\r\n\
                       Proxy-Connection: keep-alive\r\nX-Forth-C: 3\r\nX-Forth-C: 4\r\n";
        for (target, body) in [("/ojs/v1/jobs", job("hop")), ("/ojs/v1/workers/ack", "{}".to_owned())] {
            let mut wire = federation.client.wire().await;
            wire.send(post(target, headers, &body)).await;
            let answer = wire.answer().await;
            assert_eq!(answer.status, 409, "{target}");
            let mut gone = vec!["connection", "keep-alive", "x-back-a", "proxy-authenticate"];
            // HTTP/2 has no `Connection` header, and the demo region's library forgets what a second one named.
            gone.extend((!http2).then_some("x-back-b"));
            assert!(gone.iter().all(|name| answer.header(name).is_none()), "{target}: {answer:?}");
            assert_eq!(answer.header("x-back-c"), Some("3"));
            assert_eq!(answer.headers.get_all("set-cookie").iter().count(), 2);
            let requests = federation.regions[0].record().requests_to(target);
            let arrived = &requests[0].headers;
            let kept =
                ["keep-alive", "te", "trailer", "proxy-authorization", "proxy-connection", "x-forth-a", "x-forth-b"];
            assert!(kept.iter().all(|name| !arrived.contains_key(*name)), "{target}: {arrived:?}");
            assert_eq!(arrived.get_all("x-forth-c").iter().collect::<Vec<_>>(), ["3", "4"]);
        }
    }
}

#[tokio::test]
async fn headers_pass_unchanged_but_for_the_host_and_the_request_id() {
    let federation = Federation::start().await;
    let passed = [
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "a=1,b=2"),
        ("baggage", "k=v"),
        ("x-ojs-tenant", "acme"),
        ("x-tenant-id", "  spaced "),
        ("authorization", "Bearer token"),
        ("ojs-version", "1.0"),
        ("accept", "application/openjobspec+json"),
        ("user-agent", "ojs-test/1"),
        ("idempotency-key", "k-1"),
        ("x-latin", "caf\u{e9}"),
        ("x-empty", ""),
    ];
    let mut headers: String = passed.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    headers.push_str("Content-Type: application/json\r\nX-Request-Id: from-the-client\r\n");
    for (target, body) in [("/ojs/v1/jobs", job("headers")), ("/ojs/v1/debug/echo", "echo".to_owned())] {
        let mut wire = federation.client.wire().await;
        wire.send(post(target, &headers, &body)).await;
        let answer = wire.answer().await;
        assert_eq!(answer.header("x-request-id"), Some("from-the-client"), "{target}");
        let request = &federation.regions[0].record().requests_to(target)[0];
        for (name, value) in passed {
            let arrived = request.headers.get(name).map(|value| Bytes::copy_from_slice(value.as_bytes()));
            assert_eq!(arrived.as_deref(), Some(value.trim().as_bytes()), "{target} {name}");
        }
        assert_eq!(request.headers["x-request-id"], "from-the-client");
        let authority = format!("localhost:{}", federation.regions[0].address().port());
        assert_eq!(request.headers["host"], *authority);
        for name in ["forwarded", "via", "x-forwarded-for"] {
            assert!(!request.headers.contains_key(name), "{target} {name} was added");
        }
    }
}

#[tokio::test]
async fn paths_and_queries_travel_byte_for_byte() {
    for setup in [Setup::default(), Setup::default().http2()] {
        let federation = setup.start().await;
        let targets = [
            "/ojs/v1/jobs/a%2Fb%2fc",
            "/ojs/v1/jobs/%E2%82%AC?x=%20+%2B&&y=&=z?/",
            "/ojs/v1/unknown/~user;v=1,2/@me:x/$&'()*!",
            "/ojs/v1//doubled/../dots/./end/",
            "/ojs/v1/queues/{curly}|[square]^caret",
            "/ojs/v1/unknown?",
            "/ojs/v1/unknown?a[]=1&b={\"c\"}",
            "/ojs/v1/%00%0d%0a?%",
        ];
        let mut wire = federation.client.wire().await;
        for target in targets.map(|target| target.replace('"', "%22")) {
            wire.send(get(&target)).await;
            wire.answer().await;
            let last = federation.regions[0].record().requests().into_iter().rfind(|it| it.path.contains("/ojs/v1/"));
            assert_eq!(last.map(|request| request.path), Some(target));
        }
    }
}

#[tokio::test]
async fn unknown_paths_are_the_local_regions_to_refuse_and_those_outside_ojs_are_ours() {
    let federation = Federation::start().await;
    let answer = federation.client.get("/ojs/v1/nothing/here").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (StatusCode::NOT_FOUND, Some("text/plain; charset=utf-8"))
    );
    assert_eq!(&answer.body[..], b"404 page not found\n");
    assert_eq!(answer.header("ojs-federation-region"), Some("us-east-1"));
    let answer = federation.client.call(Method::DELETE, "/ojs/v1/queues", "").await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::METHOD_NOT_ALLOWED, 0));
    assert_eq!(answer.header("ojs-federation-region"), Some("us-east-1"));
    for path in ["/", "/nothing", "/ojs", "/ojsx/v1/jobs", "/metrics"] {
        let answer = federation.client.get(path).await;
        assert_eq!((answer.status, answer.reason()), (StatusCode::NOT_FOUND, "no_such_path".to_owned()), "{path}");
        assert_eq!(answer.header("ojs-federation-region"), Some("none"));
    }
    assert!(!federation.regions[0].record().contains(b"/ojsx"));
    let answer = federation.client.call(Method::PUT, "/v1/federation/route", "").await;
    assert_eq!((answer.status, answer.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, Some("POST")));
}

#[tokio::test]
async fn every_answer_has_a_request_id_the_version_and_the_region() {
    let federation = Federation::start().await;
    for path in ["/nothing", "/ojs/v1/health", "/ojs/v1/queues", "/ojs/v1/nothing", "/v1/federation/regions"] {
        let answer = federation.client.get(path).await;
        assert!(answer.header("x-request-id").is_some_and(|id| id.starts_with("req_")), "{path}");
        assert_eq!(answer.header("ojs-version"), Some("1.0"), "{path}");
        assert!(answer.header("ojs-federation-region").is_some(), "{path}");
        // An id that could not stand in a log line is replaced.
        for id in ["x".repeat(129), "a b".to_owned()] {
            let answer = federation.client.send(Request::get(path).header("x-request-id", &id), "").await;
            assert_ne!(answer.header("x-request-id"), Some(&*id), "{path}");
        }
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
    // The most recently used connection comes first, which is the abandoned call's once its answer was read.
    crate::support::eventually("the abandoned call's connection is used again", async || {
        let queues = region.record().requests_to("/ojs/v1/queues").len();
        assert_eq!(federation.client.get("/ojs/v1/queues").await.status, 200);
        region.record().requests_to("/ojs/v1/queues")[queues].connection == used[0].connection
    })
    .await;
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
        let find = |record: &ojs_sidecar::demo::Record| {
            record.connections().into_iter().find(|it| it.number == connection).unwrap()
        };
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
