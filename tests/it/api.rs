//! The federation API on the client listener: regions, the dry run, health.

mod dry_run;
mod reports;

use serde_json::Value;

use crate::support::{Answer, Federation};

/// Where each of the three answers, under every prefix.
const PREFIXES: [&str; 3] = ["/v1/federation", "/ojs/v1/federation", "/ojs/federation"];

/// A dry run's document.
async fn dry_run(federation: &Federation, body: &str) -> Value {
    let answer = federation.client.post("/v1/federation/route", body.to_owned()).await;
    assert_eq!(answer.status, 200, "{body}: {answer:?}");
    ours(&answer);
    answer.json()
}

/// What every answer of the API carries.
#[track_caller]
fn ours(answer: &Answer) {
    assert_eq!(answer.header("content-type"), Some("application/openjobspec+json"));
    assert_eq!((answer.header("ojs-version"), answer.region()), (Some("1.0"), "none"));
    assert!(answer.header("x-request-id").is_some());
}

/// The names of an object's members, sorted.
fn members(object: &Value) -> Vec<&str> {
    let mut members: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    members
}
