//! What cannot be followed is refused, and nothing of it is sent to anybody.

use http::Request;

use super::{CALLS, CANARY, RECREATING, SHAPES, body, check_refused};
use crate::support::{Federation, Setup};

#[tokio::test]
async fn what_is_made_out_of_another_job_cannot_be_bound_elsewhere() {
    let federation = Federation::start().await;
    for (method, path) in RECREATING {
        for shape in SHAPES {
            let pinned = body(shape, r#""ojs.federation.region":"eu-west-1""#);
            check_refused(&federation, (method, path, &pinned), 422, "routing_unsupported").await;
            let routed = body(shape, r#""ojs.federation.region_affinity":"overflow""#);
            check_refused(&federation, (method, path, &routed), 422, "routing_unsupported").await;
        }
    }
    let rules = "routing: { rules: [ { match: { job_type: \"a.*\" }, target: { region: eu-west-1 } } ] }";
    let federation = Setup::default().yaml(rules).start().await;
    for (method, path) in RECREATING {
        let bound = r#"{"type":"a.b","args":["canary-4711"]}"#;
        check_refused(&federation, (method, path, bound), 422, "routing_unsupported").await;
    }
}

#[tokio::test]
async fn a_pin_that_cannot_be_followed_is_refused_in_every_spelling() {
    let federation = Federation::start().await;
    for (attributes, reason) in [
        (r#""ojs.federation.region":"nowhere""#, "region_unknown"),
        (r#""ojs.federation.region":7"#, "invalid_federation_meta"),
        (r#""ojs.federation.region":["us-east-1"]"#, "invalid_federation_meta"),
    ] {
        for (method, path) in CALLS {
            for shape in SHAPES {
                check_refused(&federation, (method, path, &body(shape, attributes)), 400, reason).await;
            }
        }
    }
    let batch = "/ojs/v1/jobs/batch";
    for attributes in [
        r#""OJS.Federation.Region":"eu-west-1""#,
        r#""oj\u017F.federation.region":"eu-west-1""#,
        r#""ojs.federation.region":"us-east-1","ojs.federation.region":"eu-west-1""#,
    ] {
        check_refused(&federation, ("POST", batch, &body(SHAPES[0], attributes)), 400, "ambiguous_member").await;
    }
    let twice = r#""ojs.federation.region":"us-east-1","ojs.federation.region":"eu-west-1""#;
    check_refused(&federation, ("POST", batch, &body(SHAPES[4], twice)), 400, "contradicting_pins").await;
    for (job, reason) in [
        (r#"{"type":"a","Meta":{"ojs.federation.region":"eu-west-1"}}"#, "ambiguous_member"),
        (r#"{"type":"a","options":{"metadata":{}},"Options":{}}"#, "ambiguous_member"),
        (r#"{"type":"a","meta":{"ojs.federation.region":"us-east-1"},"meta":{}}"#, "ambiguous_member"),
        (r#"{"type":"a","meta":[]}"#, "not_an_object"),
        (r#"{"type":"a","options":{"meta":{"ojs.federation.region":"us-east-1"}}}"#, "invalid_federation_meta"),
        (r#"{"type":"a","then":{"type":"b","meta":{"ojs.federation.region":"eu-west-1"}}}"#, "invalid_federation_meta"),
    ] {
        let body = format!(r#"{{"jobs":[{{"type":"{CANARY}","args":[]}},{job}]}}"#);
        check_refused(&federation, ("POST", batch, &body), 400, reason).await;
    }
    for body in [r#"{"jobs":[{"type":"canary-4711"}],"Jobs":[]}"#, r#"{"JOBS":[{"type":"canary-4711"}]}"#] {
        check_refused(&federation, ("POST", batch, body), 400, "ambiguous_member").await;
    }
}

#[tokio::test]
async fn unknown_strategies_and_pins_without_a_region_are_errors() {
    let federation = Federation::start().await;
    for strategy in [r#""Affinity""#, r#""nearest""#, r#""""#, r#""geo-pin""#] {
        let attributes = format!(r#""ojs.federation.region_affinity":{strategy}"#);
        for (method, path) in CALLS {
            for shape in SHAPES {
                let body = body(shape, &attributes);
                check_refused(&federation, (method, path, &body), 400, "invalid_federation_meta").await;
            }
        }
    }
}

#[tokio::test]
async fn a_pin_that_a_rule_forbids_is_refused() {
    let rules = "routing: { rules: [ { match: { job_type: \"a.*\" }, target: { region: eu-west-1 } } ] }";
    let federation = Setup::default().yaml(rules).start().await;
    for (method, path) in CALLS {
        for contrary in [
            r#"{"jobs":[{"type":"a.b","args":["canary-4711"],"meta":{"ojs.federation.region":"us-east-1"}}]}"#,
            r#"{"name":"canary-4711","job_template":{"type":"a.b","meta":{"ojs.federation.region":"us-east-1"}}}"#,
        ] {
            check_refused(&federation, (method, path, contrary), 403, "pin_not_permitted").await;
        }
        let beside = r#"{"jobs":[{"type":"a.b","args":["canary-4711"]}],"default_options":{"metadata":{"ojs.federation.region":"us-east-1"}}}"#;
        check_refused(&federation, (method, path, beside), 400, "contradicting_pins").await;
    }
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
    for (encoding, status, body) in
        [("gzip", 400, pinned.clone().into_bytes()), ("br", 415, pinned.into_bytes()), ("", 400, wide)]
    {
        let mut request = Request::post(batch).header("content-type", "application/json");
        if !encoding.is_empty() {
            request = request.header("content-encoding", encoding);
        }
        let answer = federation.client.send(request, body).await;
        assert_eq!(answer.status, status, "{encoding}: {answer:?}");
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
