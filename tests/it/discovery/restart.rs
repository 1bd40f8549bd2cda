//! A sidecar that starts again without its source.

use super::name_server::Mood;
use super::stage::Fleet;
use crate::support::eventually;

#[tokio::test(flavor = "local")]
async fn a_restart_without_dns_serves_and_a_damaged_file_does_no_harm() {
    let fleet = Fleet::new().await;
    let eu = fleet.good("eu-west-1").await;
    fleet.announce("eu.regions.test", &eu, &["region=eu-west-1", "weight=3"]);
    let cache = fleet.path().join("discovered.json");
    let keys = format!("cache: {cache:?},");
    let federation = fleet.setup(&keys).start().await;
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    let kept = || std::fs::read_to_string(&cache).unwrap_or_default();
    eventually("it is on disk", async || kept().contains("spiffe://test/eu-west-1")).await;
    drop(federation);

    fleet.names.set_mood(Mood::Silent);
    eu.record().clear();
    let federation = fleet.setup(&keys).start().await;
    // Ready means that the regions of before were asked.
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    assert!(federation.stores_in("eu-west-1").await);
    assert!(eu.record().connections().iter().any(|it| it.raw.is_empty()), "it proved itself again");
    drop(federation);

    // At the address of before is another server now.
    eu.set_server(fleet.authority.server(&["spiffe://evil/eu-west-1"])).unwrap();
    eu.cut_connections().await;
    eu.record().clear();
    let federation = fleet.setup(&keys).start().await;
    eventually("it is turned away", async || federation.rejected("identity").await >= 1.0).await;
    assert!(!federation.stores_in("eu-west-1").await);
    super::stage::assert_untouched(&eu);
    drop(federation);

    std::fs::write(&cache, "{ torn").unwrap();
    let federation = fleet.setup(&keys).start().await;
    assert_eq!(federation.known(), ["us-east-1"]);
    let aside = fleet.path().join("discovered.json.damaged");
    assert_eq!(std::fs::read_to_string(aside).unwrap(), "{ torn");
    federation.look_at_names(2, "failed").await;
    assert!(!cache.exists(), "nothing is written before a source has named a region");
}
