//! A region is lost and another one takes over its waiting jobs; then the region comes back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use ojs_testbed::{Fault, Gate, When};
use serde_json::{Value, json};

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, status};
use super::views::regions;
use crate::support::{Client, Process, Setup, Stage, eventually, pinned, rises};

const LOST: &str = "us-east-1";
const HERE: &str = "eu-west-1";
const ARGUMENTS: &str = "canary-of-the-arguments";

/// The hubs of two regions, with full replicas of each other, and the configurations of a sidecar in each.
struct Pair {
    us: HubStage,
    eu: HubStage,
    stage: Stage,
    config_of_eu: PathBuf,
}

fn section(stage: &HubStage, name: &str) -> String {
    let more = "hub: { report_jobs: true, report_bodies: [\"*\"], fetch: heard,";
    stage.section(name).replace("hub: {", more)
}

/// The settings of the hub of a region which pulls from that of another one.
fn settings(own: &HubStage, region: &str, other: &HubStage, reader: &str, regions: &str) -> String {
    let key = own.path("bodies.key");
    std::fs::write(&key, "0f".repeat(32)).unwrap();
    let file = |name: &str| other.path(name);
    let (ca, cert, client_key) = (file("hub.ca.pem"), file("peer.cert.pem"), file("peer.key.pem"));
    format!(
        "  - {{ san: \"spiffe://test/hub\", role: hub, region: {reader} }}
index:
  region: {region}
  return_after: 1s
  return_wait: 5m
  bodies: {{ key_file: {key:?} }}
  from: [{{ region: {reader}, bodies: true, urls: [{:?}], tls: {{ ca: {ca:?}, cert: {cert:?}, key: {client_key:?} }} }}]
{regions}",
        other.url()
    )
}

impl Pair {
    /// `eu`: that of the region which takes the jobs.
    async fn new(mut eu: HubStage) -> Self {
        let mut us = HubStage::new("");
        for hub in [&mut us, &mut eu] {
            hub.client("peer", "spiffe://test/hub");
            hub.run().await.kill();
        }
        let own = section(&us, "one");
        let stage = Setup::default().yaml(&own).stage().await;
        let config_of_eu = stage.files.path().join("eu.yaml");
        let text = std::fs::read_to_string(&stage.config).unwrap();
        let text =
            text.replace(&own, &section(&eu, "two")).replace("local_region: us-east-1", "local_region: eu-west-1");
        std::fs::write(&config_of_eu, text).unwrap();
        let regions = regions(&stage, |_| None);
        us.set_more(&settings(&us, LOST, &eu, HERE, &regions));
        eu.set_more(&settings(&eu, HERE, &us, LOST, &regions));
        Self { us, eu, stage, config_of_eu }
    }

    async fn sidecar_of_us(&self) -> Process {
        Process::run(&self.stage.config, &INFO).await
    }

    async fn sidecar_of_eu(&self) -> Process {
        Process::run(&self.config_of_eu, &INFO).await
    }

    /// The record of a job at the hub that promotes.
    async fn record(&self, id: &str) -> Value {
        status(&self.eu, "eve", &Method::GET, &format!("/v1/federation/jobs?job_id={id}")).await.1
    }

    /// Waits until the hub that promotes has the bytes of a job.
    async fn has_bytes(&self, id: &str) {
        eventually("its bytes are replicated", async || self.record(id).await["copies"][0]["bytes_here"] == true).await;
    }

    /// A promotion, with the jobs that it left: an answer with the first thousand of all is slow, and waits ask for it again and again.
    async fn promotion(&self, id: &str) -> Value {
        status(&self.eu, "eve", &Method::GET, &format!("/v1/hub/promotions/{id}?step=left")).await.1
    }

    /// The number of jobs of a promotion at a step.
    async fn at_step(&self, id: &str, step: &str) -> usize {
        self.promotion(id).await["promotion"]["jobs"][step].as_u64().map_or(0, |count| count as usize)
    }

    async fn reaches(&self, id: &str, stage: &str) -> Value {
        let mut shown = Value::Null;
        eventually(&format!("the promotion is {stage}"), async || {
            shown = self.promotion(id).await;
            shown["promotion"]["stage"] == stage
        })
        .await;
        shown["promotion"].clone()
    }

    /// Orders a promotion of the lost region, and returns its name and its plan.
    async fn promote(&self, more: &[&str]) -> (String, String) {
        let ended = self.eu.order("ann", &[&["promote", LOST, "--to", HERE], more].concat()).await;
        assert_eq!(ended.code, Some(0), "{}", ended.all());
        let id = ended.stdout.split(':').next().unwrap().to_owned();
        (id, ended.stdout)
    }

    /// The region, its hub and its sidecar are lost.
    async fn lose(&self, mut hub: Hub, sidecar: Process, at: &Hub) {
        hub.kill();
        drop(sidecar);
        self.stage.regions[0].stop().await;
        eventually("the other hub sees it", async || {
            let metrics = at.admin.get("/metrics").await;
            String::from_utf8_lossy(&metrics.body).contains("ojs_hub_regions_healthy 2")
        })
        .await;
    }

