//! Clients and workers of sidecars, on a thread of their own: enqueue, fetch and acknowledge, and jobs for a region with a limit.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Client, eventually, job, pinned};

/// Between two rounds of one client: a load that two cores carry beside everything else.
const PACE: Duration = Duration::from_millis(40);

/// Calls that have ended.
#[derive(Default)]
pub struct Calls {
    pub enqueued: usize,
    /// Jobs for the limited region that found it used up.
    pub refused: usize,
    pub errors: Vec<String>,
    took: Vec<Duration>,
}

/// Jobs at once of each client for the limited region.
const AT_ONCE: usize = 2;

/// A load that runs until it is ended.
pub struct Load {
    calls: Arc<Mutex<Calls>>,
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Calls {
    /// The times of the calls.
    pub fn shown(&self) -> String {
        let mut took = self.took.clone();
        took.sort_unstable();
        let at = |share: usize| took.get((took.len().max(1) - 1) * share / 1_000).copied().unwrap_or_default();
        let (calls, errors) = (took.len(), self.errors.len());
        format!("{calls} calls, {errors} errors, p50 {:?}, p99 {:?}, max {:?}", at(500), at(990), at(1_000))
    }

    fn note(&mut self, what: &str, begun: Instant, expected: u16, answer: &crate::support::Answer) {
        self.took.push(begun.elapsed());
        if answer.status.as_u16() != expected {
            self.errors.push(format!("{what}: {answer:?}"));
        }
    }
}

impl Load {
    /// One client and worker for each sidecar.
    pub fn start(sidecars: Vec<SocketAddr>) -> Self {
        let (calls, is_over) = (Arc::<Mutex<Calls>>::default(), Arc::<AtomicBool>::default());
        let (of_thread, until) = (Arc::clone(&calls), Arc::clone(&is_over));
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let all = sidecars.iter().map(|address| {
                let client = Client::new(*address);
                let limited = (0..AT_ONCE).map(|_| limited(client, &of_thread, &until));
                futures_util::future::join(rounds(client, &of_thread, &until), futures_util::future::join_all(limited))
            });
            runtime.block_on(futures_util::future::join_all(all));
        };
        Self { calls, is_over, thread: std::thread::spawn(body) }
    }

    /// Waits until so many calls have ended.
    pub async fn wait_for_calls(&self, calls: usize) {
        eventually("the load runs", async || self.calls.lock().unwrap().took.len() >= calls).await;
    }

    /// The calls since the last time.
    pub fn take(&self) -> Calls {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    /// Ends the load, and returns the calls since the last time.
    pub fn end(self) -> Calls {
        self.is_over.store(true, Relaxed);
        self.thread.join().unwrap();
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

async fn rounds(client: Client, calls: &Mutex<Calls>, is_over: &AtomicBool) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !is_over.load(Relaxed) {
        pace.tick().await;
        let begun = Instant::now();
        let answer = client.enqueue(job("a")).await;
        {
            let mut noted = calls.lock().unwrap();
            noted.enqueued += 1;
            noted.note("enqueue", begun, 201, &answer);
        }
        let begun = Instant::now();
        let fetched = client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#).await;
        calls.lock().unwrap().note("fetch", begun, 200, &fetched);
        let jobs = fetched.json()["jobs"].as_array().cloned().unwrap_or_default();
        for id in jobs.iter().filter_map(|job: &Value| job["id"].as_str()) {
            let begun = Instant::now();
            let body = serde_json::json!({ "job_id": id, "worker_id": "w" }).to_string();
            let answer = client.post("/ojs/v1/workers/ack", body).await;
            calls.lock().unwrap().note("ack", begun, 200, &answer);
        }
    }
}

/// Jobs for the limited region, one after the other.
async fn limited(client: Client, calls: &Mutex<Calls>, is_over: &AtomicBool) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !is_over.load(Relaxed) {
        pace.tick().await;
        let begun = Instant::now();
        let answer = client.enqueue(pinned("ap-south-1", "b")).await;
        let mut noted = calls.lock().unwrap();
        if answer.status == 503 && answer.reason() == "fleet_limit" {
            noted.refused += 1;
            continue;
        }
        noted.enqueued += 1;
        // The region has stored a job of unknown outcome; how long the sidecar asks for it is no figure of the load.
        if !(answer.status == 500 && answer.reason() == "outcome_unknown") {
            noted.note("enqueue for the limited region", begun, 201, &answer);
        }
    }
}
