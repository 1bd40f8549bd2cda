//! Workers that are gone by the time their jobs are claimed.

use std::time::Duration;

use ojs_testbed::{Fault, Gate, JobState, When};

use super::sdk::Sdk;
use super::{FETCH, fetch};
use crate::support::{Federation, Setup, eventually};

const KEPT: &str = r#"kept_jobs_total{result="kept"}"#;

/// Has a region claim jobs for a worker that goes before it gets them.
pub(super) async fn vanish(federation: &Federation, place: usize, body: &str) {
    let gate = Gate::new();
    let region = &federation.regions[place];
    region.faults().add(When::path(FETCH).next(1), Fault::Hold { gate: gate.clone() });
    region.record().clear();
    let mut wire = federation.client.wire().await;
    let head = format!("POST {FETCH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    wire.send(format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
    region.record().wait_for(|record| record.requests_to(FETCH).iter().any(|call| call.complete)).await;
    drop(wire);
    // The sidecar has seen the close when it has answered somebody who came later.
    federation.settle().await;
    assert_eq!(federation.client.get("/ojs/v1/health").await.status, 200);
    gate.open();
    region.wait_for_jobs(|jobs| jobs.count_in(JobState::Available) == 0).await;
}

async fn with_jobs() -> Federation {
    let federation = Setup::default().steered().steered_leases().start().await;
    federation.fill(0, "a", 2);
    federation
}

pub(super) async fn kept(federation: &Federation, count: f64) {
    eventually("the jobs are kept", async || federation.metric(KEPT).await == count).await;
}

#[tokio::test]
async fn a_worker_that_vanished_gets_its_jobs_with_its_next_fetch() {
    let federation = with_jobs().await;
    vanish(&federation, 0, &Sdk::Rust.fetch(&["a"], 2, "w")).await;
    kept(&federation, 2.0).await;
    let asked = federation.calls(FETCH);
    // Nobody else gets them, and nobody who asks for other queues.
    assert!(fetch(federation.client, Sdk::Rust.fetch(&["a"], 2, "v")).await.is_empty());
    assert!(fetch(federation.client, Sdk::Rust.fetch(&["b"], 2, "w")).await.is_empty());
    assert_eq!(federation.calls(FETCH)[0], asked[0] + 2);
    let first = fetch(federation.client, Sdk::Rust.fetch(&["a"], 1, "w")).await;
    assert_eq!((first.len(), federation.calls(FETCH)[0]), (1, asked[0] + 2), "no region is asked for what is there");
    federation.fill(0, "a", 1);
    let rest = fetch(federation.client, Sdk::Rust.fetch(&["a"], 9, "w")).await;
    assert_eq!((rest.len(), &federation.last(0, FETCH)["count"]), (2, &8.into()));
    for id in first.iter().chain(&rest) {
        let stored = federation.regions[0].jobs().job(id).unwrap().clone();
        assert_eq!((stored.attempt, stored.state), (1, JobState::Active));
        assert_eq!(federation.client.post(super::ACK, Sdk::Rust.ack(id)).await.status, 200);
    }
    assert_eq!(federation.metric(r#"kept_jobs_total{result="given"}"#).await, 2.0);
}

#[tokio::test]
async fn what_nobody_comes_back_for_is_left_to_its_lease_and_never_given_back_as_a_failure() {
    let federation = with_jobs().await;
    vanish(&federation, 0, &Sdk::Python.fetch(&["a"], 2, "w")).await;
    kept(&federation, 2.0).await;
    // A lease that is nearly over is not handed out any more.
    federation.advance(Duration::from_secs(25));
    assert!(fetch(federation.client, Sdk::Python.fetch(&["a"], 2, "w")).await.is_empty());
    federation.advance(Duration::from_secs(6));
    assert_eq!(fetch(federation.client, Sdk::Python.fetch(&["a"], 2, "w")).await.len(), 2);
    assert!(federation.regions[0].jobs().iter().all(|job| job.attempt == 2));
    assert_eq!(federation.calls(super::NACK), [0, 0, 0]);
}

#[tokio::test]
async fn a_worker_without_a_name_cannot_come_back() {
    let federation = with_jobs().await;
    vanish(&federation, 0, &Sdk::Ruby.fetch(&["a"], 2, "")).await;
    assert!(fetch(federation.client, Sdk::Ruby.fetch(&["a"], 2, "")).await.is_empty());
    assert_eq!(federation.metric(KEPT).await, 0.0);
}

#[tokio::test]
async fn jobs_of_other_regions_are_kept_too_and_acknowledged_there() {
    let federation = Setup::default().yaml("workers: { remote_fetch: [a] }").start().await;
    federation.fill(1, "a", 1);
    vanish(&federation, 1, &Sdk::Go.fetch(&["a"], 1, "w")).await;
    kept(&federation, 1.0).await;
    federation.regions[1].record().clear();
    let taken = fetch(federation.client, Sdk::Go.fetch(&["a"], 1, "w")).await;
    assert_eq!(federation.calls(FETCH)[1], 0);
    assert_eq!(federation.client.post(super::ACK, Sdk::Go.ack(&taken[0])).await.status, 200);
    assert_eq!(federation.calls(super::ACK), [0, 1, 0]);
}

#[tokio::test]
async fn what_was_claimed_for_one_tenants_worker_is_given_to_no_other_tenants_of_the_same_name() {
    let federation = with_jobs().await;
    let fetch = Sdk::Rust.fetch(&["a"], 2, "worker-1");
    vanish(&federation, 0, &fetch).await;
    kept(&federation, 2.0).await;
    for (name, value) in [("x-ojs-tenant", "b"), ("authorization", "Bearer b")] {
        let other = http::Request::post(FETCH).header("content-type", "application/json").header(name, value);
        let answer = federation.client.send(other, fetch.clone()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["jobs"]), (200, &serde_json::json!([])), "{name}");
    }
    assert_eq!(super::fetch(federation.client, fetch).await.len(), 2);
}
