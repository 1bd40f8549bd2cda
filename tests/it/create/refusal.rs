//! What the local region would not satisfy is refused, and nothing of it is sent to anybody.

use http::Request;

use super::{CALLS, CANARY, SHAPES, body, check_refused};
use crate::support::{Federation, Setup};

#[tokio::test]
async fn a_pin_elsewhere_is_refused_by_every_creating_call_wherever_it_stands() {
    let federation = Federation::start().await;
    for (method, path) in CALLS {
        for shape in SHAPES {
            let body = body(shape, r#""ojs.federation.region":"eu-west-1""#);
            check_refused(&federation, (method, path, &body), 422, "routing_unsupported").await;
        }
    }
}

#[tokio::test]
async fn a_pin_is_recognised_in_every_spelling() {
    let federation = Federation::start().await;
    let batch = "/ojs/v1/jobs/batch";
    for attributes in [
        r#""ojs.federation.region":"nowhere""#,
        r#""ojs.federation.region":7"#,
        r#""ojs.federation.region":["us-east-1"]"#,
        r#""ojs.federation.regio\u006e" : "eu-west-1""#,
        r#""\u006fjs.federation.region":"eu\u002dwest-1""#,
    ] {
        // Where attributes are read, a value of another type is a fault of its own.
        let typed = !attributes.ends_with(['7', ']']);
        let (status, reason) = if typed { (422, "routing_unsupported") } else { (400, "invalid_federation_meta") };
        check_refused(&federation, ("POST", batch, &body(SHAPES[0], attributes)), status, reason).await;
        check_refused(&federation, ("POST", batch, &body(SHAPES[4], attributes)), 422, "routing_unsupported").await;
    }
    for attributes in [
        r#""OJS.Federation.Region":"eu-west-1""#,
        r#""oj\u017F.federation.region":"eu-west-1""#,
        r#""ojs.federation.region":"us-east-1","ojs.federation.region":"eu-west-1""#,
    ] {
        check_refused(&federation, ("POST", batch, &body(SHAPES[0], attributes)), 400, "ambiguous_member").await;
        check_refused(&federation, ("POST", batch, &body(SHAPES[4], attributes)), 422, "routing_unsupported").await;
    }
    for (job, reason) in [
        (r#"{"type":"a","Meta":{"ojs.federation.region":"eu-west-1"}}"#, "ambiguous_member"),
        (r#"{"type":"a","options":{"metadata":{}},"Options":{}}"#, "ambiguous_member"),
        (r#"{"type":"a","meta":{"ojs.federation.region":"us-east-1"},"meta":{}}"#, "ambiguous_member"),
        (r#"{"type":"a","meta":[]}"#, "not_an_object"),
    ] {
        let body = format!(r#"{{"jobs":[{{"type":"{CANARY}","args":[]}},{job}]}}"#);
        check_refused(&federation, ("POST", batch, &body), 400, reason).await;
    }
}

#[tokio::test]
async fn strategies_that_need_routing_are_refused_and_unknown_ones_are_errors() {
    let federation = Federation::start().await;
    for strategy in ["overflow", "round-robin", "latency-based", "latency", "weighted", "active-passive", "geographic"]
    {
        let attributes = format!(r#""ojs.federation.region_affinity":"{strategy}""#);
        for shape in SHAPES {
            let body = body(shape, &attributes);
            check_refused(&federation, ("POST", "/ojs/v1/jobs/batch", &body), 422, "routing_unsupported").await;
        }
    }
    for strategy in [r#""Affinity""#, r#""nearest""#, r#""""#] {
        let attributes = format!(r#""ojs.federation.region_affinity":{strategy}"#);
        for shape in SHAPES {
            let body = body(shape, &attributes);
            check_refused(&federation, ("POST", "/ojs/v1/jobs/bulk", &body), 400, "invalid_federation_meta").await;
        }
    }
    let body = body(SHAPES[0], r#""ojs.federation.region_affinity":"geo-pin""#);
    check_refused(&federation, ("POST", "/ojs/v1/jobs/batch", &body), 400, "invalid_federation_meta").await;
}

#[tokio::test]
async fn a_rule_that_binds_jobs_elsewhere_binds_those_of_creating_calls_too() {
    let rules = r#"
routing:
  rules:
  - { match: { job_type: "a.*" }, target: { region: eu-west-1 } }
  - { match: { queue: "train-*" }, target: { region: eu-west-1 } }
  - { match: { tags: [gpu] }, target: { region: eu-west-1 } }
  - { match: { meta: { country: DE } }, target: { region: eu-west-1 } }"#;
    let federation = Setup::default().yaml(rules).start().await;
    for (method, path) in CALLS {
        for body in [
            r#"{"jobs":[{"type":"x","args":[]},{"type":"a.b","args":["canary-4711"]}]}"#,
            r#"{"name":"canary-4711","expression":"x","job_template":{"type":"a.b"}}"#,
            r#"{"type":"chain","name":"canary-4711","steps":[{"type":"x"},{"type":"a.b"}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"options":{"queue":"train-1"}}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"queue":"train-1"}]}"#,
            r#"{"name":"canary-4711","queue":"train-1","job_template":{"type":"x"}}"#,
            r#"{"default_options":{"queue":"train-1"},"jobs":[{"type":"x","args":["canary-4711"]}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"tags":["gpu"]}]}"#,
            r#"{"jobs":[{"type":"x","args":["canary-4711"],"meta":{"country":"DE"}}]}"#,
        ] {
            check_refused(&federation, (method, path, body), 422, "routing_unsupported").await;
        }
    }
    let contrary = r#"{"jobs":[{"type":"a.b","args":["canary-4711"],"meta":{"ojs.federation.region":"us-east-1"}}]}"#;
    check_refused(&federation, ("POST", "/ojs/v1/jobs/batch", contrary), 403, "pin_not_permitted").await;
}

#[tokio::test]
async fn creating_calls_by_odd_paths_are_refused_before_their_bodies_are_read() {
    let federation = Federation::start().await;
    let body = body(SHAPES[0], r#""ojs.federation.region":"us-east-1""#);
    for path in [
        "//ojs/v1/jobs/batch",
        "/ojs/v1//jobs/batch",
        "/ojs/v1/jobs/batch/",
        "/ojs/v1/./jobs/batch",
        "/ojs/v1/x/../jobs/batch",
        "/ojs/v1/x/%2e%2e/jobs/batch",
        "/%6Fjs/v1/jobs/batch",
        "/ojs/v1/jobs%2Fbatch",
        "/ojs/v1/jobs%252Fbatch",
        "/ojs/v1/jobs/batch;v=1",
        "/ojs/v1/jobs;v=1/batch",
        "/ojs/v1/Jobs/Batch",
        "/OJS/v1/cron",
        "/ojs/v1/cron/a%20b",
        "/ojs/v1/workflows/",
    ] {
        check_refused(&federation, ("POST", path, &body), 400, "ambiguous_path").await;
    }
}

#[tokio::test]
async fn bodies_that_cannot_be_read_with_certainty_are_refused() {
    let federation = Setup::default().yaml("limits: { body_bytes: 4KiB, json_depth: 16 }").start().await;
    let batch = "/ojs/v1/jobs/batch";
    let pinned = body(SHAPES[0], r#""ojs.federation.region":"eu-west-1""#);
    for (body, reason) in [
        (format!("\u{feff}{pinned}"), "malformed_json"),
        (format!("{pinned}{pinned}"), "malformed_json"),
        (format!("{pinned}\0"), "malformed_json"),
        (format!("// canary-4711\n{pinned}"), "malformed_json"),
        (format!("{}{pinned}{}", "[".repeat(17), "]".repeat(17)), "too_deep"),
    ] {
        check_refused(&federation, ("POST", batch, &body), 400, reason).await;
    }
    let long = pinned.replace(CANARY, &CANARY.repeat(1_000));
    check_refused(&federation, ("POST", batch, &long), 413, "body_too_large").await;
    let wide: Vec<u8> = pinned.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (encoding, body) in [("gzip", pinned.clone().into_bytes()), ("identity", pinned.into_bytes()), ("", wide)] {
        let mut request = Request::post(batch).header("content-type", "application/json");
        if !encoding.is_empty() {
            request = request.header("content-encoding", encoding);
        }
        let answer = federation.client.send(request, body).await;
        assert_eq!(answer.status, 400, "{encoding}: {answer:?}");
        assert_eq!(federation.seen(CANARY), [0; 0]);
        assert!(federation.regions[0].record().requests_to(batch).is_empty());
    }
}

#[tokio::test]
async fn what_the_operator_rejects_in_enqueues_is_rejected_in_batches_too() {
    let federation = Setup::default().yaml("compat: { client_replicated_from: reject }").start().await;
    let body = body(SHAPES[0], r#""ojs.federation.replicated_from":"eu-west-1""#);
    check_refused(&federation, ("POST", "/ojs/v1/jobs/batch", &body), 400, "invalid_federation_meta").await;
}
