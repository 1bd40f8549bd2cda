//! Schemas are the same in every region.

use http::{Method, StatusCode};
use ojs_testbed::{Dialect, Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::{call, quiet};
use crate::support::Federation;

const SCHEMAS: &str = "/ojs/v1/schemas";

/// What a server that has schemas answers, in every region.
fn answering(federation: &Federation, place: usize, status: u16) {
    let status = StatusCode::from_u16(status).unwrap();
    let mut answer = FaultAnswer::error_document(status, "scripted");
    if status.is_success() {
        answer.body = format!(r#"{{"schema":{{"from":{place}}}}}"#).into();
    }
    federation.regions[place].faults().clear();
    federation.regions[place].faults().add(When::path(SCHEMAS), Fault::Answer { answer, store: false });
}

async fn write(federation: &Federation, method: Method) -> crate::support::Answer {
    let body = json!({ "uri": "urn:ojs:a", "schema": { "type": "object" } });
    call(federation, method, SCHEMAS, &body).await
}

#[tokio::test]
async fn a_schema_is_written_to_all_regions_and_the_local_ones_word_is_the_answer() {
    let federation = quiet(Dialect::Spec).start().await;
    (0..3).for_each(|place| answering(&federation, place, 201));
    let answer = write(&federation, Method::POST).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "us-east-1"));
    assert_eq!(answer.json()["schema"]["from"], 0);
    assert_eq!(federation.seen("urn:ojs:a"), [0, 1, 2]);
    // What every region refuses is the client's mistake.
    (0..3).for_each(|place| answering(&federation, place, 422));
    let answer = write(&federation, Method::POST).await;
    assert_eq!((answer.status.as_u16(), answer.json()["error"]["code"].as_str()), (422, Some("scripted")));
}

#[tokio::test]
async fn regions_that_did_not_follow_are_named() {
    let federation = quiet(Dialect::Spec).start().await;
    answering(&federation, 0, 201);
    answering(&federation, 2, 500);
    federation.regions[1].stop().await;
    let answer = write(&federation, Method::POST).await;
    let error = answer.check_error(503, "backend_error", "regions_missing");
    assert_eq!(error["details"]["followed"], json!(["us-east-1"]));
    assert_eq!(error["details"]["missing"], json!(["eu-west-1", "ap-south-1"]));
}

#[tokio::test]
async fn a_schema_that_some_regions_never_had_is_deleted_all_the_same() {
    let federation = quiet(Dialect::Spec).start().await;
    for (statuses, expected, region) in [([404, 200, 404], 200, "eu-west-1"), ([404, 404, 404], 404, "us-east-1")] {
        (0..3).for_each(|place| answering(&federation, place, statuses[place]));
        let answer = call(&federation, Method::DELETE, SCHEMAS, &Value::Null).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (expected, region));
    }
}

#[tokio::test]
async fn a_schema_is_read_in_the_local_region_and_elsewhere_while_that_is_down() {
    let federation =
        crate::support::Setup::default().steered().yaml("circuit_breaker: { failure_threshold: 1 }").start().await;
    (0..3).for_each(|place| answering(&federation, place, 200));
    assert_eq!(federation.client.get(SCHEMAS).await.json()["schema"]["from"], 0);
    federation.regions[0].stop().await;
    let _ = federation.client.get(SCHEMAS).await;
    crate::support::eventually("the breaker is open", async || federation.breaker(0) == "open").await;
    assert_eq!(federation.client.get(SCHEMAS).await.json()["schema"]["from"], 1);
}
