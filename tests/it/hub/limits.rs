//! Limits of the fleet: many sidecars make no more calls at once to a region than the hub permits, whoever of them lives.

use std::net::SocketAddr;
use std::time::Duration;

use ojs_testbed::{Fault, Gate, When};
use serde_json::Value;
use tokio::task::JoinSet;

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage};
use crate::support::{Answer, Client, Process, Stage, eventually, pinned};

const REGION: &str = "us-east-1";

fn limit(calls: u64, ttl: &str) -> String {
    format!("limits: [{{ region: {REGION}, calls: {calls}, ttl: {ttl} }}]")
}

fn keeps(on_hub_loss: &str) -> String {
    format!("limits: {{ fleet: [{{ region: {REGION}, {on_hub_loss} }}] }}")
}

/// Two sidecars of one federation that keep to the limit.
async fn two(stage: &HubStage, on_hub_loss: &str) -> (Stage, [Process; 2]) {
    let federation = stage.federation("one", &keeps(on_hub_loss)).await;
    let one = Process::run(&federation.config, &INFO).await;
    let two = Process::run(&federation.config, &[&INFO[..], &["--set", "hub.name=two"]].concat()).await;
    stage.follows("one").await;
    stage.follows("two").await;
    (federation, [one, two])
}

/// Sends a job that must go to the limited region.
async fn send(address: SocketAddr) -> Answer {
    Client::new(address).enqueue(pinned(REGION, "a")).await
}

fn is_refused(answer: &Answer) -> bool {
    answer.status == 503 && answer.json()["error"]["details"]["reason"] == "fleet_limit"
}

