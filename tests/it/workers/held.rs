//! Regions that hold a FETCH back until they have jobs.

use http::Request;
use ojs_testbed::{Fault, Gate, When};
use serde_json::json;

use super::sdk::Sdk;
use super::{FETCH, fetch, ids};
use crate::support::{Answer, Federation, Setup};

/// A region that holds every FETCH back until the gate opens, and calls that may take half a second.
async fn holding() -> (Federation, Gate) {
    let setup = Setup::default().yaml("limits: { call_timeout: 500ms }");
    let federation = setup.yaml("circuit_breaker: { failure_threshold: 1 }").start().await;
    let gate = Gate::new();
    federation.regions[0].faults().add(When::path(FETCH), Fault::Hold { gate: gate.clone() });
    (federation, gate)
}

fn check_empty(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({ "jobs": [] })), "{answer:?}");
    assert_eq!((answer.region(), answer.header("ojs-version")), ("us-east-1", Some("1.0")));
}

#[tokio::test]
async fn a_held_fetch_lasts_as_long_as_the_client_asks_and_brings_its_job() {
    let (federation, gate) = holding().await;
    let client = federation.client;
    let patient = Request::post(FETCH).header("ojs-block-timeout", "60");
    let held = tokio::spawn(async move { client.send(patient, Sdk::Rust.fetch(&["a"], 1, "w1")).await });
    federation.regions[0].record().wait_for(|record| record.requests_to(FETCH).len() == 1).await;
    // Begun later, this one waits for the usual time, and has ended before the first one has.
    check_empty(&client.post(FETCH, Sdk::Rust.fetch(&["a"], 1, "w2")).await);
    assert!(!held.is_finished());
    federation.fill(0, "a", 2);
    gate.open();
    let answer = held.await.unwrap();
    assert_eq!((answer.status.as_u16(), ids(&answer.json()["jobs"]).len()), (200, 1), "{answer:?}");
    assert_eq!(federation.heard(0, FETCH)[0].headers["ojs-block-timeout"], "60", "the region hears it, too");
}

#[tokio::test]
async fn a_fetch_that_is_held_to_the_end_is_empty_and_no_failure_of_the_region() {
    let (federation, gate) = holding().await;
    for _ in 0..2 {
        check_empty(&federation.client.post(FETCH, Sdk::Python.fetch(&["a"], 1, "w")).await);
    }
    assert_eq!((federation.breaker(0), federation.calls(FETCH)), ("closed", vec![2, 0, 0]));
    let open = federation.metric(r#"guard_open{class="fetch",region="us-east-1"}"#).await;
    assert_eq!(open, 0.0);
    gate.open();
    federation.regions[0].faults().clear();
    federation.fill(0, "a", 5);
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["a"], 1, "w")).await.len(), 1);
}

#[tokio::test]
async fn a_fetch_whose_connection_breaks_is_an_error() {
    let federation = Federation::start().await;
    federation.regions[0].faults().add(When::path(FETCH), Fault::CutAfterRequest { store: false });
    let answer = federation.client.post(FETCH, Sdk::Rust.fetch(&["a"], 1, "w")).await;
    answer.check_error(504, "backend_error", "upstream_timeout");
}
