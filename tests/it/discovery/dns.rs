//! Regions by a name server that adds, removes, lies, flaps and falls silent.

use super::name_server::Mood;
use super::stage::{Fleet, LOOK, assert_untouched};
use crate::support::eventually;

#[tokio::test(flavor = "local")]
async fn a_region_that_is_added_takes_traffic_after_its_first_proof_and_gets_only_a_handshake_before() {
    let fleet = Fleet::new().await;
    let region = fleet.good("eu-west-1").await;
    let federation = fleet.setup("").start().await;
    assert!(!federation.stores_in("eu-west-1").await);
    assert_eq!(region.record().connections().len(), 0);

    fleet.announce("eu.regions.test", &region, &["region=eu-west-1", "weight=7", "tags=gdpr,fast"]);
    federation.advance(LOOK);
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    assert!(federation.stores_in("eu-west-1").await);
    let connections = region.record().connections();
    assert!(connections[0].raw.is_empty(), "the proof is a handshake and nothing else");
    assert!(connections.iter().all(|it| it.client_subject.as_deref() == Some("CN=sidecar")));

    let shown = federation.client.get("/v1/federation/regions").await.json();
    let sources: Vec<_> = shown["regions"].as_array().unwrap().iter().map(|it| it["source"].clone()).collect();
    assert_eq!(sources, ["static", "dns"]);
    assert_eq!(shown["regions"][1]["weight"], 7);
    assert_eq!(shown["regions"][1]["tags"], serde_json::json!([]), "a name server's tags bind no job");
    let state = federation.admin.get("/state").await.json();
    let known = &state["discovery"]["regions"][0];
    assert_eq!((&known["state"], &known["proof"]), (&"in_force".into(), &"given".into()));
    assert_eq!(known["claimed_tags"], serde_json::json!(["fast", "gdpr"]));
}

#[tokio::test(flavor = "local")]
async fn not_a_byte_reaches_a_liar_and_it_is_counted_by_reason() {
    let fleet = Fleet::new().await;
    // One shows another region's identity, the other has a name that is not allowed.
    let liar = fleet.region("liar", "spiffe://test/ap-south-1").await;
    let stranger = fleet.good("us-west-1").await;
    fleet.announce("eu.regions.test", &liar, &["region=eu-west-1"]);
    fleet.announce("us.regions.test", &stranger, &["region=us-west-1"]);
    let federation = fleet.setup("").start().await;
    eventually("the liar is turned away", async || federation.rejected("identity").await >= 1.0).await;
    eventually("the stranger is turned away", async || federation.rejected("not_allowed").await >= 1.0).await;
    federation.look_at_names(3, "good").await;
    for id in ["eu-west-1", "us-west-1", "ap-south-1"] {
        assert!(!federation.stores_in(id).await);
    }
    assert_eq!(federation.known(), ["us-east-1"]);
    assert_untouched(&liar);
    assert_eq!(stranger.record().connections().len(), 0, "not even a handshake");
    let state = federation.admin.get("/state").await.json();
    let rejected = state["discovery"]["rejected"].as_array().unwrap();
    assert!(rejected.contains(&serde_json::json!({ "region": "eu-west-1", "reason": "identity" })), "{state}");
    assert!(rejected.contains(&serde_json::json!({ "region": "us-west-1", "reason": "not_allowed" })), "{state}");
}

#[tokio::test(flavor = "local")]
async fn a_moved_address_proves_itself_while_the_old_one_goes_on() {
    let fleet = Fleet::new().await;
    let (old, liar) = (fleet.good("eu-west-1").await, fleet.region("liar", "spiffe://evil/eu-west-1").await);
    fleet.announce("eu.regions.test", &old, &["region=eu-west-1"]);
    let federation = fleet.setup("").start().await;
    federation.knows(&["us-east-1", "eu-west-1"]).await;

    fleet.names.remove("eu.regions.test");
    fleet.announce("eu2.regions.test", &liar, &["region=eu-west-1"]);
    federation.look_at_names(1, "good").await;
    eventually("the liar is turned away", async || federation.rejected("identity").await >= 1.0).await;
    federation.look_at_names(3, "good").await;
    assert!(federation.stores_in("eu-west-1").await);
    assert_untouched(&liar);

    let new = fleet.good("eu-west-1").await;
    fleet.names.remove("eu2.regions.test");
    fleet.announce("eu3.regions.test", &new, &["region=eu-west-1"]);
    federation.look_at_names(2, "good").await;
    new.record().wait_for(|record| !record.requests().is_empty()).await;
    old.record().clear();
    assert!(federation.stores_in("eu-west-1").await);
    assert_eq!((new.jobs().len(), old.record().requests_to("/ojs/v1/jobs").len()), (1, 0));
}

#[tokio::test(flavor = "local")]
async fn a_region_goes_after_two_looks_and_by_no_answer_that_is_none() {
    let fleet = Fleet::new().await;
    let (eu, ap) = (fleet.good("eu-west-1").await, fleet.good("ap-south-1").await);
    fleet.announce("eu.regions.test", &eu, &["region=eu-west-1"]);
    fleet.announce("ap.regions.test", &ap, &["region=ap-south-1"]);
    let federation = fleet.setup("").start().await;
    federation.knows(&["us-east-1", "ap-south-1", "eu-west-1"]).await;
    for mood in [Mood::Empty, Mood::NoName, Mood::Broken, Mood::Silent] {
        fleet.names.set_mood(mood);
        federation.look_at_names(3, "failed").await;
        assert_eq!(federation.known().len(), 3, "{mood:?}");
    }
    assert!(federation.stores_in("ap-south-1").await);
    fleet.names.set_mood(Mood::Well);

    fleet.names.remove("ap.regions.test");
    federation.look_at_names(1, "good").await;
    assert_eq!(federation.known().len(), 3, "one look takes none out");
    federation.look_at_names(1, "good").await;
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    assert!(!federation.stores_in("ap-south-1").await);

    // The last one is gone from an answer that names others only: it is not believed.
    let liar = fleet.region("liar", "spiffe://test/ap-north-1").await;
    fleet.names.remove("eu.regions.test");
    fleet.announce("x.regions.test", &liar, &["region=ap-south-1"]);
    federation.look_at_names(4, "good").await;
    assert!(federation.stores_in("eu-west-1").await);
    assert_untouched(&liar);
}