    fn ids_in(&self, place: usize, args: &str) -> Vec<String> {
        let jobs = self.stage.regions[place].jobs();
        jobs.iter().filter(|it| it.args.contains(args)).map(|it| it.id.clone()).collect()
    }
}

async fn enqueued(client: &Client, queue: &str, id: usize, args: &str) -> String {
    let id = format!("00000000-0000-7000-8000-{id:012}");
    let job = json!({ "id": id, "type": "a.b", "args": [args], "options": { "queue": queue } });
    let answer = client.enqueue(job.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, LOST), "{answer:?}");
    id
}

async fn fetched(client: &Client, queues: &[&str]) -> Value {
    let body = json!({ "queues": queues, "worker_id": "w" }).to_string();
    client.post("/ojs/v1/workers/fetch", body).await.json()["jobs"][0].clone()
}

async fn acknowledge(client: &Client, id: &str) -> u16 {
    let body = json!({ "job_id": id, "worker_id": "w" }).to_string();
    client.post("/ojs/v1/workers/ack", body).await.status.as_u16()
}

/// A worker of all queues. `stops` ends it; `asked` is the number of its calls.
async fn work(client: Client, stops: Arc<AtomicBool>, asked: Arc<AtomicUsize>) {
    while !stops.load(Ordering::Relaxed) {
        let job = fetched(&client, &["work", "default"]).await;
        asked.fetch_add(1, Ordering::Relaxed);
        match job["id"].as_str() {
            Some(id) => assert_eq!(acknowledge(&client, id).await, 200),
            None => tokio::task::yield_now().await,
        }
    }
}

