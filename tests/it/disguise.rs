//! Jobs in calls that are not known to create any: nothing that asks for another region gets to the local one unread.

use http::{Method, Request};

use crate::support::{Answer, Federation, Setup};

const CANARY: &str = "canary-4712";
const PINNED: &str =
    r#"{"type":"a.b","args":["canary-4712"],"options":{"metadata":{"ojs.federation.region":"eu-west-1"}}}"#;

/// Calls that no table knows as creating, and that some server could take for it.
const CALLS: [(&str, &str); 13] = [
    ("PUT", "/ojs/v1/jobs"),
    ("PATCH", "/ojs/v1/jobs/batch"),
    ("QUERY", "/ojs/v1/jobs"),
    ("post", "/ojs/v1/jobs"),
    ("GET", "/ojs/v1/jobs"),
    ("DELETE", "/ojs/v1/workflows/wf_1"),
    ("PUT", "/ojs/v1/jobs/0190"),
    ("PATCH", "/ojs/v1/jobs/0190"),
    ("POST", "/ojs/v1/jobs/0190/clone"),
    ("POST", "/ojs/v1/queues/q/jobs"),
    ("POST", "/ojs/v1/cron/nightly/trigger"),
    ("POST", "/ojs/v2/jobs"),
    ("POST", "/ojs/v1/brand/new"),
];

async fn call(federation: &Federation, (method, path): (&str, &str), headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    federation.client.send(request, body.to_owned()).await
}

const JSON: &[(&str, &str)] = &[("content-type", "application/openjobspec+json")];

#[tokio::test]
async fn a_job_for_another_region_is_refused_whatever_the_call() {
    let federation = Federation::start().await;
    for target in CALLS {
        for headers in [JSON, &[]] {
            let answer = call(&federation, target, headers, PINNED).await;
            let said = (answer.status.as_u16(), answer.reason());
            assert_eq!(said, (422, "routing_unsupported".to_owned()), "{target:?}");
        }
        let answer = call(&federation, target, JSON, &format!("\u{feff}{PINNED}")).await;
        assert_eq!(answer.status, 400, "{target:?}");
        for (encoding, status) in [("gzip", 400), ("br", 415)] {
            let coded = [JSON[0], ("content-encoding", encoding)];
            let answer = call(&federation, target, &coded, PINNED).await;
            assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (status, "content_encoding"), "{target:?}");
        }
    }
    assert_eq!(federation.seen(CANARY), [0; 0]);
}

#[tokio::test]
async fn what_asks_for_no_other_region_passes_byte_for_byte() {
    let federation = Federation::start().await;
    let here = PINNED.replace("eu-west-1", "us-east-1");
    let odd = r#" {"Meta" : [], "type":{"x":1E400}, "note":"canary-4712"} "#;
    for target in CALLS {
        for body in [here.as_str(), odd] {
            call(&federation, target, JSON, body).await;
            let record = federation.regions[0].record();
            let received = record.requests_to(target.1).pop().unwrap_or_else(|| panic!("{target:?} {body}"));
            assert_eq!((received.method.as_str(), &received.body[..]), (target.0, body.as_bytes()), "{target:?}");
            assert_eq!(received.headers["content-length"], body.len().to_string());
            record.clear();
        }
    }
    assert_eq!(federation.seen(CANARY), [0; 0]);
}

#[tokio::test]
async fn data_passes_unread_however_much_it_looks_like_a_job() {
    let federation = Setup::default().yaml("limits: { body_bytes: 1KiB }").start().await;
    let long = PINNED.replace(CANARY, &CANARY.repeat(1_000));
    for (target, headers) in [
        (("POST", "/ojs/v1/webhooks/data"), JSON),
        (("PUT", "/ojs/v1/jobs/0190/checkpoint"), JSON),
        (("POST", "/ojs/v1/webhooks/subscriptions"), JSON),
    ] {
        call(&federation, target, headers, &long).await;
        let received = federation.regions[0].record().requests_to(target.1);
        assert_eq!(received.last().map(|it| it.body.len()), Some(long.len()), "{target:?}");
    }
    for headers in [JSON, PLAIN] {
        let answer = call(&federation, ("POST", "/ojs/v1/brand/new"), headers, &long).await;
        assert_eq!(answer.status, 413);
    }
    for begin in ["job=", "<job>", "\u{e9}"] {
        let body = format!("{begin}{long}");
        call(&federation, ("POST", "/ojs/v1/brand/new"), PLAIN, &body).await;
        let received = federation.regions[0].record().requests_to("/ojs/v1/brand/new");
        assert_eq!(received.last().map(|it| it.body.len()), Some(body.len()), "{begin}");
    }
}

const PLAIN: &[(&str, &str)] = &[("content-type", "text/plain")];

#[tokio::test]
async fn a_job_is_known_by_its_first_character_whatever_its_type_says() {
    let federation = Federation::start().await;
    for path in [
        "/ojs/v2/jobs",
        "/ojs/v1/enqueue",
        "/ojs/jobs",
        "/ojs/v1/jobs.json",
        "/ojs/v1/jobs%00",
        "/ojs/v1/jobs%20",
        "/ojs/v1/jobs%3f",
        "/ojs/v1/jobs%23",
    ] {
        for space in ["", " \r\n\t"] {
            let answer = call(&federation, ("POST", path), PLAIN, &format!("{space}{PINNED}")).await;
            assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (422, "routing_unsupported"), "{path}");
        }
        let list = format!("[{PINNED}]");
        assert_eq!(call(&federation, ("POST", path), PLAIN, &list).await.status, 422, "{path}");
        let zipped = [PLAIN[0], ("content-encoding", "br")];
        assert_eq!(call(&federation, ("POST", path), &zipped, PINNED).await.reason(), "content_encoding");
        // In pieces, of which the first shows nothing.
        let mut wire = federation.client.wire().await;
        let head = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked";
        wire.send(format!("POST {path} {head}\r\n\r\n1\r\n \r\n")).await;
        wire.send(format!("{:x}\r\n{PINNED}\r\n0\r\n\r\n", PINNED.len())).await;
        assert_eq!(wire.answer().await.status, 422, "{path}");
    }
    assert_eq!(federation.seen(CANARY), [0; 0]);
}

