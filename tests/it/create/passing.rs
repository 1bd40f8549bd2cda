//! What asks for nothing else goes to the local region as it is.

use super::{CALLS, RECREATING, SHAPES, bare, body, check_goes};
use crate::support::Federation;

#[tokio::test]
async fn creating_calls_without_routing_keys_reach_the_local_region_byte_for_byte() {
    let federation = bare("").await;
    let odd = " {\"jobs\" : [ {\"args\":[1E400, 123456789012345678901234567890, \"\\u00e9\\/canary-4711\"],\n\t\"type\":\"a.b\" }\r\n] } ";
    for (method, path) in CALLS.into_iter().chain(RECREATING) {
        check_goes(&federation, 0, (method, path, odd)).await;
        check_goes(&federation, 0, (method, &format!("{path}?dry=1&q=%2F..%2F"), odd)).await;
        for shape in SHAPES {
            let body = body(shape, r#""tenant":"t","ojs.federation.x":"y""#);
            check_goes(&federation, 0, (method, path, &body)).await;
        }
    }
}

#[tokio::test]
async fn creating_calls_that_ask_for_the_local_region_pass() {
    let federation = bare("").await;
    for attributes in [
        r#""ojs.federation.region":"us-east-1""#,
        r#""ojs.federation.region" : "us\u002deast-1","ojs.federation.region_affinity":"geo-pin""#,
        r#""ojs.federation.region_affinity":"affinity""#,
        r#""ojs.federation.region":null,"ojs.federation.region_affinity":null"#,
    ] {
        for shape in SHAPES {
            check_goes(&federation, 0, ("POST", "/ojs/v1/jobs/batch", &body(shape, attributes))).await;
            check_goes(&federation, 0, ("POST", RECREATING[0].1, &body(shape, attributes))).await;
        }
    }
}

#[tokio::test]
async fn routing_keys_inside_args_are_data() {
    let federation = bare("").await;
    let pinned = r#"[{"meta":{"ojs.federation.region":"eu-west-1"},"Options":7},"canary-4711"]"#;
    for (method, path) in CALLS.into_iter().chain(RECREATING) {
        for shape in
            [r#"{"jobs":[{"type":"a.b","args":@}]}"#, r#"{"job_template":{"args":@}}"#, r#"{"steps":[{"args" :@}]}"#]
        {
            check_goes(&federation, 0, (method, path, &shape.replace('@', pinned))).await;
        }
    }
}

#[tokio::test]
async fn a_retry_without_a_body_passes() {
    let federation = Federation::start().await;
    let path = "/ojs/v1/dead-letter/01900000-0000-7000-8000-000000000001/retry";
    federation.client.call(http::Method::POST, path, "").await;
    assert_eq!(federation.regions[0].record().requests_to(path).len(), 1);
}

#[tokio::test]
async fn jobs_that_a_rule_binds_to_the_local_region_pass() {
    let rules = ", rules: [ { match: { job_type: \"a.*\" }, target: { regions: [us-east-1, eu-west-1] } } ]";
    let federation = bare(rules).await;
    for shape in SHAPES {
        check_goes(&federation, 0, ("POST", "/ojs/v1/workflows", &body(&shape.replace(",@", ""), ""))).await;
    }
}
