//! What becomes of an enqueue that was sent and not answered: found out within the call, or told as unknown and cleared up later.
//!
//! Judged at the regions' stores: how often a job was stored, where, and in which state it ended.

mod belief;
mod durable;
mod keys;
mod late;
mod proof;
mod refused;
mod restart;
mod settled;
mod synced;
mod told;
mod tombstones;
mod within;

use std::time::Duration;

use http::{Method, Request};
use ojs_testbed::{Fault, Gate, When};
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::support::{Answer, Client, Federation, Setup, eventually};

/// The client's own id of a job.
const OWN: &str = "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f";

/// Two regions; breakers never open, so that each case stands for itself, and late writes are soon ruled out.
fn quiet() -> Setup {
    Setup::default()
        .regions(2)
        .yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
        .yaml("failover: { late_write_grace: 50ms, retry_budget: { floor: 1000 } }")
}

/// All jobs of all regions: place, id, how often it was stored, and its state.
fn jobs(federation: &Federation) -> Vec<(usize, String, u32, String)> {
    let of = |(place, region): (usize, &ojs_testbed::DemoRegion)| {
        let jobs = region.jobs();
        jobs.iter().map(|job| (place, job.id.clone(), job.stored, job.state.as_str().to_owned())).collect::<Vec<_>>()
    };
    federation.regions.iter().enumerate().flat_map(of).collect()
}

/// What the API shows.
pub(super) async fn outcomes(client: &Client) -> Value {
    let answer = client.get("/v1/federation/outcomes").await;
    assert_eq!(answer.status, 200);
    answer.json()
}

/// How many jobs' fates are open.
pub(super) async fn open(client: &Client) -> u64 {
    let all = outcomes(client).await;
    all["unknown"].as_u64().unwrap() + all["watched"].as_u64().unwrap()
}

/// Waits until the newest outcome is in a state, and returns it.
pub(super) async fn newest_in(client: &Client, state: &str) -> Value {
    let mut newest = Value::Null;
    eventually(&format!("the newest outcome is {state}"), async || {
        // A journal that opens slowly shows its rows a little later.
        newest = outcomes(client).await["outcomes"].get(0).cloned().unwrap_or_default();
        newest["state"] == state
    })
    .await;
    newest
}

/// A job that is on its way into the local region, whose answer waits for the gate while its connection is cut.
struct Cut {
    gate: Gate,
    answer: JoinHandle<Answer>,
}

impl Cut {
    async fn begin(federation: &Federation, body: String) -> Self {
        let client = federation.client;
        Self::begin_with(federation, async move { client.enqueue(body).await }).await
    }

    /// With this enqueue, which was not polled yet.
    async fn begin_with(federation: &Federation, enqueue: impl Future<Output = Answer> + Send + 'static) -> Self {
        let region = &federation.regions[0];
        let gate = Gate::new();
        region.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
        let before = federation.enqueues(0);
        let answer = tokio::spawn(enqueue);
        let complete = |request: &ojs_testbed::Recorded| request.method == Method::POST && request.complete;
        let arrived = |record: &ojs_testbed::Record| {
            record.requests_to("/ojs/v1/jobs").iter().filter(|it| complete(it)).count() > before
        };
        region.record().wait_for(arrived).await;
        region.cut_connections().await;
        Self { gate, answer }
    }

    async fn answer(&mut self) -> Answer {
        (&mut self.answer).await.unwrap()
    }
}

/// An enqueue with an `Idempotency-Key`.
async fn keyed(client: Client, key: &str, body: String) -> Answer {
    let request = Request::post("/ojs/v1/jobs").header("content-type", "application/json");
    client.send(request.header("idempotency-key", key), body).await
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("ojs-federation-replayed") == Some("true")
}

/// Waits until the background has asked the local region a first time; with a steered clock it does so again only when that moves.
async fn background_has_asked(federation: &Federation) {
    let ours = |value: &http::HeaderValue| value.as_bytes().starts_with(b"ojs-sidecar/");
    let asked = |record: &ojs_testbed::Record| {
        record.requests_to("/ojs/v1/jobs/").iter().any(|it| it.headers.get("user-agent").is_some_and(ours))
    };
    federation.regions[0].record().wait_for(asked).await;
}

/// A worker takes the next job of a region.
async fn start_next(federation: &Federation, place: usize) -> String {
    let fetched = federation.regions[place].jobs();
    let waiting = fetched.iter().find(|job| job.state.as_str() == "available").map(|job| job.id.clone()).unwrap();
    let url = federation.regions[place].id().to_owned();
    let other = federation.sidecar_in(&url, &[]).await;
    let answer = other.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"count":1}"#).await;
    assert_eq!(answer.json()["jobs"][0]["id"], waiting, "{answer:?}");
    waiting
}

/// Moves the steered clock until something is true.
pub(super) async fn advance_until(federation: &Federation, what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    eventually(what, async || {
        let holds = is_true().await;
        if !holds {
            federation.advance(Duration::from_secs(1));
        }
        holds
    })
    .await;
}