#[tokio::test]
async fn a_path_with_escapes_that_only_some_servers_undo_is_refused() {
    let federation = Federation::start().await;
    for path in [
        "/ojs/v1/webhooks/%c0%ae%c0%ae/jobs",
        "/ojs/v1/webhooks/..%c0%afjobs",
        "/ojs/v1/webhooks/%uff0e%uff0e/jobs",
        "/ojs/v1/webhooks/%25c0%25ae/jobs",
    ] {
        for headers in [JSON, PLAIN] {
            let answer = call(&federation, ("POST", path), headers, PINNED).await;
            assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (400, "ambiguous_path"), "{path}");
        }
    }
    assert_eq!(federation.seen(CANARY), [0; 0]);
    let accented = "/ojs/v1/webhooks/%c3%a9%20%E2%82%AC";
    call(&federation, ("POST", accented), JSON, "{}").await;
    assert_eq!(federation.regions[0].record().requests_to(accented).len(), 1);
}

#[tokio::test]
async fn a_request_for_an_echo_is_405_and_reaches_no_region() {
    let federation = Federation::start().await;
    for method in ["TRACE", "TRACK", "trace"] {
        for path in ["/ojs/v1/anything", "/ojs/v1/jobs", "/v1/federation/health", "/elsewhere"] {
            let answer = call(&federation, (method, path), &[], "").await;
            answer.check_error(405, "invalid_request", "method_not_allowed");
            assert!(answer.header("allow").is_some_and(|allow| !allow.contains("TRAC")), "{answer:?}");
        }
    }
    let calls = federation.regions[0].record().requests();
    assert!(calls.iter().all(|call| call.method == Method::GET), "{calls:?}");
}

#[tokio::test]
async fn headers_that_restate_method_or_path_are_refused() {
    let federation = Federation::start().await;
    for (name, value) in [
        ("X-HTTP-Method-Override", "POST"),
        ("x-method-override", "DELETE"),
        ("X-HTTP-Method", "POST"),
        ("X_HTTP_Method_Override", "POST"),
        ("X-Original-URL", "/ojs/v1/jobs"),
        ("X-Rewrite-URL", "/ojs/v1/jobs"),
    ] {
        for target in [("POST", "/ojs/v1/workers/ack"), ("GET", "/ojs/v1/jobs"), ("POST", "/ojs/v1/jobs")] {
            let answer = call(&federation, target, &[JSON[0], (name, value)], PINNED).await;
            let said = (answer.status.as_u16(), answer.reason());
            assert_eq!(said, (400, "restated_request".to_owned()), "{name} {target:?}");
        }
    }
    assert_eq!(federation.seen(CANARY), [0; 0]);
}

#[tokio::test]
async fn an_upgrade_offer_does_not_smuggle_a_job_past_the_reading() {
    let federation = Federation::start().await;
    let offer = [
        JSON[0],
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for target in CALLS.into_iter().chain([("GET", "/ojs/v1/events/stream?channel=queue:a")]) {
        let answer = call(&federation, target, &offer, PINNED).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (422, "routing_unsupported"), "{target:?}");
    }
    let answer = call(&federation, ("GET", "/canary-4712"), &offer, "").await;
    assert_eq!(answer.status, 404, "an upgrade opens no path that is closed without it");
    assert_eq!(federation.seen(CANARY), [0; 0]);
    call(&federation, ("POST", "/ojs/v1/jobs/batch"), &offer, PINNED).await;
    assert_eq!(federation.seen(CANARY), [1], "a batch with an offer is a batch");
}

#[tokio::test]
async fn a_pin_that_stands_where_it_would_be_lost_is_an_error_live_and_in_the_dry_run() {
    let federation = Federation::start().await;
    let pin = r#"{"ojs.federation.region":"eu-west-1","note":"canary-4712"}"#;
    for body in [
        r#"{"type":"a.b","args":[],"options":{"meta":@}}"#,
        r#"{"type":"a.b","args":[],"metadata":@}"#,
        r#"{"type":"a.b","args":[],"callbacks":{"on_success":{"type":"b","args":[],"meta":@}}}"#,
        r#"{"jobs":[{"type":"a.b","args":[],"meta":@}]}"#,
    ] {
        let body = body.replace('@', pin);
        for path in ["/ojs/v1/jobs", "/v1/federation/route"] {
            let answer = call(&federation, ("POST", path), JSON, &body).await;
            let said = (answer.status.as_u16(), answer.reason());
            assert_eq!(said, (400, "invalid_federation_meta".to_owned()), "{path} {body}");
        }
    }
    assert_eq!(federation.seen(CANARY), [0; 0]);
    let data = r#"{"type":"a.b","args":[{"meta":@}],"meta":{"parent":@}}"#.replace('@', pin);
    assert_eq!(call(&federation, ("POST", "/ojs/v1/jobs"), JSON, &data).await.status, 201);
}
