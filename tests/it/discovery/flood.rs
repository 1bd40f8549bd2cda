//! A source that changes too much, too often, or names too many.

use std::time::Duration;

use super::stage::{Fleet, LOOK};
use crate::support::eventually;

#[tokio::test(flavor = "local")]
async fn so_many_changes_a_minute_are_put_in_force_and_the_rest_waits() {
    let fleet = Fleet::new().await;
    let ids = ["ap-1", "ap-2", "ap-3", "ap-4", "ap-5"];
    let mut regions = Vec::new();
    for id in ids {
        let region = fleet.good(id).await;
        fleet.announce(&format!("{id}.regions.test"), &region, &[&format!("region={id}")]);
        regions.push(region);
    }
    let federation = fleet.setup("changes_per_minute: 2, regions_max: 4,").start().await;
    eventually("two wait", async || federation.metric("discovery_regions{state=\"waiting\"}").await >= 2.0).await;
    eventually("two are in force", async || federation.known().len() == 3).await;
    assert!(federation.rejected("full").await >= 1.0);
    for id in &ids[..4] {
        let is_known = federation.known().iter().any(|known| known == id);
        assert_eq!(federation.stores_in(id).await, is_known, "the others wait");
    }
    federation.advance(LOOK);
    federation.advance(Duration::from_secs(30));
    federation.knows(&["us-east-1", "ap-1", "ap-2", "ap-3", "ap-4"]).await;
    assert!(federation.stores_in("ap-4").await);
    assert_eq!(regions[4].record().connections().len(), 0, "there was no room for it");
}
