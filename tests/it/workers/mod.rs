//! Workers: every word of theirs reaches the region that it concerns, and no other.

mod beat;
mod fence;
mod fetch;
mod fleet;
mod held;
mod isolated;
mod migration;
mod one;
mod pools;
mod scheduling;
mod sdk;
mod settle;
mod sharded_events;
mod sharded_surface;
mod starved;
mod tenants;
mod turns;
mod vanished;

use ojs_testbed::{JobState, Recorded};

use crate::support::{Client, Federation, Sidecar, pinned};
use sdk::Sdk;

const FETCH: &str = "/ojs/v1/workers/fetch";
const ACK: &str = "/ojs/v1/workers/ack";
const NACK: &str = "/ojs/v1/workers/nack";
const BEAT: &str = "/ojs/v1/workers/heartbeat";

/// A job of a queue; `args` tells it from others.
fn queued(queue: &str, args: &str) -> String {
    format!(r#"{{"type":"email.send","args":["{args}"],"options":{{"queue":"{queue}"}}}}"#)
}

/// A job of a queue that is pinned to a region.
fn pinned_in(queue: &str, region: &str, args: &str) -> String {
    let meta = format!(r#""meta":{{"ojs.federation.region":"{region}"}}"#);
    format!(r#"{{"type":"email.send","args":["{args}"],{meta},"options":{{"queue":"{queue}"}}}}"#)
}

/// Puts a job into a region by a pin, and has a worker beside that region claim it; returns its id.
async fn claimed(federation: &Federation, beside: &Sidecar, place: usize, args: &str) -> String {
    let id = federation.client.enqueue(pinned(crate::support::IDS[place], args)).await.job_id();
    let answer = beside.client.post(FETCH, Sdk::Rust.fetch(&["default"], 1, "w")).await;
    assert_eq!(answer.json()["jobs"][0]["id"], id.as_str(), "{answer:?}");
    id
}

/// The ids of the jobs that a FETCH has brought.
async fn fetch(client: Client, body: String) -> Vec<String> {
    let answer = client.post(FETCH, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    ids(&answer.json()["jobs"])
}

fn ids(jobs: &serde_json::Value) -> Vec<String> {
    let id = |job: &serde_json::Value| job["id"].as_str().unwrap().to_owned();
    jobs.as_array().unwrap().iter().map(id).collect()
}

impl Federation {
    /// How many calls of a path each region has received, by place.
    fn calls(&self, path: &str) -> Vec<usize> {
        self.regions.iter().map(|region| region.record().requests_to(path).len()).collect()
    }

    /// The calls of a path that a region has received.
    fn heard(&self, place: usize, path: &str) -> Vec<Recorded> {
        self.regions[place].record().requests_to(path)
    }

    /// The last call of a path that a region has received, as a value.
    fn last(&self, place: usize, path: &str) -> serde_json::Value {
        serde_json::from_slice(&self.heard(place, path).last().unwrap().body).unwrap()
    }

    /// Puts jobs into a region's queue, as if others had been busy.
    fn fill(&self, place: usize, queue: &str, count: usize) {
        self.regions[place].fill(queue, count);
    }

    fn state(&self, place: usize, id: &str) -> JobState {
        self.regions[place].jobs().job(id).unwrap().state
    }
}
