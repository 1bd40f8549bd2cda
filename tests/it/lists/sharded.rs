//! Every call that names a queue shows one queue where it has shards at the regions: all endpoints are called at a sidecar whose queue has shards
//! and at one whose queue has none, and the answers are compared.

use http::{Method, Request};
use ojs_sidecar::ojs::{Operation, Scope, surface};
use serde_json::{Value, json};

use crate::support::{Answer, Federation, Setup};

const SHARDED: &str = "scheduling: { tenant_queues: [{ queue: email, shards: 4, priority_bands: [10] }] }";
const TENANTS: usize = 12;
const FETCH: &str = "/ojs/v1/workers/fetch";

/// A queue with a job of each of some tenants and one without a tenant; some are active, some are dead letters.
async fn federation(regions: usize, yaml: &str) -> Federation {
    let federation = Setup::default().regions(regions).yaml(yaml).start().await;
    for tenant in 0..=TENANTS {
        let meta = if tenant == TENANTS { json!({}) } else { json!({ "tenant_id": format!("t{tenant}") }) };
        let options = json!({ "queue": "email", "priority": tenant, "retry": { "max_attempts": 1 } });
        let job = json!({ "type": "email.send", "args": [tenant], "meta": meta, "options": options });
        assert_eq!(federation.client.enqueue(job.to_string()).await.status, 201);
    }
    let body = json!({ "queues": ["email"], "count": 5, "worker_id": "w" });
    let fetched = federation.client.post(FETCH, body.to_string()).await.json();
    let jobs = fetched["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 5);
    for job in &jobs[..2] {
        let body = json!({ "job_id": job["id"], "worker_id": "w", "error": { "code": "x", "message": "m", "retryable": false } });
        assert_eq!(federation.client.post("/ojs/v1/workers/nack", body.to_string()).await.status, 200);
    }
    federation
}

/// An answer without what differs between two runs: ids, times, the order of rows.
fn plain(value: &Value, name: &str) -> Value {
    match value {
        // The pages of a list are in another order.
        Value::Object(members) if name.contains('&') => {
            let counted = |of: &Value| of.as_array().map_or_else(|| plain(of, ""), |rows| json!(rows.len()));
            members
                .iter()
                .filter(|(name, _)| *name != "queues" && *name != "uptime_seconds")
                .map(|(name, of)| (name.clone(), counted(of)))
                .collect()
        }
        Value::String(text) if ["queue", "name", "status", "state"].contains(&name) => json!(text),
        Value::String(_) => json!("text"),
        Value::Array(rows) => {
            // Rows and arguments differ by the jobs that were handed out; how many there are does not.
            let mut rows: Vec<Value> = rows.iter().map(|row| plain(row, name)).collect();
            rows.sort_by_key(Value::to_string);
            if name == "args" { json!("args") } else { json!(rows) }
        }
        Value::Object(members) => {
            // A merged list shows the length of its page, also where its server does not.
            let skipped = ["meta", "priority", "options", "limit", "per_page", "uptime_seconds"];
            // The number of queues, and the queues of a worker, are not put back: see docs/limits.md.
            let skipped =
                skipped.into_iter().chain(["queues"].into_iter().filter(|_| !members.contains_key("pagination")));
            let skipped: Vec<&str> = skipped.collect();
            let members = members.iter().filter(|(name, _)| !skipped.contains(&name.as_str()));
            members.map(|(name, of)| (name.clone(), plain(of, name))).collect()
        }
        other => other.clone(),
    }
}

async fn call(federation: &Federation, method: &Method, path: &str, body: &str) -> Answer {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    federation.client.send(request, body.to_owned()).await
}

/// The path of an endpoint, with the queue where it names one, and its body.
fn asked(path: &str, method: &str) -> (String, String) {
    let path = path.replace("{*}", "email").replace("{}", "email");
    let body = match method {
        "GET" | "DELETE" => String::new(),
        _ if path.ends_with("/queues") => json!({ "name": "email" }).to_string(),
        _ if path.ends_with("/fetch") => json!({ "queues": ["email"], "count": 2, "worker_id": "w" }).to_string(),
        _ if path.contains("/bulk/") || path.contains("/dead-letter") => {
            json!({ "filter": { "queue": "email" } }).to_string()
        }
        _ => "{}".to_owned(),
    };
    (path, body)
}

#[tokio::test]
async fn every_endpoint_answers_as_for_a_queue_without_shards() {
    for regions in [1, 3] {
        let [sharded, whole] = [federation(regions, SHARDED).await, federation(regions, "").await];
        // Reads first, and what empties the queue last.
        let rank = |operation: Operation, method: &str| match operation {
            Operation::QueuePurge | Operation::QueueDelete => 3,
            _ => u8::from(method != "GET") + u8::from(method == "DELETE"),
        };
        let mut calls: Vec<_> = surface()
            .filter(|it| !matches!(it.scope, Scope::Ours | Scope::Health | Scope::Tunnel | Scope::EventStream))
            .filter(|it| {
                !it.path.contains("stream") && !it.path.ends_with("/metrics") && it.operation != Operation::QueueEvents
            })
            .flat_map(|it| {
                let methods = if it.methods.is_empty() { vec!["GET", "POST"] } else { it.methods.clone() };
                methods.into_iter().map(move |method| (rank(it.operation, method), method, it.path)).collect::<Vec<_>>()
            })
            .collect();
        calls.sort_by_key(|call| call.0);
        let mut wrong: Vec<String> = Vec::new();
        for (_, method, pattern) in calls {
            let (path, body) = asked(pattern, method);
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            // Lists of names are merged, and so are those of the administration, which are as long as was asked for where servers heed no length.
            let is_paged = method == Method::GET && !path.ends_with("/queues") && !path.contains("/admin/");
            let by_number =
                if path.contains("/admin/") { "?queue=email&page=2&per_page=3" } else { "?queue=email&offset=3" };
            let taken = if is_paged {
                4
            } else if path.ends_with("/queues") {
                2
            } else {
                3
            };
            let queries = ["", "?queue=email", by_number, "?queue=email&limit=2"];
            for query in queries.into_iter().take(taken) {
                let target = format!("{path}{query}");
                let [on, off] =
                    [call(&sharded, &method, &target, &body).await, call(&whole, &method, &target, &body).await];
                let what = format!("{regions}: {method} {target}");
                if on.status != off.status || String::from_utf8_lossy(&on.body).contains(".ojs-") {
                    wrong.push(format!("{what}:\n{on:?}\n{off:?}"));
                }
                let [on, off] = [on, off].map(|answer| serde_json::from_slice(&answer.body).unwrap_or(Value::Null));
                let [on, off] = [plain(&on, query), plain(&off, query)];
                if on != off {
                    wrong.push(format!("{what}:\n{on}\n{off}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    }
}
