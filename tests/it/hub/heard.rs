//! `hub.fetch: heard`: workers get jobs only while the hub is heard.

use std::time::Duration;

use serde_json::{Value, json};

use super::INFO;
use super::later::LaterHub;
use super::stage::HubStage;
use crate::support::{Client, Federation, Process, Scrape, Setup, eventually, pinned};

const FETCH: &str = "/ojs/v1/workers/fetch";

fn setup(stage: &HubStage) -> Setup {
    Setup::default().yaml(&stage.section("one").replace("hub: {", "hub: { fetch: heard,"))
}

async fn fetch(client: &Client) -> Vec<Value> {
    let answer = client.post(FETCH, r#"{"queues":["default"],"worker_id":"w"}"#).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["jobs"].as_array().unwrap().clone()
}

/// A worker gets no job, and no region is asked.
async fn check_halted(federation: &Federation) {
    let asked = || federation.regions.iter().map(|it| it.record().requests_to(FETCH).len()).sum::<usize>();
    let before = asked();
    for _ in 0..3 {
        assert!(fetch(&federation.client).await.is_empty());
    }
    assert_eq!(asked(), before, "FETCH reached a region");
}

async fn waits(federation: &Federation) -> bool {
    federation.admin.get("/state").await.json()["fetch_waits"] == true
}

#[tokio::test]
async fn workers_get_jobs_from_the_first_message_of_the_hub_until_its_lease_ends() {
    let mut stage = HubStage::new("");
    let hub = LaterHub::start(&mut stage).await;
    let federation = setup(&stage).steered().steered_leases().stage().await.launch();
    hub.asked(1).await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(federation.client.enqueue(pinned("us-east-1", name)).await.status, 201, "enqueues go on");
    }
    check_halted(&federation).await;
    assert!(waits(&federation).await);
    for round in 0..2 {
        hub.say(": live\n\n");
        eventually("the end of the wait", async || !waits(&federation).await).await;
        let leased = fetch(&federation.client).await.remove(0);
        federation.advance(Duration::from_secs(9));
        assert_eq!(fetch(&federation.client).await.len(), 1, "within the lease");
        federation.advance(Duration::from_secs(1));
        eventually("the end of the lease", async || waits(&federation).await).await;
        check_halted(&federation).await;
        // Words about a leased job go on.
        let ack = json!({ "job_id": leased["id"], "worker_id": "w" }).to_string();
        assert_eq!(federation.client.post("/ojs/v1/workers/ack", ack).await.status, 200, "{round}");
        assert_eq!(Scrape::of(&federation.admin).await.value("hub_fetch_waits"), 1.0);
        assert_eq!(Scrape::of(&federation.admin).await.value("hub_cut_off"), 0.0);
    }
    let notes = federation.admin.get("/readyz").await.json()["notes"].to_string();
    assert!(notes.contains("hub.fetch: the hub is not heard"), "{notes}");
    let regions = federation.client.get("/v1/federation/regions").await.json();
    assert_eq!(regions["cut_off"], false, "no region is cut off in a mesh");
}

#[tokio::test]
async fn a_reload_keeps_the_lease_and_a_kill_ends_it() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    let federation = setup(&stage).stage().await;
    let sidecar = Process::run(&federation.config, &INFO).await;
    sidecar.wait_for_line("ojs.federation.hub_fetch_goes_on").await;
    assert_eq!(sidecar.client.enqueue(pinned("us-east-1", "a")).await.status, 201);
    let configuration = std::fs::read_to_string(&federation.config).unwrap() + "\nidempotency: { ttl: 2h }\n";
    std::fs::write(&federation.config, configuration).unwrap();
    sidecar.signal("HUP");
    sidecar.wait_for_line("configuration_reloaded").await;
    assert_eq!(fetch(&sidecar.client).await.len(), 1);
    hub.kill();
    drop(sidecar);
    let sidecar = Process::run(&federation.config, &INFO).await;
    assert_eq!(sidecar.client.enqueue(pinned("us-east-1", "b")).await.status, 201);
    assert!(fetch(&sidecar.client).await.is_empty());
}
