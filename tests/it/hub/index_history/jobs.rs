//! Jobs that flow through the sidecars of three regions, and what their clients and workers know of them.

use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use ojs_testbed::DemoRegion;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::super::history::{Draw, say};
use super::{REGIONS, World};
use crate::support::Client;

/// In the arguments of every job.
pub const CANARY: &str = "canary-of-the-arguments";
/// In the arguments of a pinned job, before its region.
const PINNED: &str = "canary-pinned-to";
/// Records that are looked up one by one at every hub; all others are in the digests.
const LOOKED_UP: usize = 300;

/// What is known of one job.
#[derive(Debug, Clone)]
struct Known {
    region: String,
    state: String,
    federation_id: String,
    /// Whether it came with `replicated_from`, so that it may not leave its region.
    is_replica: bool,
    /// The place of the sidecar that made it.
    made_at: usize,
}

/// The jobs so far, by id.
type All = Arc<Mutex<HashMap<String, Known>>>;

/// A running load.
pub struct Jobs {
    all: All,
    tasks: Vec<JoinHandle<()>>,
}

/// The jobs of a load that has ended.
pub struct Made(HashMap<String, Known>);

impl Jobs {
    pub fn start(sidecars: Vec<Client>, jobs: usize, seed: u64) -> Self {
        let all = All::default();
        let each = jobs / sidecars.len();
        let flow = |(place, sidecar)| {
            let flow = Flow { sidecar, place, all: Arc::clone(&all), draw: Draw(seed * 31 + place as u64) };
            tokio::spawn(flow.run(each))
        };
        let tasks = sidecars.into_iter().enumerate().map(flow).collect();
        Self { all, tasks }
    }

    pub async fn end(self) -> Made {
        for task in self.tasks {
            task.await.unwrap();
        }
        Made(self.all.lock().clone())
    }
}

/// The clients and the worker of one sidecar.
struct Flow {
    sidecar: Client,
    place: usize,
    all: All,
    draw: Draw,
}

impl Flow {
    async fn run(mut self, jobs: usize) {
        for number in 0..jobs {
            self.make(number).await;
            if number % 4 == 3 {
                self.work().await;
            }
        }
    }

