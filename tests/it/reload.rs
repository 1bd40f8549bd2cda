//! Changes without a restart: certificates, tokens and the configuration.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ojs_testbed::{Authority, Fault, Gate, Identity, RegionTls, When};

use crate::support::{Client, Federation, IDS, Scrape, Setup, eventually};

/// The slow poll: steered time makes the sidecar look at its files at once.
const LOOK: Duration = Duration::from_secs(60);

/// A steady load of enqueues from several clients, until it is told to end.
struct Load {
    on: Rc<Cell<bool>>,
    sent: Rc<Cell<u32>>,
    failed: Rc<Cell<u32>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(client: Client) -> Self {
        let load = Self { on: Rc::new(Cell::new(true)), sent: Rc::default(), failed: Rc::default(), tasks: Vec::new() };
        let task = |_| {
            let (on, sent, failed) = (Rc::clone(&load.on), Rc::clone(&load.sent), Rc::clone(&load.failed));
            tokio::task::spawn_local(async move {
                while on.get() {
                    let answer = client.enqueue(r#"{"type":"load","args":[]}"#).await;
                    sent.set(sent.get() + 1);
                    failed.set(failed.get() + u32::from(answer.status != 201));
                }
            })
        };
        let tasks = (0..4).map(task).collect();
        Self { tasks, ..load }
    }

    /// Waits until so many more calls were answered.
    async fn more(&self, calls: u32) {
        let until = self.sent.get() + calls;
        eventually("the load goes on", async || self.sent.get() >= until).await;
    }

    async fn end(self) {
        self.on.set(false);
        for task in self.tasks {
            task.await.unwrap();
        }
        assert_eq!(self.failed.get(), 0, "of {} calls", self.sent.get());
    }
}

fn write(federation: &Federation, name: &str, text: &str) {
    std::fs::write(federation.files.path().join(name), text).unwrap();
}

fn show(federation: &Federation, identity: &Identity) {
    write(federation, "us-east-1-client.cert.pem", &identity.cert_pem);
    write(federation, "us-east-1-client.key.pem", &identity.key_pem);
}

async fn reloads(federation: &Federation, kind: &str, result: &str) -> f64 {
    let scrape = Scrape::of(&federation.admin).await;
    scrape.value(&format!("reloads_total{{kind=\"{kind}\",result=\"{result}\"}}"))
}

/// Makes the sidecar look, and waits until it has counted what it saw.
async fn look(federation: &Federation, kind: &str, result: &str, count: f64) {
    federation.advance(LOOK);
    eventually("the change is seen", async || reloads(federation, kind, result).await >= count).await;
}

#[tokio::test(flavor = "local")]
async fn a_leaf_and_a_ca_are_rotated_under_load_and_the_old_identity_is_used_no_more() {
    let federation = Setup::default().steered().start().await;
    let (old, new) = (&federation.authorities[0], Authority::new("the next CA"));
    let region = &federation.regions[0];
    let load = Load::start(federation.client);
    load.more(50).await;

    // The sidecar trusts both authorities before the region changes, and the region both before the sidecar does.
    let both = format!("{}{}", old.ca_pem(), new.ca_pem());
    write(&federation, "us-east-1.ca.pem", &both);
    look(&federation, "identity", "applied", 1.0).await;
    region.set_tls(&RegionTls { server: new.server(&["localhost"]), client_ca_pem: Some(both) }).unwrap();
    load.more(50).await;
    show(&federation, &new.client("next-sidecar"));
    look(&federation, "identity", "applied", 2.0).await;
    load.more(50).await;
    region.set_tls(&RegionTls { server: new.server(&["localhost"]), client_ca_pem: Some(new.ca_pem()) }).unwrap();
    write(&federation, "us-east-1.ca.pem", &new.ca_pem());
    look(&federation, "identity", "applied", 3.0).await;
    load.more(50).await;
    region.record().clear();
    load.more(100).await;
    load.end().await;
    for request in region.record().requests() {
        assert_eq!(request.client_subject.as_deref(), Some("CN=next-sidecar"), "{}", request.path);
    }
}

#[tokio::test(flavor = "local")]
async fn no_session_of_the_old_identity_is_resumed() {
    const NEXT: Option<&str> = Some("CN=next-sidecar");
    let federation = Setup::default().steered().start().await;
    let region = &federation.regions[0];
    assert_eq!(federation.client.enqueue(r#"{"type":"a","args":[]}"#).await.status, 201);
    show(&federation, &federation.authorities[0].client("next-sidecar"));
    look(&federation, "identity", "applied", 1.0).await;
    let before = region.record().connections().len();
    assert_eq!(federation.client.enqueue(r#"{"type":"a","args":[]}"#).await.status, 201);
    let connections = region.record().connections();
    assert!(connections[before..].iter().all(|connection| connection.client_subject.as_deref() == NEXT));
    // Later ones may resume a session of the new identity; the first one had none to resume.
    let first = connections.iter().find(|connection| connection.client_subject.as_deref() == NEXT).unwrap();
    assert!(!first.resumed);
    let jobs = region.record().requests_to("/ojs/v1/jobs");
    assert_eq!(jobs.last().unwrap().client_subject.as_deref(), NEXT);
}

#[tokio::test(flavor = "local")]
async fn a_broken_file_changes_nothing_but_what_is_said_about_it() {
    let federation = Setup::default().steered().start().await;
    let load = Load::start(federation.client);
    let good = std::fs::read_to_string(federation.files.path().join("us-east-1-client.cert.pem")).unwrap();
    write(&federation, "us-east-1-client.cert.pem", "torn");
    look(&federation, "identity", "refused", 1.0).await;
    load.more(50).await;
    let notes = federation.admin.get("/readyz").await;
    assert_eq!(notes.status, 200);
    let note = notes.json()["notes"][0].as_str().unwrap().to_owned();
    assert!(note.contains("us-east-1") && note.contains("tls.cert") && note.contains("kept"), "{note}");
    write(&federation, "us-east-1-client.cert.pem", &good);
    federation.advance(LOOK);
    eventually("the note goes", async || {
        federation.admin.get("/readyz").await.json()["notes"] == serde_json::json!([])
    })
    .await;
    load.more(50).await;
    load.end().await;
    assert_eq!(reloads(&federation, "identity", "applied").await, 0.0);
}

#[tokio::test(flavor = "local")]
async fn a_reload_adds_a_region_drains_one_and_changes_the_strategy_under_load() {
    let stage = Setup::default().steered().stage().await;
    let whole = std::fs::read_to_string(&stage.config).unwrap();
    let third = whole.find("- id: ap-south-1").unwrap();
    std::fs::write(&stage.config, &whole[..third]).unwrap();
    let federation = stage.launch();
    eventually("the sidecar is ready", async || federation.admin.get("/readyz").await.status == 200).await;
    let load = Load::start(federation.client);
    load.more(50).await;
    let changed = whole.replace("- id: eu-west-1", "- id: eu-west-1\n  weight: 0");
    std::fs::write(&federation.config, format!("routing: {{ strategy: round-robin }}\n{changed}")).unwrap();
    look(&federation, "configuration", "applied", 1.0).await;
    eventually("the new region is probed", async || {
        let view = federation.current.load().registry.view().regions.clone();
        view.len() == 3 && view.iter().all(|region| region.health.as_str() == "healthy")
    })
    .await;
    federation.regions.iter().for_each(|region| region.record().clear());
    load.more(100).await;
    load.end().await;
    let jobs: Vec<usize> =
        federation.regions.iter().map(|region| region.record().requests_to("/ojs/v1/jobs").len()).collect();
    assert!(jobs[0] > 20 && jobs[1] == 0 && jobs[2] > 20, "{jobs:?}");
    let shown = federation.client.get("/v1/federation/regions").await.json();
    let ids: Vec<_> = shown["regions"].as_array().unwrap().iter().map(|region| region["id"].clone()).collect();
    assert_eq!(ids, IDS);
    assert_eq!(reloads(&federation, "configuration", "applied").await, 1.0);
}

#[tokio::test(flavor = "local")]
async fn a_refused_configuration_changes_nothing_and_is_told_where_it_is_wrong() {
    let federation = Setup::default().steered().start().await;
    let before = federation.current.load_full();
    let good = std::fs::read_to_string(&federation.config).unwrap();
    std::fs::write(&federation.config, good.replace("local_region: us-east-1", "local_region: mars-1")).unwrap();
    look(&federation, "configuration", "refused", 1.0).await;
    assert!(Arc::ptr_eq(&before, &federation.current.load_full()));
    let note = federation.admin.get("/readyz").await.json()["notes"][0].as_str().unwrap().to_owned();
    assert!(note.contains("local_region") && note.contains("config.yaml:2"), "{note}");
    assert_eq!(federation.client.enqueue(r#"{"type":"a","args":[]}"#).await.region(), "us-east-1");
}

#[tokio::test(flavor = "local")]
async fn what_is_known_of_a_region_survives_a_reload() {
    let setup = Setup::default().steered().yaml("circuit_breaker: { cooldown: 1h }");
    let federation = setup.start().await;
    federation.regions[1].stop().await;
    federation.advance_until("the breaker opens", || federation.breaker(1) == "open").await;
    let good = std::fs::read_to_string(&federation.config).unwrap();
    std::fs::write(&federation.config, format!("routing: {{ strategy: overflow }}\n{good}")).unwrap();
    let probes = federation.regions[1].record().requests_to("/ojs/v1/health").len();
    look(&federation, "configuration", "applied", 1.0).await;
    let view = federation.current.load().registry.view().regions.clone();
    assert_eq!((view[1].breaker.as_str(), view[1].health.as_str()), ("open", "unhealthy"));
    assert_eq!(federation.regions[1].record().requests_to("/ojs/v1/health").len(), probes);
    let shown = federation.client.get("/v1/federation/regions").await.json();
    assert_eq!(shown["regions"][1]["circuit_breaker"], "open");
}

#[tokio::test(flavor = "local")]
async fn a_reload_within_the_first_round_of_probes_does_not_make_it_ready() {
    let stage = Setup::default().steered().stage().await;
    let gate = Gate::new();
    stage.regions[2].faults().add(When::health(), Fault::Hold { gate: gate.clone() });
    let federation = stage.launch();
    federation.regions[2].record().wait_for(|record| !record.requests_to("/ojs/v1/health").is_empty()).await;
    let good = std::fs::read_to_string(&federation.config).unwrap();
    std::fs::write(&federation.config, format!("routing: {{ strategy: overflow }}\n{good}")).unwrap();
    look(&federation, "configuration", "applied", 1.0).await;
    // The old loops are gone when the new ones probe.
    federation.regions[2].record().wait_for(|record| record.requests_to("/ojs/v1/health").len() > 1).await;
    let answer = federation.admin.get("/readyz").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.json()["waiting_for"], serde_json::json!(["first round of probes"]));
    gate.open();
    eventually("it is ready", async || federation.admin.get("/readyz").await.status == 200).await;
}

#[tokio::test(flavor = "local")]
async fn a_reload_refills_the_retry_budget_only_when_its_rates_change() {
    let setup = Setup::default().steered().yaml("failover: { retry_budget: { ratio: 0, floor: 0 } }");
    let federation = setup.start().await;
    let left = || {
        let shared = federation.current.load();
        shared.budgets.overall().available(shared.registry.clock().now())
    };
    let full = left();
    let first = federation.current.load_full();
    assert!(first.budgets.overall().try_withdraw(first.registry.clock().now()));
    let good = std::fs::read_to_string(&federation.config).unwrap();
    std::fs::write(&federation.config, format!("routing: {{ strategy: overflow }}\n{good}")).unwrap();
    look(&federation, "configuration", "applied", 1.0).await;
    assert_eq!(left(), full - 1);
    std::fs::write(&federation.config, good.replace("ratio: 0,", "ratio: 0.5,")).unwrap();
    look(&federation, "configuration", "applied", 2.0).await;
    assert_eq!(left(), full);
}

#[tokio::test(flavor = "local")]
async fn a_changed_file_is_noticed_without_any_clock() {
    // Time stands still, so that neither the slow poll nor anything else but the watched folder can tell.
    let federation = Setup::default().steered().start().await;
    let good = std::fs::read_to_string(&federation.config).unwrap();
    let next = federation.files.path().join("next.yaml");
    std::fs::write(&next, format!("routing: {{ strategy: overflow }}\n{good}")).unwrap();
    std::fs::rename(&next, &federation.config).unwrap();
    eventually("the change is seen", async || reloads(&federation, "configuration", "applied").await >= 1.0).await;
}

#[tokio::test(flavor = "local")]
async fn a_file_that_only_a_refused_configuration_names_is_noticed_without_any_clock() {
    let federation = Setup::default().steered().start().await;
    let good = std::fs::read_to_string(&federation.config).unwrap();
    assert!(good.contains("us-east-1.ca.pem"), "{good}");
    write(&federation, "next.ca.pem", "torn");
    write(&federation, "next.yaml", &good.replace("us-east-1.ca.pem", "next.ca.pem"));
    std::fs::rename(federation.files.path().join("next.yaml"), &federation.config).unwrap();
    eventually("it is refused", async || reloads(&federation, "configuration", "refused").await >= 1.0).await;
    write(&federation, "next.ca.pem", &federation.authorities[0].ca_pem());
    eventually("it is mended", async || reloads(&federation, "configuration", "applied").await >= 1.0).await;
}

/// Writes a version of a volume as the kubelet does: a folder of its own, and then the link `..data` moved over to it.
fn publish(mount: &std::path::Path, version: &str, yaml: &str) {
    std::fs::create_dir(mount.join(version)).unwrap();
    std::fs::write(mount.join(version).join("config.yaml"), yaml).unwrap();
    std::os::unix::fs::symlink(version, mount.join("..data_tmp")).unwrap();
    std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
}

#[tokio::test(flavor = "local")]
async fn a_config_map_that_drains_the_local_region_needs_no_restart() {
    let mut stage = Setup::default().steered().stage().await;
    let whole = std::fs::read_to_string(&stage.config).unwrap();
    let mount = stage.files.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    publish(&mount, "..first", &whole);
    stage.config = mount.join("config.yaml");
    std::os::unix::fs::symlink("..data/config.yaml", &stage.config).unwrap();
    let federation = stage.launch();
    eventually("the sidecar is ready", async || federation.admin.get("/readyz").await.status == 200).await;
    let job = r#"{"type":"a","args":[]}"#;
    assert_eq!(federation.client.enqueue(job).await.region(), "us-east-1");

    publish(&mount, "..second", &whole.replace("- id: us-east-1", "- id: us-east-1\n  weight: 0"));
    std::fs::remove_dir_all(mount.join("..first")).unwrap();
    // Time stands still: only the watched folder can tell.
    eventually("the change is seen", async || reloads(&federation, "configuration", "applied").await >= 1.0).await;
    let answer = federation.client.enqueue(job).await;
    assert_eq!((answer.status.as_u16(), answer.region() == "us-east-1"), (201, false));
}

#[tokio::test(flavor = "local")]
async fn the_gauge_of_refused_files_falls_once_they_are_mended() {
    let federation = Setup::default().steered().start().await;
    let gauges = async || {
        let scrape = Scrape::of(&federation.admin).await;
        ["configuration", "identity"].map(|kind| scrape.value(&format!("reload_refused{{kind=\"{kind}\"}}")))
    };
    let good = std::fs::read_to_string(&federation.config).unwrap();
    let identity = std::fs::read_to_string(federation.files.path().join("us-east-1-client.cert.pem")).unwrap();
    assert_eq!(gauges().await, [0.0, 0.0]);
    std::fs::write(&federation.config, good.replace("local_region: us-east-1", "local_region: mars-1")).unwrap();
    eventually("the configuration is refused", async || gauges().await == [1.0, 0.0]).await;
    std::fs::write(&federation.config, &good).unwrap();
    eventually("the configuration is mended", async || gauges().await == [0.0, 0.0]).await;
    write(&federation, "us-east-1-client.cert.pem", "torn");
    eventually("the identity is refused", async || gauges().await == [0.0, 1.0]).await;
    write(&federation, "us-east-1-client.cert.pem", &identity);
    eventually("the identity is mended", async || gauges().await == [0.0, 0.0]).await;
}

#[tokio::test(flavor = "local")]
async fn the_ready_gauge_says_what_readyz_says() {
    let federation = Setup::default().steered().yaml("readiness: { require_region: true }").start().await;
    let gauge = async || Scrape::of(&federation.admin).await.value("ready");
    assert_eq!((federation.admin.get("/readyz").await.status.as_u16(), gauge().await), (200, 1.0));
    for region in &federation.regions {
        region.stop().await;
    }
    federation
        .advance_until("no region is healthy", || (0..3).all(|index| federation.health(index) != "healthy"))
        .await;
    assert_eq!((federation.admin.get("/readyz").await.status.as_u16(), gauge().await), (503, 0.0));
}
