//! One view for many: sidecars that use the probes and load polls of their hub, and their own without it.

use http::Method;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::Value;

use super::stage::HubStage;
use super::{INFO, goes_to};
use crate::support::{Client, Process, Scrape, Stage, eventually, job, pinned};

const FOLLOWING: &str = "health_check: { source: hub, interval: 3s }\nload: { interval: 1s }";
const HEALTH: &str = "/ojs/v1/health";
const STATS: &str = "/ojs/v1/queues/default/stats";

/// The regions of a stage, for the configuration of the hub, by a certificate of its own. `url`: another URL for some of them.
pub(super) fn regions(stage: &Stage, url: impl Fn(usize) -> Option<&'static str>) -> String {
    let mut yaml = String::from("health_check: { interval: 3s }\nload: { interval: 1s }\nregions:\n");
    for (place, (region, authority)) in stage.regions.iter().zip(&stage.authorities).enumerate() {
        let (id, dir) = (region.id(), stage.files.path());
        let client = authority.client("hub").write_to(dir, &format!("{id}-hub")).unwrap();
        let url = url(place).map_or_else(|| region.url(), str::to_owned);
        let ca = dir.join(format!("{id}.ca.pem"));
        yaml += &format!(
            "- {{ id: {id}, url: \"{url}\", tls: {{ ca: {ca:?}, cert: {:?}, key: {:?} }} }}\n",
            client.cert, client.key
        );
    }
    yaml
}

/// How many requests with this path have come to a region, from clients whose certificate has this name.
fn asked(stage: &Stage, place: usize, path: &str, subject: &str) -> usize {
    let requests = stage.regions[place].record().requests_to(path);
    let is_by = |it: &&ojs_testbed::Recorded| it.client_subject.as_ref().is_some_and(|by| by.contains(subject));
    requests.iter().filter(|it| it.method == Method::GET).filter(is_by).count()
}

async fn shown(client: &Client) -> Vec<Value> {
    client.get("/v1/federation/regions").await.json()["regions"].as_array().unwrap().clone()
}

/// Waits until the health of all regions of a sidecar has this source.
async fn probed_by(sidecars: &[&Process], source: &str) {
    for sidecar in sidecars {
        eventually(source, async || shown(&sidecar.client).await.iter().all(|it| it["health_source"] == source)).await;
    }
}

/// Waits for two more rounds of the hub at every region, in which no sidecar probes or polls. Its own word is taken for the probes: a sidecar
/// that has sent jobs keeps connections ready by health requests, which are none.
async fn only_the_hub_asks(stage: &Stage, sidecars: &[&Process]) {
    stage.regions.iter().for_each(|region| region.record().clear());
    let mut before = Vec::new();
    for sidecar in sidecars {
        before.push(Scrape::of(&sidecar.admin).await);
    }
    for place in 0..stage.regions.len() {
        eventually("two probes of the hub", async || asked(stage, place, HEALTH, "hub") >= 2).await;
    }
    for (sidecar, before) in sidecars.iter().zip(&before) {
        let after = Scrape::of(&sidecar.admin).await;
        assert!(after.changes(before, &["probes_total"]).is_empty(), "own probes");
        for place in 0..stage.regions.len() {
            assert_eq!(asked(stage, place, "/ojs/v1/queues/", "sidecar"), 0, "load polls of sidecars at {place}");
        }
    }
}

