//! Queues with shards: tenants share workers, and every call shows one queue.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::FETCH;
use crate::support::{Federation, Setup};

const BATCH: &str = "/ojs/v1/jobs/batch";
const SHARDED: &str = "scheduling: { tenant_queues: [{ queue: email, shards: 32 }] }";
const WEIGHTED: &str = "scheduling: { tenant_queues: [{ queue: email, shards: 32, weights: { acme: 5, initech: 1 }, priority_bands: [50, 0] }] }";

fn job(tenant: &str, priority: i64, args: usize) -> Value {
    json!({ "type": "email.send", "args": [tenant, priority, args], "meta": { "tenant_id": tenant },
            "options": { "queue": "email", "priority": priority } })
}

/// Enqueues so many jobs of a tenant through the sidecar.
async fn enqueue(federation: &Federation, tenant: &str, priority: i64, count: usize) {
    let jobs: Vec<Value> = (0..count).map(|at| job(tenant, priority, at)).collect();
    for part in jobs.chunks(1_000) {
        let answer = federation.client.post(BATCH, json!({ "jobs": part }).to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert!(answer.json()["jobs"].as_array().unwrap().iter().all(|job| job["queue"] == "email"));
    }
}

/// So many FETCHes; the tenant and the priority of each job that came, in order.
async fn dispatched(federation: &Federation, times: usize, count: usize) -> Vec<(String, i64)> {
    let mut came = Vec::new();
    for _ in 0..times {
        let body = json!({ "queues": ["email"], "count": count, "worker_id": "w" }).to_string();
        let answer = federation.client.post(FETCH, body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        for job in answer.json()["jobs"].as_array().unwrap() {
            assert_eq!(job["queue"], "email");
            came.push((job["args"][0].as_str().unwrap().to_owned(), job["args"][1].as_i64().unwrap()));
        }
    }
    came
}

fn by_tenant(came: &[(String, i64)]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    came.iter().for_each(|(tenant, _)| *counts.entry(tenant.as_str()).or_default() += 1);
    counts
}

#[tokio::test]
async fn a_small_tenant_is_done_within_220_dispatches_beside_a_loud_one() {
    let federation = Setup::default().yaml(SHARDED).start().await;
    enqueue(&federation, "acme", 0, 10_000).await;
    enqueue(&federation, "globex", 0, 100).await;
    let came = dispatched(&federation, 220, 1).await;
    assert_eq!(by_tenant(&came)["globex"], 100);
    assert_eq!(came.len(), 220, "a FETCH has one job for one call");
    assert_eq!(federation.calls(FETCH), [220, 0, 0]);
}

#[tokio::test]
async fn shares_follow_the_weights_for_single_jobs_and_for_many() {
    let federation = Setup::default().yaml(WEIGHTED).start().await;
    for tenant in ["acme", "initech"] {
        enqueue(&federation, tenant, 0, 900).await;
    }
    for count in [1, 10] {
        let came = dispatched(&federation, 300 / count, count).await;
        let shares = by_tenant(&came);
        assert!(shares["acme"].abs_diff(250) <= 12, "{count}: {shares:?}");
    }
}

#[tokio::test]
async fn a_higher_priority_goes_first_whatever_the_tenants_are() {
    let federation = Setup::default().yaml(WEIGHTED).start().await;
    for (tenant, priority, count) in
        [("acme", -1, 20), ("acme", 0, 30), ("initech", 10, 30), ("globex", 60, 25), ("acme", 50, 25)]
    {
        enqueue(&federation, tenant, priority, count).await;
    }
    let came = dispatched(&federation, 130, 1).await;
    let bands: Vec<u8> = came.iter().map(|(_, priority)| u8::from(*priority < 50) + u8::from(*priority < 0)).collect();
    assert!(bands.is_sorted() && bands.len() == 130, "{bands:?}");
    assert_eq!(by_tenant(&came[..50]), BTreeMap::from([("acme", 25), ("globex", 25)]));
}

#[tokio::test]
async fn jobs_lie_in_one_shard_a_tenant_and_without_a_tenant_in_the_queue_itself() {
    let federation = Setup::default().yaml(SHARDED).start().await;
    let bare = r#"{"type":"email.send","args":["n"],"options":{"queue":"email"}}"#;
    for (header, body) in [
        ("", job("acme", 0, 1).to_string()),
        ("", job("acme", 0, 2).to_string()),
        ("acme", bare.to_owned()),
        ("", bare.to_owned()),
    ] {
        let mut request = http::Request::post("/ojs/v1/jobs");
        if !header.is_empty() {
            request = request.header("x-ojs-tenant", header);
        }
        let answer = federation.client.send(request, body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["job"]["queue"]), (201, &json!("email")), "{answer:?}");
    }
    let queues: Vec<Value> = federation
        .heard(0, "/ojs/v1/jobs")
        .iter()
        .map(|call| {
            let body: Value = serde_json::from_slice(&call.body).unwrap();
            body["options"]["queue"].clone()
        })
        .collect();
    assert_eq!(queues, ["email.ojs-t17", "email.ojs-t17", "email.ojs-t17", "email"]);
    // The jobs of the queue itself came before its shards.
    let came = federation.client.post(FETCH, r#"{"queues":["email"],"count":4,"worker_id":"w"}"#).await.json();
    let args: Vec<&Value> = came["jobs"].as_array().unwrap().iter().map(|job| &job["args"]).collect();
    assert_eq!(args[0], &json!(["n"]));
    assert_eq!(args.len(), 4);
}

#[tokio::test]
async fn a_shard_is_no_queue_of_a_client() {
    let federation = Setup::default().yaml(SHARDED).start().await;
    let named = r#"{"type":"email.send","args":[],"options":{"queue":"email.ojs-t07"}}"#;
    for (path, body) in [
        ("/ojs/v1/jobs", named.to_owned()),
        (BATCH, format!(r#"{{"jobs":[{named}]}}"#)),
        (FETCH, r#"{"queues":["email.ojs-t07"],"worker_id":"w"}"#.to_owned()),
    ] {
        let answer = federation.client.post(path, body).await;
        let document = answer.check_error(400, "invalid_request", "queue_is_a_shard");
        assert_eq!(document["details"]["queue"], "email", "{path}");
        assert_eq!(federation.calls(path), [0, 0, 0]);
    }
}

#[tokio::test]
async fn without_a_queue_of_tenants_in_it_a_fetch_arrives_byte_for_byte() {
    let federation = Setup::default().yaml(SHARDED).start().await;
    let body = r#"{ "queues" : ["sms", "critical"] ,"x":1E400 }"#;
    assert_eq!(federation.client.post(FETCH, body).await.status, 200);
    assert_eq!(&*federation.heard(0, FETCH)[0].body, body.as_bytes());
}
