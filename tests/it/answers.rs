//! What every answer carries: federation headers, request ids, versions, media types.

use http::{Method, Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::json;

use crate::support::{Answer, Client, Federation, Setup};

const JOB: &str = r#"{"type":"t","args":[]}"#;
const OJS: &str = "application/openjobspec+json";

/// An answer's federation headers: region, strategy, attempts, and whether it names a tracking id.
fn federation_headers(answer: &Answer) -> (&str, Option<&str>, Option<&str>, bool) {
    let header = |name: &str| answer.header(&format!("ojs-federation-{name}"));
    (answer.region(), header("strategy"), header("attempts"), header("id").is_some())
}

fn pinned(region: &str) -> String {
    format!(r#"{{"type":"t","args":[],"meta":{{"ojs.federation.region":"{region}"}}}}"#)
}

#[tokio::test]
async fn enqueues_name_region_strategy_attempts_and_id_and_other_calls_their_region() {
    let federation = Setup::default().yaml("limits: { call_timeout: 5s }").start().await;
    let client = federation.client;
    let check = |answer: &Answer, status: u16, expected| {
        assert_eq!((answer.status.as_u16(), federation_headers(answer)), (status, expected), "{answer:?}");
    };
    check(&client.enqueue(JOB).await, 201, ("us-east-1", Some("affinity"), Some("1"), true));
    check(&client.enqueue(pinned("ap-south-1")).await, 201, ("ap-south-1", Some("geo-pin"), Some("1"), true));
    check(&client.enqueue(pinned("mars-1")).await, 400, ("none", None, Some("0"), false));
    check(&client.enqueue("{").await, 400, ("none", None, Some("0"), false));
    // A region's own refusal is passed on with its author's name.
    check(&client.enqueue(r#"{"args":[]}"#).await, 400, ("us-east-1", Some("affinity"), Some("1"), true));
    check(&client.get("/ojs/v1/webhooks/subscriptions").await, 404, ("us-east-1", None, None, false));
    check(&client.get("/ojs/v1/queues").await, 200, ("us-east-1, eu-west-1, ap-south-1", None, None, false));
    check(&client.get("/ojs/v1/jobs/nope").await, 404, ("us-east-1", None, None, false));
    check(&client.get("/ojs/manifest").await, 200, ("us-east-1", None, None, false));
    check(
        &client.post("/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{JOB}]}}"#)).await,
        201,
        ("us-east-1", Some("affinity"), Some("1"), false),
    );
    check(&client.get("/ojs/v1/health").await, 200, ("none", None, None, false));
    check(&client.get("/v1/federation/health").await, 200, ("none", None, None, false));
    check(&client.get("/elsewhere").await, 404, ("none", None, None, false));
    // A failover: the first redirect is free, and the region that stored the job is the one that is named.
    federation.regions[0].stop().await;
    let answer = client.enqueue(JOB).await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-attempts")), (201, Some("2")));
    assert_ne!(answer.region(), "us-east-1");
}

#[tokio::test]
async fn an_unknown_outcome_names_region_job_and_attempts() {
    let federation = Federation::start().await;
    let cut = Fault::CutAfterRequest { store: true };
    federation.regions[0].faults().add(When::path("/ojs/v1/jobs").method(Method::POST), cut);
    federation.mute(0);
    let answer = federation.client.enqueue(JOB).await;
    let error = answer.check_error(500, "backend_error", "outcome_unknown");
    assert_eq!(error["details"]["region"], "us-east-1");
    let jobs = federation.regions[0].jobs();
    assert_eq!(error["details"]["job_id"].as_str(), Some(jobs[0].id.as_str()));
    assert_eq!(federation_headers(&answer), ("us-east-1", Some("affinity"), Some("1"), true));
    assert_eq!([federation.enqueues(0), federation.enqueues(1), federation.enqueues(2)], [1, 0, 0]);
}

#[tokio::test]
async fn a_retry_that_asks_for_another_region_than_its_job_is_in_is_unsupported() {
    let federation = Federation::start().await;
    let answer = federation.client.post("/ojs/v1/dead-letter/some/retry", pinned("eu-west-1")).await;
    let error = answer.check_error(422, "unsupported", "routing_unsupported");
    assert_eq!(error["details"]["region"], "us-east-1");
    assert!(federation.seen("eu-west-1\"").is_empty());
}

#[tokio::test]
async fn a_request_id_is_echoed_and_an_oversized_or_ugly_one_replaced() {
    let federation = Federation::start().await;
    let ask = async |path: &str, id: Option<&[u8]>| {
        let request = if path == "/ojs/v1/jobs" { Request::post(path) } else { Request::get(path) };
        let request = id.into_iter().fold(request, |request, id| request.header("x-request-id", id));
        federation.client.send(request, if path == "/ojs/v1/jobs" { "{" } else { "" }).await
    };
    let longest = [b'x'; 128];
    for path in ["/ojs/v1/jobs", "/ojs/v1/queues", "/v1/federation/health", "/ojs/v1/health", "/nowhere"] {
        for id in [&b"req-1"[..], b"a", b"{\"x\":1}", &longest] {
            assert_eq!(ask(path, Some(id)).await.header("x-request-id").map(str::as_bytes), Some(id), "{path}");
        }
        for id in [None, Some(&b""[..]), Some(b"a b"), Some(b"caf\xc3\xa9"), Some(b"a\tb"), Some(&[b'x'; 129])] {
            let answer = ask(path, id).await;
            let minted = answer.header("x-request-id").unwrap();
            assert_eq!((minted.len(), minted.get(..4)), (40, Some("req_")), "{path} {id:?}");
        }
    }
    let document = ask("/ojs/v1/jobs", Some(b"\"quoted\\")).await;
    document.check_error(400, "invalid_payload", "malformed_json");
    assert_eq!(document.json()["error"]["request_id"], "\"quoted\\");
}

#[tokio::test]
async fn the_region_hears_the_request_id_that_the_client_is_told() {
    let federation = Federation::start().await;
    let answers = [federation.client.enqueue(JOB).await, federation.client.get("/ojs/v1/queues").await];
    for (answer, path) in answers.iter().zip(["/ojs/v1/jobs", "/ojs/v1/queues"]) {
        let heard = federation.regions[0].record().requests_to(path).pop().unwrap();
        assert_eq!(heard.headers["x-request-id"], answer.header("x-request-id").unwrap());
    }
}

/// The media types of one answer of each kind.
async fn media_types(client: Client, agent: &str) -> Vec<String> {
    let ask = async |method: Method, path: &str, body: String| {
        let request = Request::builder().method(method).uri(path).header("user-agent", agent);
        let answer = client.send(request.header("content-type", "application/json"), body).await;
        answer.header("content-type").unwrap().to_owned()
    };
    vec![
        ask(Method::POST, "/ojs/v1/jobs", JOB.to_owned()).await,
        ask(Method::POST, "/ojs/v1/jobs", "{".to_owned()).await,
        ask(Method::POST, "/ojs/v1/jobs", r#"{"args":[]}"#.to_owned()).await,
        ask(Method::POST, "/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{JOB}]}}"#)).await,
        ask(Method::POST, "/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#.to_owned()).await,
        ask(Method::GET, "/ojs/v1/queues", String::new()).await,
        ask(Method::GET, "/ojs/v1/jobs/nope", String::new()).await,
        ask(Method::GET, "/ojs/v1/health", String::new()).await,
        ask(Method::GET, "/v1/federation/regions", String::new()).await,
        ask(Method::GET, "/nowhere", String::new()).await,
    ]
}

#[tokio::test]
async fn clients_that_cannot_read_the_ojs_media_type_get_json_from_us_and_from_regions() {
    let json = "application/json";
    for (setting, agent, expected) in [
        ("auto", "python-httpx/0.27.0", json),
        ("auto", "curl/8", OJS),
        ("auto", "my-python-httpx/1", OJS),
        ("always", "curl/8", json),
        ("never", "python-httpx/0.27.0", OJS),
    ] {
        let yaml = format!("compat: {{ json_content_type: {setting} }}");
        let federation = Setup::default().regions(1).yaml(&yaml).start().await;
        let types = media_types(federation.client, agent).await;
        assert!(types.iter().all(|it| it == expected), "{setting} {agent}: {types:?}");
    }
}

#[tokio::test]
async fn another_media_type_of_a_region_is_left_alone() {
    let federation = Setup::default().regions(1).yaml("compat: { json_content_type: always }").start().await;
    for kind in ["text/event-stream", "application/json; charset=utf-8", "text/html"] {
        let answer = FaultAnswer { status: http::StatusCode::OK, headers: vec![], body: "x".into() };
        let fault = Fault::Answer { answer: answer.header("content-type", kind), store: false };
        federation.regions[0].faults().add(When::path("/ojs/v1/queues").next(1), fault);
        assert_eq!(federation.client.get("/ojs/v1/queues").await.header("content-type"), Some(kind));
    }
}

#[tokio::test]
async fn health_is_ours_to_answer_and_ok_while_a_region_is_usable() {
    let federation = Setup::default().steered().start().await;
    let probes = |place: usize| federation.regions[place].record().requests_to("/ojs/v1/health").len();
    let before: Vec<usize> = (0..3).map(probes).collect();
    for (down, status, word) in [(0, 200, "ok"), (2, 200, "ok"), (3, 503, "degraded")] {
        for place in 0..down {
            let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
            federation.regions[place].faults().add(When::health(), fault);
            federation.advance_until_health(place, "unhealthy").await;
        }
        let answer = federation.client.get("/ojs/v1/health").await;
        assert_eq!((answer.status.as_u16(), answer.json()["status"].as_str()), (status, Some(word)));
        assert_eq!((answer.region(), answer.header("ojs-version")), ("none", Some("1.0")));
        if down == 0 {
            assert_eq!((0..3).map(probes).collect::<Vec<_>>(), before, "a client's question is no probe");
        }
    }
}

#[tokio::test]
async fn health_names_the_version_of_ojs_that_the_regions_report_and_ours_apart() {
    let federation = Setup::default().steered().start().await;
    let version = async || federation.client.get("/ojs/v1/health").await.json();
    let before = version().await;
    assert_eq!(
        (&before["version"], before["federation"]["sidecar_version"].as_str()),
        (&json!("1.0"), Some(env!("CARGO_PKG_VERSION")))
    );
    let says = |place: usize, body: &'static str| {
        let mut answer = FaultAnswer::error_document(StatusCode::OK, "scripted");
        answer.body = body.into();
        federation.regions[place].faults().clear();
        federation.regions[place].faults().add(When::health(), Fault::Answer { answer, store: false });
    };
    says(1, r#"{"status":"ok","version":"1.2"}"#);
    says(0, r#"{"status":"ok","version":"1.1"}"#);
    federation.advance_until("the local region's version", || reported(&federation, 0) == Some("1.1".to_owned())).await;
    assert_eq!(version().await["version"], "1.1");
}

fn reported(federation: &Federation, place: usize) -> Option<String> {
    federation.shared.registry.regions()[place].ojs_version().map(|version| version.to_string())
}

#[tokio::test]
async fn a_health_answer_with_two_words_is_no_healthy_one() {
    let federation = Setup::default().steered().start().await;
    let mut answer = FaultAnswer::error_document(StatusCode::OK, "scripted");
    answer.body = r#"{"status":"down","status":"ok"}"#.into();
    federation.regions[2].faults().add(When::health(), Fault::Answer { answer, store: false });
    federation.advance_until_health(2, "unhealthy").await;
    let pinned = r#"{"type":"a","args":[],"meta":{"ojs.federation.region":"ap-south-1"}}"#;
    federation.client.enqueue(pinned).await.check_error(503, "backend_error", "region_unavailable");
}

#[tokio::test]
async fn the_paths_at_the_root_are_the_local_regions_own() {
    let federation = Federation::start().await;
    for path in ["/health", "/healthz", "/ready", "/readyz", "/metrics"] {
        let answer = FaultAnswer::balancer(StatusCode::IM_A_TEAPOT);
        federation.regions[0].faults().add(When::path(path), Fault::Answer { answer, store: false });
        let answer = federation.client.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (418, "us-east-1"), "{path}: {answer:?}");
        assert_eq!(federation.regions[0].record().requests_to(path).len(), 1);
        let posted = federation.client.post(path, "{}").await;
        assert_eq!((posted.status.as_u16(), posted.region()), (404, "none"), "only what is read is passed on");
    }
    assert_eq!(federation.client.get("/healthzz").await.status, 404);
}

#[tokio::test]
async fn what_never_became_a_request_is_answered_in_the_same_form() {
    let federation = Federation::start().await;
    for (bytes, status) in [
        (&b"GET /ojs/v1/health HTTP/1.1\r\nhost : localhost\r\n\r\n"[..], 400),
        (b"GET /ojs/v1/health HTTP/2.5\r\nhost: localhost\r\n\r\n", 505),
        (b"nonsense\r\n\r\n", 400),
    ] {
        let answer = String::from_utf8(federation.client.raw(bytes).await).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        assert_eq!((header("content-type"), header("ojs-version")), (Some(OJS), Some("1.0")));
        assert_eq!(header("ojs-federation-region"), Some("none"));
        let document: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(document["error"].as_object().unwrap().len(), 5);
        assert_eq!(document["error"]["request_id"].as_str(), header("x-request-id"));
    }
    assert_eq!(federation.job_requests(), [0, 0, 0]);
}
