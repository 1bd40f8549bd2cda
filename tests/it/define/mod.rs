//! Cron jobs, workflows and schemas over several regions, judged at the regions' own lists.

mod cron;
mod schemas;
mod workflow;

use http::Method;
use ojs_testbed::Dialect;
use serde_json::{Value, json};

use crate::support::{Answer, Federation, IDS, Setup};

/// Three regions that follow one dialect, whose breakers never open.
fn quiet(dialect: Dialect) -> Setup {
    let setup = Setup::default().steered().yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }");
    if dialect == Dialect::Spec { setup.by_the_documents() } else { setup }
}

fn pin(place: usize) -> Value {
    json!({ "ojs.federation.region": IDS[place] })
}

async fn call(federation: &Federation, method: Method, path: &str, body: &Value) -> Answer {
    let request = http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    federation.client.send(request, if body.is_null() { String::new() } else { body.to_string() }).await
}

async fn post(federation: &Federation, path: &str, body: &Value) -> Answer {
    call(federation, Method::POST, path, body).await
}

/// How many definitions of a kind each region was given.
fn defined(federation: &Federation, kind: &str) -> Vec<usize> {
    let count = |place: usize| {
        federation.regions[place].definitions().iter().filter(|definition| definition.kind == kind).count()
    };
    (0..federation.regions.len()).map(count).collect()
}