/// A number from the environment: `make promotion-proof` sets a larger one.
#[expect(clippy::disallowed_methods, reason = "a size of the proof, and no configuration of the program")]
fn jobs_max() -> usize {
    std::env::var("PROMOTION_JOBS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// The jobs of the lost region before it is lost: those that wait, from the oldest on, with ids against the order of time; one that a worker has; one that is
/// pinned there.
struct Jobs {
    waiting: Vec<String>,
    active: String,
    bound: String,
}

impl Jobs {
    async fn make(pair: &Pair, sidecar: &Process) -> Self {
        let (client, count) = (&sidecar.client, jobs_max());
        let mut waiting = Vec::new();
        for number in 0..count {
            waiting.push(enqueued(client, "work", count - number, &format!("{ARGUMENTS}-{number:06}")).await);
        }
        let active = enqueued(client, "slow", count + 1, "slow").await;
        let done = enqueued(client, "quick", count + 2, "quick").await;
        let bound = client.enqueue(pinned(LOST, "bound")).await.json()["job"]["id"].as_str().unwrap().to_owned();
        for (queue, id) in [("slow", &active), ("quick", &done)] {
            eventually("the worker gets it", async || fetched(client, &[queue]).await["id"] == id.as_str()).await;
        }
        assert_eq!(acknowledge(client, &done).await, 200);
        for (id, state) in [(&active, "active"), (&done, "completed"), (&bound, "available")] {
            eventually(state, async || pair.record(id).await["state"] == state).await;
        }
        pair.has_bytes(waiting.last().unwrap()).await;
        Self { waiting, active, bound }
    }
}

/// Promotes the lost region over the loss of an answer and a kill of the hub; returns the name of the promotion, and the hub.
async fn promotes(pair: &Pair, jobs: &Jobs, mut of_eu: Hub) -> (String, Hub) {
    let count = jobs.waiting.len();
    let (_, plan) = pair.promote(&["--dry-run"]).await;
    assert!(plan.contains(&format!("{count} planned")) && plan.contains("1 active, 1 bound"), "{plan}");
    assert!(pair.ids_in(1, "").is_empty(), "a dry run moves nothing");
    // An answer is lost, and the hub is killed while the region holds another one back.
    let gate = Gate::new();
    let faults = pair.stage.regions[1].faults();
    let third = count as u64 / 3;
    faults.add(When::enqueue().after(third).next(1), Fault::CutAfterRequest { store: true });
    faults.add(When::enqueue().after(third).next(1), Fault::Hold { gate: gate.clone() });
    let (id, plan) = pair.promote(&["--rate", "1000"]).await;
    assert!(plan.contains("1 active, 1 bound"), "{plan}");
    let again = pair.eu.order("ann", &["promote", LOST, "--to", HERE]).await;
    assert!(again.code == Some(1) && again.all().contains("is under way"), "{}", again.all());
    rises("more are moved", third as usize, async || pair.ids_in(1, ARGUMENTS).len()).await;
    eventually("an answer is held back", async || faults.struck() == 2).await;
    of_eu.kill();
    gate.open();
    assert!(pair.ids_in(1, ARGUMENTS).len() < count, "it was killed among them");
    let of_eu = pair.eu.again(0).await;
    rises("more are moved", count, async || pair.at_step(&id, "moved").await).await;
    let moved = pair.reaches(&id, "moved").await;
    assert_eq!(moved["jobs"], json!({ "left": 2, "moved": count }), "{moved}");
    assert_eq!(pair.ids_in(1, ARGUMENTS), jobs.waiting, "by age");
    assert!(pair.stage.regions[1].jobs().iter().all(|job| job.stored == 1), "each once");
    let record = pair.record(&jobs.waiting[0]).await;
    assert!(
        record["copies"].as_array().unwrap().iter().any(|it| it["region"] == HERE && it["winner"] == true),
        "{record}"
    );
    (id, of_eu)
}

/// The lost region comes back with all that it had, while workers ask in both regions; its copies are held back from being cancelled until its workers have
/// asked.
async fn comes_back(pair: &Pair, jobs: &Jobs, id: &str) {
    let home = &pair.stage.regions[0];
    let gate = Gate::new();
    home.faults().add(When::path("/ojs/v1/jobs/").method(Method::DELETE), Fault::Hold { gate: gate.clone() });
    home.record().clear();
    home.resume().await.unwrap();
    let (in_us, in_eu) = (pair.sidecar_of_us().await, pair.sidecar_of_eu().await);
    let stops = Arc::new(AtomicBool::new(false));
    let asked = [Arc::new(AtomicUsize::new(0)), Arc::default()];
    let workers = [in_us.client, in_eu.client]
        .into_iter()
        .zip(&asked)
        .map(|(client, asked)| tokio::spawn(work(client, Arc::clone(&stops), Arc::clone(asked))));
    let workers: Vec<_> = workers.collect();
    let more = async |count: usize| {
        let before = asked[0].load(Ordering::Relaxed);
        eventually("its workers ask", async || asked[0].load(Ordering::Relaxed) > before + count).await;
    };
    more(3).await;
    let _of_us = pair.us.again(0).await;
    pair.us.follows("one").await;
    more(3).await;
    eventually("a copy is to be cancelled", async || home.faults().struck() > 0).await;
    more(3).await;
    assert!(home.record().requests_to("/ojs/v1/workers/fetch").is_empty(), "no worker gets a job of the region before");
    gate.open();
    rises("more are cancelled", jobs.waiting.len(), async || pair.at_step(id, "cancelled").await).await;
    let done = pair.reaches(id, "done").await;
    assert_eq!(done["jobs"], json!({ "left": 2, "cancelled": jobs.waiting.len() }), "{done}");
    let run = || pair.stage.regions[1].jobs().iter().filter(|job| job.acknowledged == 1).count();
    rises("more have run", jobs.waiting.len(), async || run()).await;
    eventually("the pinned job has run", async || {
        home.jobs().job(&jobs.bound).is_some_and(|job| job.acknowledged == 1)
    })
    .await;
    stops.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    let back = home.jobs();
    assert!(jobs.waiting.iter().all(|id| back.job(id).is_some_and(|job| job.runs == 0)), "no worker got a copy there");
    let there = pair.stage.regions[1].jobs();
    assert!(jobs.waiting.iter().all(|id| there.job(id).is_some_and(|job| job.acknowledged == 1)), "each ran once here");
}

async fn is_promoted(pair: Pair) {
    let (of_us, of_eu) = (pair.us.again(0).await, pair.eu.again(0).await);
    let in_us = pair.sidecar_of_us().await;
    pair.us.follows("one").await;
    let jobs = Jobs::make(&pair, &in_us).await;
    let refused = pair.eu.order("ann", &["promote", LOST, "--to", HERE]).await;
    assert!(refused.code == Some(1) && refused.all().contains("is healthy by the probes"), "{}", refused.all());
    pair.lose(of_us, in_us, &of_eu).await;
    let (id, of_eu) = promotes(&pair, &jobs, of_eu).await;
    comes_back(&pair, &jobs, &id).await;
    let shown = pair.promotion(&id).await;
    let left = shown["jobs"].as_array().unwrap().iter();
    let mut left: Vec<_> = left.map(|it| (it["why"].as_str().unwrap(), it["job_id"].as_str().unwrap())).collect();
    left.sort_unstable();
    assert_eq!(left, [("active", jobs.active.as_str()), ("bound", &jobs.bound)]);
    let trail = pair.eu.command("ann", &["audit", "export"]).await;
    assert!(trail.stdout.contains("\"caller\":\"promotion\""), "{}", trail.all());
    drop(of_eu);
}

#[tokio::test]
async fn the_waiting_jobs_of_a_lost_region_are_taken_over_once_by_age_and_cancelled_there_before_a_worker_gets_them() {
    is_promoted(Pair::new(HubStage::new("")).await).await;
}

#[tokio::test]
async fn a_region_is_promoted_from_a_record_in_postgresql_too() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    is_promoted(Pair::new(stage.with_record(record)).await).await;
}
