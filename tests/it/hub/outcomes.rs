//! Outcomes of the fleet: reports of sidecars, which outlive them.

use ojs_testbed::{Fault, Gate, When};
use serde_json::Value;

use super::INFO;
use super::postgres::Postgres;
use super::stage::HubStage;
use crate::support::{Process, Stage, eventually, job};

const MORE: &str = "circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }
failover: { late_write_grace: 50ms }
limits: { call_timeout: 1s }";

/// A job whose outcome is unknown until the gate opens; returns its id.
async fn unknown(stage: &Stage, sidecar: &Process) -> (Gate, String) {
    let gate = Gate::new();
    stage.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let answer = sidecar.client.enqueue(job("a")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    let id = answer.json()["error"]["details"]["job_id"].as_str().unwrap().to_owned();
    (gate, id)
}

/// The outcomes that the hub shows, as pairs of sidecar and state of a job.
async fn reported(stage: &HubStage, id: &str) -> Vec<(String, String)> {
    let shown = stage.command("ann", &["fleet", "--outcomes", "--json"]).await;
    let document: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    let rows = document["outcomes"].as_array().cloned().unwrap_or_default();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    rows.iter().filter(|it| it["job_id"] == id).map(|it| (text(it, "sidecar"), text(it, "state"))).collect()
}

async fn is_reported(stage: &HubStage, id: &str, state: &str) {
    let expected = vec![("one".to_owned(), state.to_owned())];
    eventually("the outcome is reported", async || reported(stage, id).await == expected).await;
}

/// The outcome of a sidecar that is killed without a journal stays at the hub, over kills of the hub, and that of a living one is followed.
async fn outlives(stage: HubStage) {
    let mut hub = stage.run().await;
    let one = stage.federation("one", MORE).await;
    let sidecar = Process::run(&one.config, &INFO).await;
    let (_closed, lost) = unknown(&one, &sidecar).await;
    is_reported(&stage, &lost, "unknown").await;
    drop(sidecar);
    hub.kill();
    let sidecar = Process::run(&one.config, &INFO).await;
    one.regions[0].faults().clear();
    let (gate, id) = unknown(&one, &sidecar).await;
    let mut hub = stage.run().await;
    is_reported(&stage, &id, "unknown").await;
    gate.open();
    is_reported(&stage, &id, "stored").await;
    hub.kill();
    let _hub = stage.run().await;
    is_reported(&stage, &lost, "unknown").await;
    is_reported(&stage, &id, "stored").await;
    let table = stage.command("eve", &["fleet", "--outcomes", "--state", "unknown"]).await;
    assert!(table.stdout.starts_with("1 stored, 1 unknown\nSIDECAR"), "{}", table.all());
    assert!(table.stdout.contains(&lost) && !table.stdout.contains(&id), "{}", table.all());
}

#[tokio::test]
async fn outcomes_outlive_the_sidecar_and_the_hub_in_sqlite() {
    outlives(HubStage::new("")).await;
}

#[tokio::test]
async fn outcomes_outlive_the_sidecar_and_the_hub_in_postgresql() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    outlives(stage.with_record(record)).await;
}
