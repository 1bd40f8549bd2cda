//! One tracking id in two regions: the last writer runs, and the other copy is cancelled in its region or reported.

mod cancels;
mod clocks;
mod large;
mod orders;
mod reports;
mod upgrade;
mod waits;

use std::path::PathBuf;

use http::Method;
use serde_json::{Value, json};

use super::INFO;
use super::stage::{Hub, HubStage, status};
use super::views::regions;
use crate::support::{Process, Setup, Stage, eventually};

const US: &str = "us-east-1";
const EU: &str = "eu-west-1";
const TRACKED: &str = "01912e4a-7b3c-7def-8a12-abcdef123456";
const US_PLACE: usize = 0;
const EU_PLACE: usize = 1;

/// Two regions, each with a hub that pulls from the other and a sidecar that reports to it.
struct World {
    us: HubStage,
    eu: HubStage,
    of_us: Hub,
    of_eu: Hub,
    in_us: Process,
    in_eu: Process,
    federation: Stage,
}

/// The settings of the hub of a region which pulls from that of another one.
fn settings(region: &str, other: &HubStage, reader: &str, conflicts: &str, regions: &str) -> String {
    let file = |name: &str| other.path(name);
    let (ca, cert, key) = (file("hub.ca.pem"), file("peer.cert.pem"), file("peer.key.pem"));
    format!(
        "  - {{ san: \"spiffe://test/hub\", role: hub, region: {reader} }}
index:
  region: {region}
  conflicts: {conflicts}
  conflicts_after: 5s
  from: [{{ region: {reader}, urls: [{:?}], tls: {{ ca: {ca:?}, cert: {cert:?}, key: {key:?} }} }}]
{regions}",
        other.url()
    )
}

/// The configuration of a sidecar in the second region.
fn second_config(federation: &Stage, own: &str, section: &str) -> PathBuf {
    let path = federation.files.path().join("eu.yaml");
    let text = std::fs::read_to_string(&federation.config).unwrap().replace(own, section);
    std::fs::write(&path, text.replace("local_region: us-east-1", "local_region: eu-west-1")).unwrap();
    path
}

impl World {
    async fn start(conflicts: &str) -> Self {
        Self::start_with(HubStage::new(""), conflicts).await
    }

    async fn start_with(mut us: HubStage, conflicts: &str) -> Self {
        let mut eu = HubStage::new("");
        for hub in [&mut us, &mut eu] {
            hub.client("peer", "spiffe://test/hub");
            hub.run().await.kill();
        }
        let section = |stage: &HubStage, name: &str| stage.section(name).replace("hub: {", "hub: { report_jobs: true,");
        let own = section(&us, "one");
        let federation = Setup::default().regions(2).yaml(&own).stage().await;
        let config_of_eu = second_config(&federation, &own, &section(&eu, "two"));
        let regions = regions(&federation, |_| None);
        us.set_more(&settings(US, &eu, EU, conflicts, &regions));
        eu.set_more(&settings(EU, &us, US, conflicts, &regions));
        let (of_us, of_eu) = (us.again(0).await, eu.again(0).await);
        let (in_us, in_eu) = (Process::run(&federation.config, &INFO).await, Process::run(&config_of_eu, &INFO).await);
        us.follows("one").await;
        eu.follows("two").await;
        Self { us, eu, of_us, of_eu, in_us, in_eu, federation }
    }

    /// Enqueues a job in each of the two regions, the one in the EU later. `ids`: of the jobs.
    async fn enqueue_both(&self, ids: [&str; 2], meta: Value) {
        enqueued(&self.in_us, ids[0], US, meta.clone()).await;
        let made = self.federation.regions[US_PLACE].jobs().job(ids[0]).unwrap().created_ms;
        eventually("the clock goes on", async || unix_ms() > made).await;
        enqueued(&self.in_eu, ids[1], EU, meta).await;
    }

    /// The copy of a job in the first region, as its hub shows it, once there is this result.
    async fn result(&self, id: &str, result: &str) -> Value {
        let mut copy = Value::Null;
        eventually(&format!("the result is {result}"), async || {
            copy = shown(&self.us, US, id).await;
            copy["conflict"]["result"] == result
        })
        .await;
        copy
    }

    /// The number of orders to cancel a job that have come to a region.
    fn cancels(&self, place: usize) -> usize {
        let requests = self.federation.regions[place].record().requests();
        requests.iter().filter(|it| it.method == Method::DELETE).count()
    }

    fn state(&self, place: usize, id: &str) -> String {
        format!("{:?}", self.federation.regions[place].jobs().job(id).unwrap().state).to_lowercase()
    }
}

fn unix_ms() -> u64 {
    ojs_sidecar::base::Clock::system().unix_ms()
}

fn id(number: u32) -> String {
    format!("00000000-0000-7000-8000-{number:012}")
}

fn tracked() -> Value {
    json!({ "ojs.federation.federation_id": TRACKED })
}

/// The copy of a job in a region, as the hub of `stage` shows it.
async fn shown(stage: &HubStage, region: &str, id: &str) -> Value {
    let (_, record) = status(stage, "eve", &Method::GET, &format!("/v1/federation/jobs/{TRACKED}")).await;
    let copies = record["copies"].as_array().cloned().unwrap_or_default();
    copies.into_iter().find(|it| it["region"] == region && it["job_id"] == id).unwrap_or_default()
}

async fn enqueued(sidecar: &Process, id: &str, region: &str, meta: Value) {
    let job = json!({ "id": id, "type": "t", "args": [], "options": { "queue": "q" }, "meta": meta });
    let answer = sidecar.client.enqueue(job.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, region), "{answer:?}");
}

async fn fetched(sidecar: &Process) -> Value {
    let body = json!({ "queues": ["q"], "worker_id": "w" }).to_string();
    sidecar.client.post("/ojs/v1/workers/fetch", body).await.json()["jobs"][0]["id"].clone()
}

async fn figure(hub: &Hub, line: &str) -> Option<String> {
    let metrics = hub.admin.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    text.lines().find_map(|it| Some(it.strip_prefix(line)?.trim().to_owned()))
}

/// Waits until a hub has counted one result of this kind: its row comes before.
async fn counts_one(hub: &Hub, result: &str) {
    let line = format!("ojs_hub_conflicts_total{{result=\"{result}\"}}");
    eventually("the result is counted", async || figure(hub, &line).await.as_deref() == Some("1")).await;
}
