//! Every call that names a queue, with a queue that has shards: its names reach the region, and clients see one queue.

use std::collections::BTreeSet;

use http::Method;
use ojs_sidecar::ojs::{Scope, surface};
use serde_json::{Value, json};

use super::FETCH;
use crate::support::{Answer, Federation, Setup};

const SHARDED: &str = "scheduling: { tenant_queues: [{ queue: email, shards: 2 }] }";
const NAMES: [&str; 3] = ["email", "email.ojs-t00", "email.ojs-t01"];
/// Calls below a queue that no server is known to have: they reach the queue's own name.
const UNKNOWN: &str = "{*}";

/// A federation whose local region has a waiting job of each of twelve tenants, in both shards, and one without tenant.
async fn filled() -> Federation {
    let federation = Setup::default().by_the_documents().yaml(SHARDED).start().await;
    for tenant in 0..12 {
        assert_eq!(federation.client.enqueue(job(Some(tenant))).await.status, 201);
    }
    assert_eq!(federation.client.enqueue(job(None)).await.status, 201);
    let queues: BTreeSet<String> = federation.regions[0].jobs().iter().map(|job| job.queue.clone()).collect();
    assert_eq!(queues, NAMES.map(str::to_owned).into());
    federation
}

fn job(tenant: Option<usize>) -> String {
    let meta = tenant.map_or_else(|| json!({}), |tenant| json!({ "tenant_id": format!("t{tenant}") }));
    json!({ "type": "a", "args": [], "meta": meta, "options": { "queue": "email" } }).to_string()
}

async fn call(federation: &Federation, method: &str, target: &str, body: &str) -> Answer {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    federation.client.call(method, target, body.to_owned()).await
}

fn check_shown(method: &str, target: &str, answer: &Answer) {
    let text = String::from_utf8_lossy(&answer.body);
    assert!(!text.contains(".ojs-"), "{method} {target}: {text}");
}

#[tokio::test]
async fn a_queue_in_the_path_is_all_its_names_at_the_region() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for endpoint in
        surface().filter(|endpoint| endpoint.path.contains("/queues/{}") && !endpoint.path.ends_with("/events"))
    {
        let methods = if endpoint.methods.is_empty() { vec!["GET", "PUT", "DELETE"] } else { endpoint.methods.clone() };
        for method in methods {
            let federation = filled().await;
            federation.regions[0].record().clear();
            let path = |name: &str| endpoint.path.replace("{}", name);
            let body = if method == "GET" { "" } else { "{}" };
            let answer = call(&federation, method, &path("email"), body).await;
            check_shown(method, endpoint.path, &answer);
            let heard = federation.regions[0].record().requests_to("/ojs/v1/");
            let heard: BTreeSet<&str> = heard
                .iter()
                .filter(|request| request.method == method)
                .map(|request| request.path.split('?').next().unwrap_or_default())
                .collect();
            // All names of a queue have the same settings, so that a read asks for those of its own name.
            let is_definition = method == "GET" && matches!(endpoint.scope, Scope::QueueDefinition);
            let names = if is_definition { &NAMES[..1] } else { &NAMES };
            let all: Vec<String> = names.iter().map(|name| path(name)).collect();
            if heard != all.iter().map(String::as_str).collect() {
                wrong.push(format!("{method} {}: {heard:?}", endpoint.path));
            }
            tried += 1;
        }
    }
    assert!(wrong.is_empty(), "calls that do not reach all names:\n{}", wrong.join("\n"));
    assert!(tried > 25, "{tried}");
    assert!(surface().any(|endpoint| endpoint.path.ends_with(&format!("/queues/{UNKNOWN}"))));
}

