//! Regions that an operator puts at a hub, which sidecars learn by its feed.

use ojs_testbed::DemoRegion;

use super::stage::{Fleet, LOOK, assert_untouched};
use crate::hub::stage::{Hub, HubStage};
use crate::support::{Federation, Setup, eventually};

/// A hub as a process, and a sidecar's settings to discover regions by it.
struct Stage {
    fleet: Fleet,
    hubs: HubStage,
}

impl Stage {
    async fn new() -> (Self, Hub) {
        let stage = Self { fleet: Fleet::new().await, hubs: HubStage::new("") };
        let hub = stage.hubs.run().await;
        (stage, hub)
    }

    fn setup(&self) -> Setup {
        let cache = self.fleet.path().join("discovered.json");
        let keys = format!("hub: true, cache: {cache:?},");
        self.fleet.setup_with(&keys).yaml(&format!("{}\n", self.hubs.section("one")))
    }

    async fn order(&self, arguments: &[&str]) -> String {
        let done = self.hubs.order("ann", &[&["regions"], arguments].concat()).await;
        assert_eq!(done.code, Some(0), "{}", done.all());
        done.stdout
    }

    async fn put(&self, id: &str, region: &DemoRegion) {
        self.order(&["put", id, "--url", &region.url(), "--weight", "7", "--tag", "gdpr"]).await;
    }
}

/// Waits for a further look at the hub, an interval later.
async fn look(federation: &Federation, result: &str) {
    let before = federation.looks("hub", result).await;
    federation.advance(LOOK);
    eventually("the hub was looked at", async || federation.looks("hub", result).await > before).await;
}

#[tokio::test(flavor = "local")]
async fn a_region_that_is_put_at_the_hub_takes_traffic_after_its_first_proof_and_gets_only_a_handshake_before() {
    let (stage, _hub) = Stage::new().await;
    let region = stage.fleet.good("eu-west-1").await;
    let federation = stage.setup().start().await;
    assert!(!federation.stores_in("eu-west-1").await);
    // Time stands still: the feed alone brings it.
    stage.put("eu-west-1", &region).await;
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    assert!(federation.stores_in("eu-west-1").await);
    let connections = region.record().connections();
    assert!(connections[0].raw.is_empty(), "the proof is a handshake and nothing else");
    let shown = federation.client.get("/v1/federation/regions").await.json();
    assert_eq!((&shown["regions"][1]["source"], &shown["regions"][1]["weight"]), (&"hub".into(), &7.into()));
    assert_eq!(shown["regions"][1]["tags"], serde_json::json!([]), "the tags of a source bind no job");

    let moved = stage.fleet.good("eu-west-1").await;
    stage.put("eu-west-1", &moved).await;
    moved.record().wait_for(|record| !record.requests().is_empty()).await;
    assert!(moved.record().connections()[0].raw.is_empty(), "a moved one proves itself again");
    eventually("jobs go to its new place", async || {
        federation.stores_in("eu-west-1").await && !moved.jobs().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "local")]
async fn not_a_byte_reaches_a_region_of_the_hub_with_another_identity_and_the_file_wins() {
    let (stage, _hub) = Stage::new().await;
    let (liar, other) =
        (stage.fleet.region("liar", "spiffe://test/ap-south-1").await, stage.fleet.good("us-east-1").await);
    let (stranger, moved) =
        (stage.fleet.good("us-west-1").await, stage.fleet.region("liar2", "spiffe://evil/eu-west-2").await);
    let good = stage.fleet.good("eu-west-2").await;
    for (id, region) in [("eu-west-1", &liar), ("us-east-1", &other), ("us-west-1", &stranger), ("eu-west-2", &good)] {
        stage.put(id, region).await;
    }
    let federation = stage.setup().start().await;
    federation.knows(&["us-east-1", "eu-west-2"]).await;
    for reason in ["identity", "static", "not_allowed"] {
        eventually(reason, async || federation.rejected(reason).await >= 1.0).await;
    }
    // An id whose address moves to another identity stays where it is.
    let before = federation.rejected("identity").await;
    stage.put("eu-west-2", &moved).await;
    eventually("the moved one is turned away", async || federation.rejected("identity").await > before).await;
    look(&federation, "good").await;
    assert!(federation.stores_in("eu-west-2").await && !good.jobs().is_empty());
    for id in ["eu-west-1", "us-west-1"] {
        assert!(!federation.stores_in(id).await);
    }
    for region in [&liar, &moved, &other] {
        assert_untouched(region);
    }
    assert_eq!(stranger.record().connections().len(), 0, "not even a handshake");
    assert_eq!(other.record().connections().len(), 0);
}

#[tokio::test(flavor = "local")]
async fn a_deleted_region_goes_after_two_looks_that_agree_and_none_by_an_empty_or_a_lost_feed() {
    let (stage, mut hub) = Stage::new().await;
    let (eu, ap) = (stage.fleet.good("eu-west-1").await, stage.fleet.good("ap-south-1").await);
    stage.put("eu-west-1", &eu).await;
    stage.put("ap-south-1", &ap).await;
    let federation = stage.setup().start().await;
    federation.knows(&["us-east-1", "ap-south-1", "eu-west-1"]).await;

    let before = federation.looks("hub", "good").await;
    stage.order(&["delete", "ap-south-1"]).await;
    // The first look without it, and a further one at the same moment.
    stage.order(&["put", "eu-west-1", "--url", &eu.url(), "--weight", "8"]).await;
    eventually("two looks", async || federation.looks("hub", "good").await >= before + 2.0).await;
    assert!(federation.stores_in("ap-south-1").await, "two looks at once are one");
    // The word that the regions still hold is a look, too.
    look(&federation, "good").await;
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    assert!(!federation.stores_in("ap-south-1").await);

    let said = stage.order(&["delete", "eu-west-1"]).await;
    assert!(said.contains("discovery.allow"), "{said}");
    for _ in 0..3 {
        look(&federation, "failed").await;
    }
    assert!(federation.stores_in("eu-west-1").await, "an empty feed takes none out");
    hub.kill();
    for _ in 0..3 {
        look(&federation, "failed").await;
    }
    assert!(federation.stores_in("eu-west-1").await, "nor does a lost one");
    let state = federation.admin.get("/state").await.json();
    let source = &state["discovery"]["sources"][0];
    assert!(source["source"] == "hub" && source["trouble"].as_str().unwrap().contains("hub"), "{state}");
}

#[tokio::test(flavor = "local")]
async fn a_restart_without_the_hub_serves_the_regions_that_it_had_named() {
    let (stage, mut hub) = Stage::new().await;
    let eu = stage.fleet.good("eu-west-1").await;
    stage.put("eu-west-1", &eu).await;
    let federation = stage.setup().start().await;
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    let kept = || std::fs::read_to_string(stage.fleet.path().join("discovered.json")).unwrap_or_default();
    eventually("it is on disk", async || kept().contains("\"hub\"")).await;
    drop(federation);
    hub.kill();

    eu.record().clear();
    let federation = stage.setup().start().await;
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    assert!(federation.stores_in("eu-west-1").await);
    assert!(eu.record().connections().iter().any(|it| it.raw.is_empty()), "it proved itself again");
    drop(federation);

    // A hub that lost its record names none, and takes none out.
    std::fs::remove_file(stage.hubs.path("hub.db")).unwrap();
    let _hub = stage.hubs.run().await;
    let federation = stage.setup().start().await;
    look(&federation, "failed").await;
    assert!(federation.stores_in("eu-west-1").await);
}