/// Clients of a sidecar that send jobs one after the other, refused or not, until they are dropped.
fn press(clients: &mut JoinSet<()>, sidecar: &Process, number: usize) {
    let address = sidecar.client.address();
    for _ in 0..number {
        clients.spawn(async move {
            loop {
                let answer = send(address).await;
                assert!(answer.status == 201 || is_refused(&answer), "{answer:?}");
                // A refused client pauses, as `Retry-After` asks for; the test's clients are in more of a hurry.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }
}

/// The calls that the hub has granted of the only limit, by sidecar.
async fn granted(stage: &HubStage, sidecar: &str) -> u64 {
    let shown = super::status(stage, "eve", &http::Method::GET, "/v1/hub/limits").await;
    let holders = shown.1["limits"][0]["holders"].as_array().cloned().unwrap_or_default();
    holders.iter().filter(|it| it["sidecar"] == sidecar).filter_map(|it| it["calls"].as_u64()).sum()
}

/// Both sidecars under load that wants more than the limit get about half of it, and the region never sees more.
async fn share_a_limit(stage: &HubStage) {
    let (federation, sidecars) = two(stage, "on_hub_loss: hold").await;
    let region = &federation.regions[0];
    region.faults().add(When::enqueue(), Fault::Slow { delay: Duration::from_millis(5) });
    let mut clients = JoinSet::new();
    press(&mut clients, &sidecars[0], 12);
    eventually("one sidecar has the whole limit", async || granted(stage, "one").await == 6).await;
    press(&mut clients, &sidecars[1], 12);
    eventually("the other one gets its half", async || {
        (granted(stage, "one").await, granted(stage, "two").await) == (3, 3)
    })
    .await;
    let shown = stage.command("eve", &["fleet", "--limits"]).await;
    assert!(shown.stdout.starts_with("us-east-1: 6 of 6 calls at once are granted"), "{}", shown.all());
    let state = sidecars[0].admin.get("/state").await.json();
    assert_eq!(
        (&state["regions"][0]["calls"]["granted"], &state["regions"][1]["calls"]["granted"]),
        (&3.into(), &Value::Null)
    );
    eventually("the limit is used up", async || region.enqueues_at_once() == 6).await;
    clients.abort_all();
    while let Some(ended) = clients.join_next().await {
        assert!(!ended.is_err_and(|error| error.is_panic()), "a client had another answer");
    }
    assert_eq!(region.enqueues_at_once(), 6);
    let refused = eventual_refusal(&federation, &sidecars[0]).await;
    refused.check_error(503, "backend_error", "fleet_limit");
    refused.check_retry_after(1);
    assert_eq!(region.enqueues_at_once(), 6);
}

/// An answer to a job beyond the limit: the others are held at the region.
async fn eventual_refusal(federation: &Stage, sidecar: &Process) -> Answer {
    let (gate, address) = (Gate::new(), sidecar.client.address());
    let faults = federation.regions[0].faults();
    faults.clear();
    faults.add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let mut held = JoinSet::new();
    (0..7).for_each(|_| drop(held.spawn(send(address))));
    let refused = loop {
        let answer = held.join_next().await.unwrap().unwrap();
        if is_refused(&answer) {
            break answer;
        }
    };
    gate.open();
    held.join_all().await;
    refused
}

#[tokio::test]
async fn sidecars_share_a_limit_by_their_needs_and_the_region_never_sees_more() {
    let stage = HubStage::new(&limit(6, "10s"));
    let _hub = stage.run().await;
    share_a_limit(&stage).await;
}

#[tokio::test]
async fn hubs_on_one_database_grant_from_one_limit() {
    let stage = HubStage::new(&limit(6, "10s"));
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    let stage = stage.on_record(record);
    let _hubs = [stage.again(0).await, stage.again(1).await];
    share_a_limit(&stage).await;
}

/// A sidecar that keeps to a limit of 4, with its grant.
async fn with_grant(on_hub_loss: &str) -> (HubStage, Hub, Stage, Process) {
    let stage = HubStage::new(&limit(4, "5s"));
    let hub = stage.run().await;
    let federation = stage.federation("one", &keeps(on_hub_loss)).await;
    let sidecar = Process::run(&federation.config, &INFO).await;
    eventually("the sidecar has a grant", async || send(sidecar.client.address()).await.status == 201).await;
    (stage, hub, federation, sidecar)
}

async fn is_accepted(sidecar: &Process) -> bool {
    let answer = send(sidecar.client.address()).await;
    assert!(answer.status == 201 || is_refused(&answer), "{answer:?}");
    answer.status == 201
}

#[tokio::test]
async fn a_sidecar_keeps_to_its_grant_without_the_hub_until_it_ends_and_flexible_jobs_go_elsewhere() {
    let (stage, mut hub, _federation, sidecar) = with_grant("on_hub_loss: hold").await;
    hub.kill();
    sidecar.wait_for_line("ojs.federation.hub_lost").await;
    assert!(is_accepted(&sidecar).await, "the grant goes on");
    eventually("the grant ends", async || !is_accepted(&sidecar).await).await;
    let elsewhere = sidecar.client.enqueue(crate::support::job("b")).await;
    assert!(elsewhere.status == 201 && elsewhere.region() != REGION, "{elsewhere:?}");
    let _hub = stage.run().await;
    eventually("the hub grants calls again", async || is_accepted(&sidecar).await).await;
}

#[tokio::test]
async fn without_a_grant_a_sidecar_may_make_the_calls_that_its_configuration_permits() {
    let (_stage, mut hub, federation, sidecar) = with_grant("on_hub_loss: local, local_calls: 1").await;
    hub.kill();
    drop(sidecar);
    // A restarted sidecar has no grant.
    let sidecar = Process::run(&federation.config, &INFO).await;
    assert!(is_accepted(&sidecar).await);
    let gate = Gate::new();
    federation.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let held = tokio::spawn(send(sidecar.client.address()));
    eventually("the region holds a job", async || federation.regions[0].enqueues_under_way() == 1).await;
    assert!(!is_accepted(&sidecar).await, "one at once");
    gate.open();
    assert_eq!(held.await.unwrap().status, 201);
}

#[tokio::test]
async fn a_limit_that_refuses_without_a_hub_does_so_at_once_and_one_that_the_hub_lacks_grants_nothing() {
    let (mut stage, mut hub, _federation, sidecar) = with_grant("on_hub_loss: refuse").await;
    hub.kill();
    eventually("no call is made without a hub", async || !is_accepted(&sidecar).await).await;
    stage.set_more("");
    let _hub = stage.run().await;
    sidecar.wait_for_line("ojs.federation.hub_grants_refused").await;
    assert!(sidecar.log().iter().any(|line| line.contains("no limit for us-east-1")), "{:?}", sidecar.log());
    assert!(!is_accepted(&sidecar).await);
    let notes = sidecar.admin.get("/readyz").await.json()["notes"].to_string();
    assert!(notes.contains("limits.fleet: the hub has no limit for us-east-1"), "{notes}");
}

#[tokio::test]
async fn a_sidecar_that_ends_gives_its_calls_back_to_the_next_one() {
    let stage = HubStage::new(&limit(4, "60s"));
    let _hub = stage.run().await;
    let federation = stage.federation("one", &keeps("on_hub_loss: hold")).await;
    let mut sidecar = Process::run(&federation.config, &INFO).await;
    let mut clients = JoinSet::new();
    press(&mut clients, &sidecar, 8);
    eventually("it has the whole limit", async || granted(&stage, "one").await == 4).await;
    clients.shutdown().await;
    sidecar.terminate();
    assert!(sidecar.ended().await.0.success());
    assert_eq!(granted(&stage, "one").await, 0);
    let next = Process::run(&federation.config, &[&INFO[..], &["--set", "hub.name=two"]].concat()).await;
    eventually("the next one has calls", async || is_accepted(&next).await).await;
}
