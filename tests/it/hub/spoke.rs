//! A spoke: it takes its picture of other spokes from its hub, and sends to other regions only while it hears it.

use std::time::Duration;

use ojs_testbed::{Fault, FaultAnswer, JobState, When};
use serde_json::Value;

use super::INFO;
use super::later::LaterHub;
use super::stage::HubStage;
use super::views::regions;
use crate::support::{Answer, Client, Federation, Process, Scrape, Setup, eventually, job, pinned};

const SPOKES: &str = "topology: hub-spoke\nhealth_check: { interval: 3s }\nload: { interval: 1s }\n";
const FETCH: &str = "/ojs/v1/workers/fetch";
const ACK: &str = "/ojs/v1/workers/ack";
const HEALTH: &str = "/ojs/v1/health";
/// The places of the local spoke, the other spoke, and the region of the hub.
const LOCAL: usize = 0;
const OTHER: usize = 1;
const HUB: usize = 2;

/// A federation of two spokes and a hub, for a sidecar in the first spoke.
fn spoke(hubs: &HubStage, more: &str) -> Setup {
    let setup = Setup::default().yaml(&hubs.section("one")).yaml(SPOKES).yaml(more);
    setup.region(HUB, "is_hub: true")
}

async fn shown(client: &Client) -> Value {
    client.get("/v1/federation/regions").await.json()
}

async fn is_cut_off(client: &Client) -> bool {
    shown(client).await["cut_off"] == true
}

/// Waits until the sidecar hears its hub, and has its view of the other spoke.
async fn has_picture(client: &Client) {
    eventually("the picture of the hub", async || {
        let shown = shown(client).await;
        let other = &shown["regions"][OTHER];
        shown["cut_off"] == false && other["status"] == "healthy" && other["health_source"] == "hub"
    })
    .await;
}

fn check_hub_lost(answer: &Answer, region: Option<&str>) {
    let document = answer.check_error(503, "backend_error", "hub_unavailable");
    assert!((1..=8).contains(&answer.retry_after()), "{answer:?}");
    assert_eq!(document["details"]["region"].as_str(), region, "{document}");
}

