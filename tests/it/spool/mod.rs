//! The outage spool: jobs that no region could take, judged at the sockets and the stores of the regions once these are back.

mod cancelled;
mod full_disk;
mod kills;
mod lanes;
mod proof;
mod set_aside;

use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use ojs_testbed::DemoRegion;
use serde_json::Value;

use crate::support::{Answer, Client, Federation, Process, Setup, Stage, eventually, job, pinned};

/// The client's own id of a job.
const OWN: &str = "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f";

/// A folder for the spool, and its configuration.
struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { dir: tempfile::tempdir().unwrap() };
        files.set_key(&"5a".repeat(32));
        files
    }

    fn set_key(&self, digits: &str) {
        std::fs::write(self.dir.path().join("key"), digits).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("spool")
    }

    /// The section, with further keys such as `max_age: 1h, `.
    fn section(&self, further: &str) -> String {
        let (path, key) = (self.path(), self.dir.path().join("key"));
        format!("spool: {{ {further}path: {path:?}, key_file: {key:?}, queues: [\"*\"] }}")
    }
}

/// Two regions that are soon seen to be down, or back.
fn setup(files: &Files, further: &str) -> Setup {
    Setup::default()
        .regions(2)
        .yaml(&files.section(further))
        .yaml("health_check: { interval: 100ms, timeout: 2s }")
        .yaml("circuit_breaker: { cooldown: 100ms, early_probe: 50ms, hold_down_changes: 0, slow_start: 0s }")
        .yaml("failover: { late_write_grace: 50ms, retry_budget: { floor: 1000 } }")
}

async fn stop(regions: &[DemoRegion]) {
    for region in regions {
        region.stop().await;
    }
}

async fn resume(regions: &[DemoRegion]) {
    for region in regions {
        region.resume().await.unwrap();
    }
}

#[track_caller]
fn check_held(answer: &Answer) {
    let spooled = answer.header("ojs-federation-spooled");
    assert_eq!((answer.status.as_u16(), spooled), (202, Some("true")), "{answer:?}");
    assert_eq!(answer.json()["job"]["state"], "pending", "{answer:?}");
}

/// The arguments of a region's jobs in the order in which they were stored.
fn arguments(region: &DemoRegion) -> Vec<String> {
    region.jobs().iter().map(|job| job.args.clone()).collect()
}

fn stored_once(regions: &[DemoRegion], count: usize) -> bool {
    let jobs: Vec<u32> =
        regions.iter().flat_map(|region| region.jobs().iter().map(|job| job.stored).collect::<Vec<_>>()).collect();
    jobs.len() == count && jobs.iter().all(|stored| *stored == 1)
}

/// The spool, as the admin listener shows it.
async fn shown(admin: &Client) -> Value {
    let answer = admin.get("/spool").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

async fn run(stage: &Stage) -> Process {
    Process::run(&stage.config, &["--set", "log.level=info"]).await
}

/// Waits until an enqueue is held: breakers may be closed at the first.
async fn held(client: &Client, body: String) -> Answer {
    let answer = client.enqueue(body).await;
    check_held(&answer);
    answer
}

async fn launched(setup: Setup) -> Federation {
    setup.start().await
}

#[tokio::test]
async fn a_job_that_no_region_takes_is_held_shown_and_sent_once_under_its_id_when_one_is_back() {
    let files = Files::new();
    let federation = launched(setup(&files, "")).await;
    stop(&federation.regions).await;
    let answer = held(&federation.client, job("secret-argument")).await;
    let (id, tracking) = (answer.job_id(), answer.header("ojs-federation-id").unwrap().to_owned());
    assert_eq!(answer.json()["job"]["args"], serde_json::json!(["secret-argument"]));
    let path = format!("/ojs/v1/jobs/{id}");
    let read = federation.client.get(&path).await;
    assert_eq!((read.status.as_u16(), read.header("ojs-federation-spooled")), (200, Some("true")), "{read:?}");
    assert_eq!((&read.json()["job"]["state"], read.job_id()), (&"pending".into(), id.clone()));
    for entry in std::fs::read_dir(files.dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(memchr::memmem::find(&bytes, b"secret-argument").is_none(), "the content is sealed");
    }
    resume(&federation.regions).await;
    eventually("the job is in a region", async || stored_once(&federation.regions, 1)).await;
    eventually("its row is gone", async || {
        federation.client.get(&path).await.header("ojs-federation-spooled").is_none()
    })
    .await;
    let stored = federation.client.get(&path).await;
    assert_eq!((stored.status.as_u16(), stored.job_id()), (200, id), "{stored:?}");
    assert_eq!(stored.json()["job"]["meta"]["ojs.federation.federation_id"], tracking);
    assert_eq!(federation.client.enqueue(job("direct")).await.status, 201, "the lane is empty");
}

#[tokio::test]
async fn jobs_of_other_queues_and_other_calls_are_refused_as_ever() {
    let files = Files::new();
    let section = files.section("").replace("\"*\"", "\"pay*\"");
    let federation =
        launched(Setup::default().regions(1).yaml(&section).yaml("failover: { retry_budget: { floor: 1000 } }")).await;
    stop(&federation.regions).await;
    let other = federation.client.enqueue(job("a")).await;
    assert_eq!((other.status.as_u16(), other.header("ojs-federation-spooled")), (503, None), "{other:?}");
    let body = r#"{"jobs":[{"type":"a","queue":"payments","args":[]}]}"#;
    let batch = federation.client.call(Method::POST, "/ojs/v1/jobs/batch", body).await;
    assert_eq!(batch.status, 503, "{batch:?}");
    check_held(&federation.client.enqueue(r#"{"type":"a","queue":"payments","args":[]}"#).await);
}

#[tokio::test]
async fn a_pinned_job_waits_for_its_own_region_and_no_byte_of_it_reaches_another() {
    let files = Files::new();
    let federation = launched(setup(&files, "")).await;
    federation.regions[0].stop().await;
    held(&federation.client, pinned("us-east-1", "pinned-argument")).await;
    // Another pin, and none: neither waits for the first.
    for body in [pinned("eu-west-1", "b"), job("c")] {
        assert_eq!(federation.client.enqueue(body).await.status, 201);
    }
    tokio::time::sleep(Duration::ZERO).await;
    assert!(federation.seen("pinned-argument").is_empty());
    federation.regions[0].resume().await.unwrap();
    eventually("it is at home", async || arguments(&federation.regions[0]) == [r#"["pinned-argument"]"#]).await;
    assert_eq!(federation.seen("pinned-argument"), [0]);
}
