//! Sidecars are killed while jobs pass them: with the event streams of its region a hub's ledger still has each job as the region has it.
//! `LEDGER_KILLS_SEED` and `LEDGER_KILLS` make it another or a longer run.

use std::fs;

use http::{Method, Request};
use ojs_testbed::JobState;
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::INFO;
use super::history::{Draw, number};
use super::ledger::get;
use super::stage::HubStage;
use super::views::regions;
use crate::support::{Client, Process, Setup, Stage, eventually};

const QUEUE: &str = "mail";
const TENANTS: usize = 50;
/// Calls between two kills.
const CALLS: usize = 12;

/// The answer to a call; none where its sidecar was killed.
async fn call(sidecar: &Client, path: &str, body: &Value) -> Option<Value> {
    let request = Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
    let answer = sidecar.try_send(request, body.to_string()).await.ok()?;
    assert!(answer.status.is_success() || answer.status.as_u16() == 503, "{answer:?}");
    serde_json::from_slice(&answer.body).ok()
}

/// A client and a worker until their sidecar is killed.
async fn flow(sidecar: Client, mut draw: Draw) {
    loop {
        let tenant = format!("t{}", draw.below(TENANTS));
        let job = json!({ "type": "t", "args": [1], "options": { "queue": QUEUE }, "meta": { "tenant_id": tenant } });
        let Some(_) = call(&sidecar, "/ojs/v1/jobs", &job).await else { return };
        let fetch = json!({ "queues": [QUEUE], "worker_id": "w", "count": 1 });
        let Some(leased) = call(&sidecar, "/ojs/v1/workers/fetch", &fetch).await else { return };
        for job in leased["jobs"].as_array().into_iter().flatten() {
            let word = if draw.below(5) == 0 { "nack" } else { "ack" };
            let said = json!({ "job_id": job["id"], "worker_id": "w", "error": { "code": "x", "message": "x" } });
            let Some(_) = call(&sidecar, &format!("/ojs/v1/workers/{word}"), &said).await else { return };
        }
    }
}

/// A sidecar of the first region, which reports for the ledger.
async fn sidecar(hubs: &HubStage, stage: &Stage, name: &str) -> Process {
    let section = hubs.section(name).replace("hub: {", "hub: { report_jobs: true, ledger: metadata,");
    let overlay = hubs.path(&format!("{name}.yaml"));
    fs::write(&overlay, section).unwrap();
    Process::run(&stage.config, &[&INFO[..], &["--config", overlay.to_str().unwrap()]].concat()).await
}

/// The status of a job as its region has it; none for a state that passes by itself.
fn status(state: JobState) -> Option<&'static str> {
    match state {
        JobState::Active => Some("leased"),
        JobState::Completed => Some("succeeded"),
        JobState::Discarded => Some("dead_lettered"),
        JobState::Cancelled => Some("canceled"),
        _ => None,
    }
}

#[tokio::test]
async fn the_ledger_has_each_job_as_its_region_has_it_after_kills_of_sidecars() {
    let (seed, kills) = (number("LEDGER_KILLS_SEED", 1), number("LEDGER_KILLS", 6));
    let mut hubs = HubStage::new("");
    let key = hubs.path("audit.key");
    fs::write(&key, KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem()).unwrap();
    let stage = Setup::default().stage().await;
    hubs.set_more(&format!(
        "index: {{ region: us-east-1, events: {{ queues: [{QUEUE}], unbound: [{QUEUE}] }} }}\nledger: {{}}\naudit: {{ key: {key:?}, log: hub.test }}\n{}",
        regions(&stage, |_| None)
    ));
    let _hub = hubs.run().await;
    let mut draw = Draw(seed);
    for number in 0..kills {
        let name = format!("s{number}");
        let sidecar = sidecar(&hubs, &stage, &name).await;
        hubs.follows(&name).await;
        let flow = tokio::spawn(flow(sidecar.client, Draw(seed * 1_000 + number)));
        let before = stage.regions[0].record().requests().len();
        let calls = before + CALLS + draw.below(CALLS);
        eventually("calls reach the region", async || stage.regions[0].record().requests().len() >= calls).await;
        sidecar.signal("KILL");
        flow.await.unwrap();
    }
    let jobs: Vec<_> = stage.regions[0].jobs().iter().map(|it| (it.id.clone(), it.state, it.attempt)).collect();
    assert!(jobs.len() > usize::try_from(kills).unwrap(), "{jobs:?}");
    let mut observed = 0;
    for (id, state, attempts) in jobs {
        let mut copy = Value::Null;
        eventually(&format!("the ledger has {id} as {state:?} after {attempts} attempts"), async || {
            copy = get(&hubs, &format!("/api/jobs/{id}")).await.1["copies"][0].clone();
            let is_same = status(state).is_none_or(|status| copy["status"] == status);
            is_same && copy["attempts"] == attempts
        })
        .await;
        let records = copy["history"].as_array().unwrap();
        observed += records.iter().filter(|it| it["record"]["observedBy"] == "events").count();
        let steps = |event: &str, by: &str| {
            records.iter().filter(|it| it["record"]["event"] == event && it["record"][by].is_string()).count()
        };
        for event in ["enqueued", "succeeded", "dead_lettered"] {
            assert!(steps(event, "reportedBy") <= 1 && steps(event, "observedBy") <= 1, "{copy}");
        }
        assert!(steps("enqueued", "reportedBy") + steps("enqueued", "observedBy") > 0, "{copy}");
    }
    assert!(observed > 0, "the events have shown steps");
}
