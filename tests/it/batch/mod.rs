//! Batches and bulk enqueues over several regions, judged at the regions' stores and sockets.

mod bulk;
mod failure;
mod split;
mod undo;

use bytes::Bytes;
use http::Request;
use ojs_testbed::JobState;
use serde_json::{Value, json};

use crate::support::{Answer, Federation, IDS, Setup};

const BATCH: &str = "/ojs/v1/jobs/batch";
const BULK: &str = "/ojs/v1/jobs/bulk";

/// A job of this type, pinned to a region or not.
fn job(kind: &str, region: Option<usize>) -> Value {
    match region {
        Some(place) => json!({ "type": kind, "args": [kind], "meta": { "ojs.federation.region": IDS[place] } }),
        None => json!({ "type": kind, "args": [kind] }),
    }
}

/// A batch with jobs of types `t.a`, `t.b` and so on, each pinned or not.
fn mixed(regions: &[Option<usize>]) -> Value {
    let kinds = ('a'..='z').map(|letter| format!("t.{letter}"));
    json!({ "jobs": kinds.zip(regions).map(|(kind, region)| job(&kind, *region)).collect::<Vec<_>>() })
}

/// The types of the jobs of each region that are not cancelled, in the order of their arrival.
fn alive(federation: &Federation) -> Vec<Vec<String>> {
    stored(federation, |state| state != JobState::Cancelled)
}

fn cancelled(federation: &Federation) -> Vec<Vec<String>> {
    stored(federation, |state| state == JobState::Cancelled)
}

fn stored(federation: &Federation, wanted: impl Fn(JobState) -> bool) -> Vec<Vec<String>> {
    let kinds = |place: usize| {
        let jobs = federation.regions[place].jobs();
        jobs.iter().filter(|job| wanted(job.state)).map(|job| job.kind.clone()).collect()
    };
    (0..federation.regions.len()).map(kinds).collect()
}

/// Three regions whose breakers never open, so that each case stands for itself.
fn quiet() -> Setup {
    Setup::default().steered().by_the_documents().yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
}

async fn post(federation: &Federation, path: &str, body: &Value) -> Answer {
    federation.client.post(path, body.to_string()).await
}

async fn post_keyed(federation: &Federation, path: &str, key: &str, body: &Value) -> Answer {
    let request = Request::post(path).header("content-type", "application/json").header("idempotency-key", key);
    federation.client.send(request, Bytes::from(body.to_string())).await
}

/// The fates of the jobs in an error document.
#[track_caller]
fn check_fates(answer: &Answer, created: &[u64], failed: &[u64], cancelled: &[u64], unknown: &[u64]) {
    let details = &answer.json()["error"]["details"];
    for (name, expected) in [("created", created), ("failed", failed), ("cancelled", cancelled), ("unknown", unknown)] {
        assert_eq!(details[name], json!(expected), "{name}: {details:#}");
    }
}

/// The types of the jobs in the answer, in its order.
fn kinds(answer: &Answer) -> Vec<String> {
    let jobs = answer.json()["jobs"].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone();
    jobs.iter().map(|job| job["type"].as_str().unwrap().to_owned()).collect()
}