#[tokio::test]
async fn a_queue_in_a_query_is_all_its_names_at_the_region() {
    for path in ["/ojs/v1/jobs", "/ojs/v1/dead-letter", "/ojs/v1/admin/jobs", "/ojs/v1/admin/dead-letter"] {
        let federation = filled().await;
        federation.regions[0].record().clear();
        let answer = call(&federation, "GET", &format!("{path}?queue=email&limit=50"), "").await;
        check_shown("GET", path, &answer);
        let heard = federation.regions[0].record().requests_to(path);
        let asked: BTreeSet<&str> = NAMES
            .into_iter()
            .filter(|name| heard.iter().any(|request| request.path.contains(&format!("queue={name}&"))))
            .collect();
        assert_eq!(asked, NAMES.into(), "{path}");
    }
    let federation = filled().await;
    let jobs = call(&federation, "GET", "/ojs/v1/jobs?queue=email&limit=50", "").await.json();
    assert_eq!(jobs["jobs"].as_array().map(Vec::len), Some(13), "{jobs}");
}

#[tokio::test]
async fn a_queue_in_a_body_is_a_shard_at_the_region() {
    let federation = filled().await;
    let meta = json!({ "tenant_id": "t1" });
    let options = json!({ "queue": "email" });
    let job = json!({ "type": "a", "args": [], "meta": meta, "options": options });
    let jobs = json!({ "jobs": [job, job] });
    for (path, body) in
        [("/ojs/v1/jobs", job.clone()), ("/ojs/v1/jobs/batch", jobs.clone()), ("/ojs/v1/jobs/bulk", jobs)]
    {
        federation.regions[0].record().clear();
        let answer = call(&federation, "POST", path, &body.to_string()).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
        check_shown("POST", path, &answer);
        let heard = federation.regions[0].record().requests_to(path).pop().unwrap();
        let heard: Value = serde_json::from_slice(&heard.body).unwrap();
        let sent = heard["jobs"].as_array().cloned().unwrap_or_else(|| vec![heard.clone()]);
        assert!(sent.iter().all(|job| job["options"]["queue"].as_str().unwrap().starts_with("email.ojs-t")), "{heard}");
    }
    federation.regions[0].record().clear();
    let answer = call(&federation, "POST", FETCH, r#"{"queues":["email"],"count":3,"worker_id":"w"}"#).await;
    check_shown("POST", FETCH, &answer);
    let heard = federation.regions[0].record().requests_to(FETCH).pop().unwrap();
    let heard: Value = serde_json::from_slice(&heard.body).unwrap();
    assert_eq!(heard["queues"].as_array().map(Vec::len), Some(3), "{heard}");
    let filter = json!({ "filter": { "queue": "email" } }).to_string();
    for path in ["/ojs/v1/jobs/bulk/cancel", "/ojs/v1/admin/jobs/bulk/cancel"] {
        federation.regions[0].record().clear();
        check_shown("POST", path, &call(&federation, "POST", path, &filter).await);
        let heard = federation.regions[0].record().requests_to(path);
        let named: BTreeSet<String> = heard
            .iter()
            .filter_map(|request| serde_json::from_slice::<Value>(&request.body).ok())
            .filter_map(|body| body["filter"]["queue"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(named, NAMES.map(str::to_owned).into(), "{path}");
    }
}

#[tokio::test]
async fn answers_that_name_queues_without_being_asked_name_one() {
    let federation = filled().await;
    let targets = [
        "/ojs/v1/queues",
        "/ojs/v1/admin/queues",
        "/ojs/v1/jobs?limit=50",
        "/ojs/v1/admin/stats",
        "/ojs/v1/admin/jobs",
        "/ojs/v1/events?limit=50",
        "/ojs/v1/dead-letter",
        "/ojs/v1/admin/workers",
    ];
    for target in targets {
        let answer = call(&federation, "GET", target, "").await;
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        check_shown("GET", target, &answer);
    }
    let queues = call(&federation, "GET", "/ojs/v1/queues", "").await.json();
    let named: Vec<&Value> = queues["queues"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert_eq!(named, ["email"], "{queues}");
}
