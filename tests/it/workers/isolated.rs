//! Regions whose jobs no worker gets, by a switch.

use http::Method;
use ojs_testbed::{Fault, Gate, JobState, When};
use serde_json::json;

use super::sdk::Sdk;
use super::vanished::{kept, vanish};
use super::{ACK, FETCH, fetch};
use crate::support::{Federation, Process, Setup, job, pinned};
use crate::switches::{listed, order};

const ENQUEUE: &str = "/ojs/v1/jobs";

async fn isolation(federation: &Federation, region: &str) {
    let done = order(&federation.admin, &["drain", region, "--isolate", "--for", "1h"]).await;
    assert!(done.code == Some(0) && done.stdout.contains(&format!("isolate {region} until ")), "{}", done.all());
}

async fn end(federation: &Federation, region: &str) {
    let ended = order(&federation.admin, &["undrain", region]).await;
    assert!(ended.code == Some(0) && ended.stdout.contains(&format!("ended: isolate {region}")), "{}", ended.all());
}

#[tokio::test]
async fn an_isolated_region_gets_no_fetch_and_no_job_and_hears_of_its_leased_jobs() {
    let federation = Setup::default().steered().steered_leases().start().await;
    federation.fill(0, "a", 3);
    let leased = fetch(federation.client, Sdk::Rust.fetch(&["a"], 1, "w")).await.remove(0);
    isolation(&federation, "us-east-1").await;
    federation.regions.iter().for_each(|region| region.record().clear());
    for _ in 0..3 {
        assert!(fetch(federation.client, Sdk::Rust.fetch(&["a"], 1, "w")).await.is_empty());
    }
    assert_eq!(federation.calls(FETCH), [0, 0, 0], "no region was asked");
    let refused = federation.client.enqueue(pinned("us-east-1", "canary")).await;
    refused.check_error(503, "backend_error", "region_unavailable");
    assert_ne!(federation.client.enqueue(job("flexible")).await.region(), "us-east-1");
    assert_eq!(federation.calls(ENQUEUE)[0], 0);
    let dry = federation.client.post("/v1/federation/route", pinned("us-east-1", "dry")).await.json().to_string();
    assert!(dry.contains("isolated by the operator"), "{dry}");
    let beat = json!({ "worker_id": "w", "active_jobs": [leased] }).to_string();
    assert_eq!(federation.client.post("/ojs/v1/workers/heartbeat", beat).await.status, 200);
    assert_eq!(federation.client.get(&format!("/ojs/v1/jobs/{leased}")).await.status, 200);
    assert_eq!(federation.client.post(ACK, Sdk::Rust.ack(&leased)).await.status, 200);
    assert_eq!(federation.regions[0].jobs().job(&leased).unwrap().state, JobState::Completed);
    let waiting = federation.regions[0].jobs().iter().find(|job| job.state == JobState::Available).unwrap().id.clone();
    let cancelled = federation.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{waiting}"), "").await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let shown = federation.client.get("/v1/federation/regions").await.json();
    assert_eq!(shown["regions"][0]["switch"], "isolate");
    assert_eq!(federation.metric(r#"switches{switch="isolate"}"#).await, 1.0);
    end(&federation, "us-east-1").await;
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["a"], 1, "w")).await.len(), 1);
    assert_eq!(federation.client.enqueue(pinned("us-east-1", "after")).await.status, 201);
}

#[tokio::test]
async fn a_fetch_asks_the_other_regions_and_none_of_them_that_is_isolated() {
    let federation = Setup::default().steered().yaml("workers: { remote_fetch: [a] }").start().await;
    (0..3).for_each(|place| federation.fill(place, "a", 1));
    for region in ["us-east-1", "eu-west-1"] {
        isolation(&federation, region).await;
    }
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["a"], 9, "w")).await.len(), 1);
    assert_eq!(federation.calls(FETCH), [0, 0, 1]);
}

#[tokio::test]
async fn a_job_that_was_kept_for_a_worker_stays_while_its_region_is_isolated() {
    let federation = Setup::default().steered().steered_leases().start().await;
    federation.fill(0, "a", 2);
    vanish(&federation, 0, &Sdk::Rust.fetch(&["a"], 2, "w")).await;
    kept(&federation, 2.0).await;
    isolation(&federation, "us-east-1").await;
    assert!(fetch(federation.client, Sdk::Rust.fetch(&["a"], 9, "w")).await.is_empty());
    end(&federation, "us-east-1").await;
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["a"], 2, "w")).await.len(), 2);
}

#[tokio::test]
async fn a_fetch_that_a_region_held_when_its_isolation_began_brings_no_job() {
    let federation = Setup::default().steered().start().await;
    let gate = Gate::new();
    federation.regions[0].faults().add(When::path(FETCH).next(1), Fault::Hold { gate: gate.clone() });
    let client = federation.client;
    let held = tokio::spawn(async move { fetch(client, Sdk::Rust.fetch(&["a"], 1, "w")).await });
    federation.regions[0].record().wait_for(|record| record.requests_to(FETCH).len() == 1).await;
    federation.fill(0, "a", 1);
    isolation(&federation, "us-east-1").await;
    gate.open();
    assert!(held.await.unwrap().is_empty());
    assert_eq!(federation.regions[0].jobs().count_in(JobState::Active), 1, "it is left to its lease");
}

#[tokio::test]
async fn an_isolation_outlives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let journal = format!("journal: {{ path: {:?} }}", dir.path().join("journal"));
    let stage = Setup::default().yaml(&journal).stage().await;
    let first = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    assert_eq!(order(&first.admin, &["drain", "us-east-1", "--isolate", "--for", "1h"]).await.code, Some(0));
    drop(first);
    stage.regions.iter().for_each(|region| region.record().clear());
    let second = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    let all = listed(&second.admin).await;
    assert_eq!((all.len(), &all[0]["switch"]), (1, &"isolate".into()));
    let empty = second.client.post(FETCH, Sdk::Rust.fetch(&["a"], 1, "w")).await;
    assert_eq!((empty.status.as_u16(), empty.json()), (200, json!({ "jobs": [] })));
    assert_eq!(stage.regions[0].record().requests_to(FETCH).len(), 0);
}
