//! Regions by a watched directory, and the file of the configuration, which wins.

use std::path::Path;

use ojs_testbed::{DemoRegion, Fault, When};

use super::stage::{Fleet, LOOK, assert_untouched};
use crate::support::{Federation, eventually, pinned};

fn put(folder: &Path, id: &str, region: &DemoRegion) {
    let new = folder.join(".new");
    std::fs::write(&new, format!("id: {id}\nurl: {}\n", region.url())).unwrap();
    std::fs::rename(new, folder.join(format!("{id}.yaml"))).unwrap();
}

/// A fleet whose source is the folder `regions`.
async fn start(fleet: &Fleet) -> (std::path::PathBuf, Federation) {
    let folder = fleet.path().join("regions");
    std::fs::create_dir(&folder).unwrap();
    let federation = fleet.setup_with(&format!("directory: {folder:?},")).start().await;
    (folder, federation)
}

async fn look(federation: &Federation, result: &str) {
    let before = federation.looks("directory", result).await;
    federation.advance(LOOK);
    eventually("the directory was looked at", async || federation.looks("directory", result).await > before).await;
}

#[tokio::test(flavor = "local")]
async fn files_add_and_remove_regions_and_no_torn_or_missing_one_takes_any_out() {
    let fleet = Fleet::new().await;
    let (eu, ap) = (fleet.good("eu-west-1").await, fleet.good("ap-south-1").await);
    let (folder, federation) = start(&fleet).await;
    // Time stands still: the watch alone notices it.
    put(&folder, "eu-west-1", &eu);
    put(&folder, "ap-south-1", &ap);
    federation.knows(&["us-east-1", "ap-south-1", "eu-west-1"]).await;
    assert!(federation.stores_in("ap-south-1").await);

    std::fs::write(folder.join("ap-south-1.yaml"), "id: ap-").unwrap();
    for _ in 0..3 {
        look(&federation, "good").await;
    }
    assert_eq!(federation.known().len(), 3, "a torn file takes none out");
    let away = fleet.path().join("away");
    std::fs::rename(&folder, &away).unwrap();
    for _ in 0..3 {
        look(&federation, "failed").await;
    }
    assert_eq!(federation.known().len(), 3);
    std::fs::rename(&away, &folder).unwrap();
    std::fs::remove_file(folder.join("ap-south-1.yaml")).unwrap();
    look(&federation, "good").await;
    look(&federation, "good").await;
    look(&federation, "good").await;
    federation.knows(&["us-east-1", "eu-west-1"]).await;
}

#[tokio::test(flavor = "local")]
async fn the_file_wins_and_its_reload_keeps_the_discovered_regions() {
    let fleet = Fleet::new().await;
    let (eu, other) = (fleet.good("eu-west-1").await, fleet.good("us-east-1").await);
    let (folder, federation) = start(&fleet).await;
    put(&folder, "us-east-1", &other);
    put(&folder, "eu-west-1", &eu);
    federation.knows(&["us-east-1", "eu-west-1"]).await;
    eventually("the file wins", async || federation.rejected("static").await >= 1.0).await;
    assert_untouched(&other);

    let good = std::fs::read_to_string(&federation.config).unwrap();
    let applied = "reloads_total{kind=\"configuration\",result=\"applied\"}";
    std::fs::write(&federation.config, format!("routing: {{ strategy: overflow }}\n{good}")).unwrap();
    let mut refused = 0;
    eventually("the file is in force", async || {
        refused += u32::from(!federation.stores_in("eu-west-1").await);
        federation.metric(applied).await >= 1.0
    })
    .await;
    assert!(federation.stores_in("eu-west-1").await && refused == 0, "{refused} were refused");
    assert_eq!(federation.known(), ["us-east-1", "eu-west-1"]);
    let shown = federation.admin.get("/config").await.json();
    assert_eq!(shown["config"]["regions"].as_array().unwrap().len(), 1, "the file's regions only");
    assert_eq!(shown["differs_after_restart"], serde_json::json!([]));
}

#[tokio::test(flavor = "local")]
async fn an_unknown_outcome_outlives_the_region_it_is_in() {
    let fleet = Fleet::new().await;
    let (eu, ap) = (fleet.good("eu-west-1").await, fleet.good("ap-south-1").await);
    let (folder, federation) = start(&fleet).await;
    put(&folder, "eu-west-1", &eu);
    put(&folder, "ap-south-1", &ap);
    federation.knows(&["us-east-1", "ap-south-1", "eu-west-1"]).await;
    eu.faults().add(When::enqueue(), Fault::CutAfterRequest { store: true });
    eu.faults().add(When::lookup(), Fault::CutAfterRequest { store: true });
    let answer = federation.client.enqueue(pinned("eu-west-1", "lost")).await;
    assert_eq!(answer.reason(), "outcome_unknown", "{answer:?}");

    std::fs::remove_file(folder.join("eu-west-1.yaml")).unwrap();
    for _ in 0..3 {
        look(&federation, "good").await;
    }
    federation.knows(&["us-east-1", "ap-south-1"]).await;
    let unknown = || async { federation.metric("outcomes_pending{state=\"unknown\"}").await };
    assert_eq!(unknown().await, 1.0, "nothing is forgotten with the region");
    eu.faults().clear();
    put(&folder, "eu-west-1", &eu);
    eventually("the outcome is found out", async || {
        federation.advance(std::time::Duration::from_secs(5));
        unknown().await == 0.0
    })
    .await;
}