/// A worker's FETCH from this queue; the ids of the jobs that it brings.
async fn fetch(client: &Client, queue: &str) -> Vec<String> {
    let body = format!(r#"{{"queues":["{queue}"],"count":1,"worker_id":"w"}}"#);
    let answer = client.post(FETCH, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let id = |job: &Value| job["id"].as_str().unwrap().to_owned();
    answer.json()["jobs"].as_array().unwrap().iter().map(id).collect()
}

async fn ack(client: &Client, id: &str) {
    let answer = client.post(ACK, format!(r#"{{"job_id":"{id}","worker_id":"w"}}"#)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// One job by the local region alone: enqueued, fetched, acknowledged.
async fn works_locally(client: &Client, name: &str) {
    let stored = client.enqueue(job(name)).await;
    assert_eq!((stored.status.as_u16(), stored.region()), (201, "us-east-1"), "{stored:?}");
    assert_eq!(fetch(client, "default").await, [stored.job_id()]);
    ack(client, &stored.job_id()).await;
}

/// The requests that a region has got since its record was cleared, but for probes of its hub and of sidecars beside it.
fn got(federation: &Federation, place: usize) -> Vec<String> {
    let requests = federation.regions[place].record().requests();
    let by_sidecar = requests.iter().filter(|it| it.client_subject.as_ref().is_some_and(|by| by.contains("sidecar")));
    by_sidecar.map(|it| format!("{} {}", it.method, it.path)).collect()
}

#[tokio::test]
async fn a_spoke_without_its_hub_works_locally_for_ten_minutes_and_sends_nothing_to_another_region() {
    let mut hubs = HubStage::new("");
    hubs.run().await.kill();
    let remote = "workers: { remote_fetch: [shared] }\nfailover: { prefer_regions: [eu-west-1] }";
    let stage = spoke(&hubs, remote).steered().steered_leases().stage().await;
    hubs.set_more(&regions(&stage, |_| None));
    let mut hub = hubs.run().await;
    let federation = stage.launch();
    let client = federation.client;
    has_picture(&client).await;
    let stored = client.enqueue(pinned("eu-west-1", "before")).await;
    assert_eq!((stored.status.as_u16(), stored.region()), (201, "eu-west-1"), "{stored:?}");
    let unavailable = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "unavailable");
    federation.regions[LOCAL].faults().add(When::enqueue(), Fault::Answer { answer: unavailable, store: false });
    let stored = client.enqueue(r#"{"type":"email.send","args":["leased"],"options":{"queue":"shared"}}"#).await;
    assert_eq!((stored.status.as_u16(), stored.region()), (201, "eu-west-1"), "{stored:?}");
    federation.regions[LOCAL].faults().clear();
    let leased = stored.job_id();
    assert_eq!(fetch(&client, "shared").await, std::slice::from_ref(&leased));
    // The lease outlives the hub by its time, and no longer.
    hub.kill();
    eventually("the loss of the feed", async || Scrape::of(&federation.admin).await.value("hub_connected") == 0.0)
        .await;
    federation.advance(Duration::from_secs(9));
    assert_eq!(client.enqueue(pinned("eu-west-1", "within the lease")).await.status, 201);
    federation.advance(Duration::from_secs(1));
    eventually("the end of the lease", async || is_cut_off(&client).await).await;
    // Words about a job that another region leased still go there.
    ack(&client, &leased).await;
    let jobs = federation.regions[OTHER].jobs();
    assert!(jobs.iter().any(|it| it.id == leased && it.state == JobState::Completed), "{jobs:?}");
    federation.regions.iter().for_each(|region| region.record().clear());
    for second in 0..600 {
        federation.advance(Duration::from_secs(1));
        if second % 5 == 0 {
            works_locally(&client, "canary").await;
            check_hub_lost(&client.enqueue(pinned("eu-west-1", "canary")).await, Some("eu-west-1"));
            check_hub_lost(&client.enqueue(pinned("ap-south-1", "canary")).await, Some("ap-south-1"));
        }
    }
    assert_eq!(got(&federation, OTHER), [""; 0], "requests at the other spoke");
    let at_hub = got(&federation, HUB);
    assert!(!at_hub.is_empty() && at_hub.iter().all(|it| it == "GET /ojs/v1/health"), "{at_hub:?}");
    assert_eq!(federation.seen("canary"), [LOCAL]);
    // A list names the regions that are missing from it, and a look-up that needs them says why.
    let list = client.get("/ojs/v1/queues").await;
    assert_eq!((list.status.as_u16(), list.header("ojs-federation-partial")), (200, Some("eu-west-1, ap-south-1")));
    check_hub_lost(&client.get(&format!("/ojs/v1/jobs/{leased}")).await, Some("eu-west-1"));
    assert_eq!(got(&federation, OTHER), [""; 0]);
    let state = federation.admin.get("/state").await.json();
    assert_eq!((&state["cut_off"], &state["topology"]), (&true.into(), &"hub-spoke".into()));
    let cut = |place: usize| state["regions"][place]["cut_off"] == true && state["regions"][place]["usable"] == false;
    assert!(!cut(LOCAL) && cut(OTHER) && cut(HUB), "{state}");
    let notes = federation.admin.get("/readyz").await.json()["notes"].to_string();
    assert!(notes.contains("hub-spoke: the hub is not heard"), "{notes}");
    assert_eq!(Scrape::of(&federation.admin).await.value("hub_cut_off"), 1.0);
    // The hub is back.
    let _hub = hubs.run().await;
    eventually("the end of the cut", async || {
        federation.advance(Duration::from_secs(1));
        !is_cut_off(&client).await
    })
    .await;
    let stored = client.enqueue(pinned("eu-west-1", "after")).await;
    assert_eq!((stored.status.as_u16(), stored.region()), (201, "eu-west-1"), "{stored:?}");
    assert_eq!(Scrape::of(&federation.admin).await.value("hub_cut_off"), 0.0);
}

#[tokio::test]
async fn one_message_of_the_feed_ends_a_cut() {
    let mut hubs = HubStage::new("");
    let hub = LaterHub::start(&mut hubs).await;
    let federation = spoke(&hubs, "").steered().stage().await.launch();
    let client = federation.client;
    hub.asked(1).await;
    // No job leaves before the hub was heard at all.
    check_hub_lost(&client.enqueue(pinned("eu-west-1", "a")).await, Some("eu-west-1"));
    for _ in 0..3 {
        hub.say(": live\n\n");
        eventually("the end of the cut", async || !is_cut_off(&client).await).await;
        assert_eq!(client.enqueue(pinned("eu-west-1", "b")).await.region(), "eu-west-1");
        // Each sign of life renews the lease.
        federation.advance(Duration::from_secs(9));
        let before = federation.current.load().registry.hub_heard();
        hub.say(": live\n\n");
        eventually("the next sign", async || federation.current.load().registry.hub_heard() > before).await;
        federation.advance(Duration::from_secs(9));
        assert_eq!(client.enqueue(pinned("eu-west-1", "c")).await.region(), "eu-west-1");
        federation.advance(Duration::from_secs(1));
        eventually("the end of the lease", async || is_cut_off(&client).await).await;
        check_hub_lost(&client.enqueue(pinned("eu-west-1", "d")).await, Some("eu-west-1"));
    }
}

#[tokio::test]
async fn a_flexible_job_of_a_cut_off_spoke_whose_own_region_is_down_is_sent_nowhere() {
    let hubs = HubStage::new("");
    hubs.run().await.kill();
    let federation = spoke(&hubs, "").steered().stage().await.launch();
    let client = federation.client;
    federation.advance_until_health(LOCAL, "healthy").await;
    federation.regions[LOCAL].faults().add(When::enqueue(), Fault::Refuse);
    check_hub_lost(&client.enqueue(job("canary")).await, None);
    let out = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "unavailable");
    federation.regions[LOCAL].faults().add(When::health(), Fault::Answer { answer: out, store: false });
    federation.advance_until_health(LOCAL, "unhealthy").await;
    check_hub_lost(&client.enqueue(job("canary")).await, None);
    client.enqueue(pinned("us-east-1", "mine")).await.check_error(503, "backend_error", "region_unavailable");
    for place in [OTHER, HUB] {
        assert_eq!(federation.regions[place].record().requests_to("/ojs/v1/jobs").len(), 0);
    }
    assert!(federation.seen("canary").is_empty(), "{:?}", federation.seen("canary"));
}

#[tokio::test]
async fn a_spoke_probes_its_own_region_and_that_of_its_hub_and_heeds_the_hub_about_other_spokes() {
    let mut hubs = HubStage::new("");
    hubs.run().await.kill();
    let stage =
        spoke(&hubs, "circuit_breaker: { cooldown: 1s }\nfailover: { prefer_regions: [eu-west-1] }").stage().await;
    hubs.set_more(&regions(&stage, |_| None));
    let _hub = hubs.run().await;
    let sidecar = Process::run(&stage.config, &INFO).await;
    has_picture(&sidecar.client).await;
    let asked = |place: usize, by: &str| {
        let requests = stage.regions[place].record().requests_to(HEALTH);
        requests.iter().filter(|it| it.client_subject.as_ref().is_some_and(|subject| subject.contains(by))).count()
    };
    // The other spoke is the first that its jobs would go to, and no connection there is kept ready by a health request.
    assert_eq!(sidecar.client.enqueue(job("a")).await.region(), "us-east-1");
    for place in [LOCAL, HUB] {
        let before = asked(place, "sidecar");
        eventually("own probes", async || asked(place, "sidecar") >= before + 2).await;
    }
    // Its calls open the breaker of the other spoke, and the next probe of the hub behind the cooldown closes it.
    let other = async || shown(&sidecar.client).await["regions"][OTHER].clone();
    let unavailable = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "unavailable");
    let out = Fault::Answer { answer: unavailable, store: false };
    stage.regions[OTHER].faults().add(When::enqueue(), out.clone());
    eventually("the breaker opens", async || {
        assert_eq!(sidecar.client.enqueue(pinned("eu-west-1", "b")).await.status, 503);
        other().await["circuit_breaker"] != "closed"
    })
    .await;
    stage.regions[OTHER].faults().clear();
    eventually("the breaker closes", async || sidecar.client.enqueue(pinned("eu-west-1", "c")).await.status == 201)
        .await;
    // It finds the other spoke as the hub finds it.
    stage.regions[OTHER].faults().add(When::health(), out);
    eventually("the hub's word", async || other().await["status"] == "unhealthy").await;
    let refused = sidecar.client.enqueue(pinned("eu-west-1", "d")).await;
    refused.check_error(503, "backend_error", "region_unavailable");
    stage.regions[OTHER].faults().clear();
    has_picture(&sidecar.client).await;
    assert_eq!(asked(OTHER, "sidecar"), 0, "health requests of a spoke at another one");
    assert!(asked(OTHER, "hub") > 0);
}

#[tokio::test]
async fn a_spoke_that_begins_without_its_hub_is_ready_says_so_and_goes_on_with_it() {
    let mut hubs = HubStage::new("");
    hubs.run().await.kill();
    let stage = spoke(&hubs, "").stage().await;
    let configuration = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, configuration.replace("name: one,", "name: one, lease: 5s,")).unwrap();
    hubs.set_more(&regions(&stage, |_| None));
    let sidecar = Process::run(&stage.config, &INFO).await;
    works_locally(&sidecar.client, "a").await;
    check_hub_lost(&sidecar.client.enqueue(pinned("eu-west-1", "b")).await, Some("eu-west-1"));
    sidecar.wait_for_line("ojs.federation.hub_cut_off").await;
    let _hub = hubs.run().await;
    sidecar.wait_for_line("ojs.federation.hub_heard").await;
    has_picture(&sidecar.client).await;
    let stored = sidecar.client.enqueue(pinned("eu-west-1", "c")).await;
    assert_eq!((stored.status.as_u16(), stored.region()), (201, "eu-west-1"), "{stored:?}");
    // Its reload keeps what it has heard: no job is refused meanwhile.
    let configuration = std::fs::read_to_string(&stage.config).unwrap();
    std::fs::write(&stage.config, configuration.replace("interval: 3s", "interval: 4s")).unwrap();
    sidecar.signal("HUP");
    eventually("the reload", async || {
        let stored = sidecar.client.enqueue(pinned("eu-west-1", "d")).await;
        assert_eq!(stored.status, 201, "{stored:?}");
        sidecar.log().iter().any(|line| line.contains("ojs.federation.configuration_reloaded"))
    })
    .await;
    for _ in 0..20 {
        assert_eq!(sidecar.client.enqueue(pinned("eu-west-1", "e")).await.status, 201);
    }
}