    /// One job: most are flexible, some are pinned, some are copies of one in the region behind, some were replicated, some are cancelled.
    async fn make(&mut self, number: usize) {
        let (region, kind) = (REGIONS[self.draw.below(3)], self.draw.below(20));
        let pin = |region: &str| json!({ "ojs.federation.region": region });
        let (mut meta, mut args) = (json!({}), json!([CANARY]));
        match kind {
            0..=4 => (meta, args) = (pin(region), json!([CANARY, format!("{PINNED}-{region}-")])),
            5 => {
                let own = REGIONS[self.place];
                meta = json!({ "ojs.federation.region": own, "ojs.federation.federation_id": common_id(number) });
            }
            6 => {
                meta = json!({ "ojs.federation.replicated_from": REGIONS[(self.place + 1) % 3], "ojs.federation.region": REGIONS[self.place] })
            }
            _ => {}
        }
        let is_cancelled = kind == 7;
        let queue = if is_cancelled { "unread" } else { "read" };
        let job = json!({ "type": "t", "args": args, "options": { "queue": queue }, "meta": meta });
        let answer = self.sidecar.enqueue(job.to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let federation_id = answer.header("ojs-federation-id").unwrap().to_owned();
        let (id, region) = (answer.job_id(), answer.region().to_owned());
        let known =
            Known { region, state: "available".to_owned(), federation_id, is_replica: kind == 6, made_at: self.place };
        self.is_known(&id, known);
        if is_cancelled {
            let answer = self.sidecar.call(Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await;
            assert_eq!(answer.status, 200, "{answer:?}");
            self.is(&id, "cancelled");
        }
    }

    /// Gets some jobs, and speaks of each.
    async fn work(&mut self) {
        let fetch = json!({ "queues": ["read"], "worker_id": "w", "count": 4 }).to_string();
        let fetched = self.sidecar.post("/ojs/v1/workers/fetch", fetch).await.json();
        for job in fetched["jobs"].as_array().cloned().unwrap_or_default() {
            let id = job["id"].as_str().unwrap();
            self.is(id, "active");
            let word = self.draw.below(10);
            if word == 0 {
                let beat = json!({ "worker_id": "w", "active_jobs": [id] }).to_string();
                assert_eq!(self.sidecar.post("/ojs/v1/workers/heartbeat", beat).await.status, 200);
            }
            let (path, state) = match word {
                0..=7 => ("/ojs/v1/workers/ack", "completed"),
                8 => ("/ojs/v1/workers/nack", "retryable"),
                // Its worker is slow.
                _ => continue,
            };
            let said = json!({ "job_id": id, "worker_id": "w", "error": { "code": "x", "message": "x" } });
            let answer = self.sidecar.post(path, said.to_string()).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            // A region gives a job up that has failed too often.
            let shown = answer.json();
            let said = [&shown["state"], &shown["job"]["state"]].into_iter().find_map(Value::as_str);
            self.is(id, said.unwrap_or(state));
        }
    }

    /// A worker of another sidecar may have got it already.
    fn is_known(&self, id: &str, known: Known) {
        let mut all = self.all.lock();
        let state = all.get(id).map_or_else(|| known.state.clone(), |it| it.state.clone());
        all.insert(id.to_owned(), Known { state, ..known });
    }

    fn is(&self, id: &str, state: &str) {
        let mut all = self.all.lock();
        let unread = Known {
            region: String::new(),
            state: String::new(),
            federation_id: String::new(),
            is_replica: false,
            made_at: self.place,
        };
        state.clone_into(&mut all.entry(id.to_owned()).or_insert(unread).state);
    }
}

/// A tracking id that flows of all sidecars use for the same number.
fn common_id(number: usize) -> String {
    format!("01912e4a-7b3c-7def-8a12-{:012x}", number / 16)
}

impl Made {
    /// How many jobs are in every index.
    pub fn replicated(&self) -> usize {
        self.0.values().filter(|it| !it.is_replica).count()
    }

    /// Each hub has what became of the jobs; a replica is in the index of its own region alone.
    pub async fn check(&self, world: &World) {
        let (mut copies, mut replicas) = (0, 0);
        let step = (self.0.len() / LOOKED_UP).max(1);
        for (number, (id, known)) in self.0.iter().enumerate() {
            let is_common = known.federation_id.starts_with("01912e4a-7b3c-7def-8a12-");
            if number % step != 0 && !is_common && !known.is_replica {
                continue;
            }
            for (place, region) in REGIONS.iter().enumerate() {
                let (status, record) = world.look_up(place, &format!("?job_id={id}")).await;
                let is_there = !known.is_replica || place == known.made_at;
                assert_eq!(status, if is_there { 200 } else { 404 }, "{id} at {region}: {record}");
                if is_there {
                    check_state(id, known, &record);
                }
            }
            replicas += usize::from(known.is_replica);
            copies += usize::from(is_common && check_winner(world, &known.federation_id).await);
        }
        say(&format!("{} jobs, {copies} with copies in several regions, {replicas} replicas", self.0.len()));
        assert!(copies > 0 && replicas > 0, "{copies} copies, {replicas} replicas");
    }

    /// No byte of a job that is pinned to another region is in what a region received, as far as its record goes.
    pub fn check_pins(&self, regions: &[DemoRegion]) {
        for (region, name) in regions.iter().zip(REGIONS) {
            let others = REGIONS.iter().filter(|it| **it != name);
            for other in others {
                let pinned = format!("{PINNED}-{other}-");
                assert!(!region.record().contains(pinned.as_bytes()), "{other} in {name}");
            }
        }
    }
}

fn check_state(id: &str, known: &Known, record: &Value) {
    let copies = record["copies"].as_array().unwrap();
    let copy = copies.iter().find(|it| it["job_id"] == id).unwrap_or_else(|| panic!("{id}: {record}"));
    assert_eq!((&copy["state"], &copy["region"]), (&json!(known.state), &json!(known.region)), "{id}: {record}");
}

/// All hubs name the same copy of a tracking id, and it is the one that was enqueued last. Returns whether there are several.
async fn check_winner(world: &World, federation_id: &str) -> bool {
    let path = format!("/{federation_id}");
    let mut records = Vec::new();
    for place in 0..REGIONS.len() {
        records.push(world.look_up(place, &path).await.1);
    }
    let winners = |record: &Value| -> Vec<Value> {
        let copies = record["copies"].as_array().unwrap().iter();
        copies.filter(|it| it["winner"] == true).map(|it| it["job_id"].clone()).collect()
    };
    let copies = records[0]["copies"].as_array().unwrap();
    let last = copies.iter().max_by_key(|it| ["enqueued_at", "region", "job_id"].map(|key| it[key].as_str().unwrap()));
    for record in &records {
        assert_eq!(winners(record), [last.unwrap()["job_id"].clone()], "{record}");
    }
    copies.len() > 1
}
