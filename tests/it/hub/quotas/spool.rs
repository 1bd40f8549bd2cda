//! Jobs of the outage spool that a quota counts.

use serde_json::json;

use super::{HubStage, eventually, put, send, shown, sidecar};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_outage_spool_waits_for_a_token_before_it_is_sent() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let (spool, key) = (stage.path("spool"), stage.path("spool.key"));
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    let yaml = format!(
        "spool: {{ path: {spool:?}, key_file: {key:?}, queues: [\"*\"] }}\n\
         health_check: {{ interval: 100ms, timeout: 2s }}\n\
         circuit_breaker: {{ cooldown: 100ms, early_probe: 50ms, hold_down_changes: 0, slow_start: 0s }}"
    );
    let federation = stage.federation("one", &yaml).await;
    let one = sidecar(&federation, "one").await;
    put(&stage, &json!({ "tenant": "acme", "maxPerHour": 3, "burst": 3 })).await;
    eventually("the sidecar has tokens", async || shown(&stage).await["granted"] == 3).await;
    for region in &federation.regions {
        region.stop().await;
    }
    // Those that go to no region take no token: more are held than an hour may have.
    let mut held = 0;
    eventually("five jobs are held", async || {
        held += usize::from(send(&one).await.status == 202);
        held == 5
    })
    .await;
    federation.regions[0].resume().await.unwrap();
    let count = || federation.regions[0].jobs().len();
    eventually("the jobs with tokens are sent", async || count() > 0 && shown(&stage).await["granted"] == 0).await;
    // Each turn of the drain finds none: the hub hears of the need, and the jobs stay.
    eventually("the hub has counted them", async || shown(&stage).await["usedInLastHour"] == 3).await;
    assert!(count() <= 3, "{} jobs", count());
    put(&stage, &json!({ "tenant": "acme", "maxPerHour": 20, "burst": 20 })).await;
    eventually("the others are sent", async || count() == 5).await;
    eventually("the hub has counted all", async || shown(&stage).await["usedInLastHour"].as_u64() >= Some(5)).await;
}