#[tokio::test]
async fn sidecars_leave_probes_and_load_polls_to_their_hub_and_probe_by_themselves_while_it_is_away() {
    let mut hubs = HubStage::new("");
    hubs.run().await.kill();
    let stage = hubs.federation("one", FOLLOWING).await;
    hubs.set_more(&regions(&stage, |_| None));
    let mut hub = hubs.run().await;
    let one = Process::run(&stage.config, &INFO).await;
    let two = Process::run(&stage.config, &[&INFO[..], &["--set", "hub.name=two"]].concat()).await;
    let three = Process::run(&stage.config, &[&INFO[..], &["--set", "hub.name=three"]].concat()).await;
    let all = [&one, &two, &three];
    probed_by(&all, "hub").await;
    only_the_hub_asks(&stage, &all).await;
    assert!((0..3).all(|place| asked(&stage, place, HEALTH, "sidecar") == 0));
    // The hub learns which queues are in use, polls them for all, and each sidecar has the figures of every region.
    assert_eq!(goes_to(&one).await, "us-east-1");
    eventually("the load that the hub has polled", async || {
        let state = one.admin.get("/state").await.json();
        let has = |it: &Value| it["load"]["queues"]["default"]["depth"].is_u64();
        state["regions"].as_array().unwrap().iter().all(has)
    })
    .await;
    only_the_hub_asks(&stage, &all).await;
    assert!(asked(&stage, 0, STATS, "hub") > 0);
    let metrics = one.admin.get("/metrics").await;
    assert!(String::from_utf8_lossy(&metrics.body).contains("ojs_federation_hub_views 3"));
    // A region that goes down is left by all, and taken again, by the hub's word.
    let out = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "unavailable");
    let down = Fault::Answer { answer: out, store: false };
    stage.regions[0].faults().add(When::health(), down.clone());
    for sidecar in all {
        eventually("the hub's word is heeded", async || goes_to(sidecar).await != "us-east-1").await;
        let error = &shown(&sidecar.client).await[0]["last_error"];
        // Each sidecar checks the hub's word by one probe of its own, whose error may be the last one.
        assert!(error["message"].as_str().unwrap().contains("503"), "{error}");
    }
    stage.regions[0].faults().clear();
    for sidecar in all {
        eventually("the region is back", async || goes_to(sidecar).await == "us-east-1").await;
    }
    // Without the hub each sidecar probes by itself, and routes around what fails then.
    hub.kill();
    probed_by(&all, "own").await;
    stage.regions[0].faults().add(When::health(), down);
    for sidecar in all {
        eventually("its own probe is heeded", async || goes_to(sidecar).await != "us-east-1").await;
    }
    stage.regions[0].faults().clear();
    // It is back: their own probes end.
    let _hub = hubs.run().await;
    probed_by(&all, "hub").await;
    only_the_hub_asks(&stage, &all).await;
}

#[tokio::test]
async fn a_hub_that_sees_every_region_down_is_not_heeded_where_the_regions_answer() {
    let mut hubs = HubStage::new("");
    hubs.run().await.kill();
    let stage = hubs.federation("one", FOLLOWING).await;
    hubs.set_more(&regions(&stage, |_| Some("https://127.0.0.1:1")));
    let _hub = hubs.run().await;
    let sidecar = Process::run(&stage.config, &INFO).await;
    hubs.follows("one").await;
    for place in 0..stage.regions.len() {
        eventually("own probes", async || {
            assert_eq!(sidecar.client.enqueue(job("a")).await.status, 201);
            asked(&stage, place, HEALTH, "sidecar") >= 3
        })
        .await;
    }
    let regions = shown(&sidecar.client).await;
    assert!(regions.iter().all(|it| it["status"] == "healthy" && it["health_source"] == "own"), "{regions:?}");
}

#[tokio::test]
async fn a_region_that_only_the_hub_cannot_reach_hands_out_jobs_and_takes_new_ones() {
    let mut hubs = HubStage::new("");
    hubs.run().await.kill();
    let stage = hubs.federation("one", FOLLOWING).await;
    hubs.set_more(&regions(&stage, |place| (place == 0).then_some("https://127.0.0.1:1")));
    let mut hub = hubs.run().await;
    let sidecar = Process::run(&stage.config, &INFO).await;
    hubs.follows("one").await;
    // No job was refused: the sidecar checks the hub's word by itself, and its own answer counts until the hub agrees.
    eventually("the region is found healthy", async || {
        let local = &shown(&sidecar.client).await[0];
        local["status"] == "healthy" && local["health_source"] == "own"
    })
    .await;
    let fetch = r#"{"queues":["default"],"count":1,"worker_id":"w"}"#;
    assert_eq!(sidecar.client.post("/ojs/v1/workers/fetch", fetch).await.status, 200);
    eventually("flexible jobs go there", async || goes_to(&sidecar).await == "us-east-1").await;
    let probes =
        async || Scrape::of(&sidecar.admin).await.value(r#"probes_total{region="us-east-1",result="healthy"}"#);
    let before = probes().await;
    eventually("own probes go on", async || {
        assert_eq!(sidecar.client.enqueue(pinned("us-east-1", "b")).await.status, 201);
        probes().await >= before + 3.0
    })
    .await;
    assert_eq!(shown(&sidecar.client).await[1]["health_source"], "hub");
    hub.kill();
    hubs.set_more(&regions(&stage, |_| None));
    let _hub = hubs.run().await;
    probed_by(&[&sidecar], "hub").await;
    only_the_hub_asks(&stage, &[&sidecar]).await;
}
