//! What servers offer beside jobs, workers and queues: calls about one job reach its region, calls about all reach all.

use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::support::{Answer, Federation, IDS, Setup};

async fn started() -> Federation {
    Setup::default().by_the_documents().start().await
}

fn job(region: &str, queue: &str, more: Value) -> String {
    let mut job = json!({ "type": "a", "args": [], "meta": { "ojs.federation.region": region } });
    job["options"] = more;
    job["options"]["queue"] = json!(queue);
    job.to_string()
}

/// How many requests for a path each region has received, by place.
fn calls(federation: &Federation, path: &str) -> Vec<usize> {
    federation.regions.iter().map(|region| region.record().requests_to(path).len()).collect()
}

async fn call(federation: &Federation, method: Method, path: &str, body: Value) -> Answer {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    federation.client.send(request, body.to_string()).await
}

async fn of_tenant(federation: &Federation, tenant: &str, method: Method, path: &str, body: String) -> Answer {
    federation.client.send(Request::builder().method(method).uri(path).header("x-ojs-tenant", tenant), body).await
}

#[tokio::test]
async fn what_was_done_in_each_region_adds_up_now_and_over_time() {
    for setup in [Setup::default(), Setup::default().by_the_documents()] {
        let federation = setup.start().await;
        for region in IDS {
            let beside = federation.sidecar_in(region, &[]).await;
            assert_eq!(federation.client.enqueue(job(region, "q", json!({}))).await.status, 201);
            let fetch = json!({ "queues": ["q"], "worker_id": region }).to_string();
            let fetched = beside.client.post("/ojs/v1/workers/fetch", fetch).await.json();
            let ack = json!({ "job_id": fetched["jobs"][0]["id"] }).to_string();
            assert_eq!(beside.client.post("/ojs/v1/workers/ack", ack).await.status, 200);
        }
        let now = federation.client.get("/ojs/v1/admin/stats").await.json();
        assert_eq!(now["throughput"], json!({ "processed_per_minute": 3, "failed_per_minute": 0 }));
        assert_eq!(now["x-ojs-federation"]["regions"][IDS[1]]["throughput"]["processed_per_minute"], 1);
        // One day's row, or two where the test runs over midnight.
        let history = federation.client.get("/ojs/v1/admin/stats/history?period=1d").await.json();
        let rows = history["data"].as_array().unwrap();
        let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
        assert!(rows.len() <= 2, "rows of the same time are one: {history}");
        assert_eq!((sum("enqueued"), sum("processed"), sum("failed")), (3, 3, 0));
        let workers = federation.client.get("/ojs/v1/admin/workers").await.json();
        let queues = workers["items"].as_array().unwrap().iter().map(|worker| &worker["queues"]);
        assert_eq!(queues.collect::<Vec<_>>(), [&json!(["q"]); 3]);
    }
}

#[tokio::test]
async fn what_a_worker_or_operator_leaves_beside_a_job_is_in_the_jobs_region() {
    let federation = started().await;
    let agent = json!({ "tool_retry": { "alternate_provider": "fallback" } });
    let made = federation.client.enqueue(job(IDS[1], "q", json!({ "ext_agent_v2": agent }))).await;
    let id = made.job_id();
    let own = federation.sidecar_in(IDS[1], &[]).await;
    own.client.post("/ojs/v1/workers/fetch", json!({ "queues": ["q"], "worker_id": "w1" }).to_string()).await;
    // A sidecar that has never heard of the job finds its region, too.
    let cold = federation.sidecar_in(IDS[2], &[]).await;
    let path = |prefix: &str, act: &str| format!("{prefix}/{id}/{act}");
    let agents = ["/ojs/v1/agents", "/v1/agents", "/v1/agent/jobs"];
    let mut told = Vec::new();
    for (place, prefix) in agents.into_iter().enumerate() {
        let client = if place == 0 { &cold.client } else { &federation.client };
        for (act, member, expected) in [
            ("pause", "state", json!("paused")),
            ("resume", "state", json!("running")),
            ("tool-retry", "retried", json!(true)),
        ] {
            let answer = client.post(&path(prefix, act), r#"{"use_alternate":true}"#).await;
            assert_eq!((answer.region(), &answer.json()[member]), (IDS[1], &expected), "{prefix} {act} {answer:?}");
            told.push(path(prefix, act));
        }
        let mut branches = Vec::new();
        for _ in 0..2 {
            branches.push(client.post(&path(prefix, "fork"), "{}").await.json()["branch_id"].clone());
        }
        let merge = json!({ "branch_a": branches[0], "branch_b": branches[1] }).to_string();
        let merged = client.post(&path(prefix, "merge"), merge).await;
        assert_eq!((merged.status.as_u16(), &merged.json()["conflicts"]), (200, &json!([])), "{merged:?}");
        told.push(path(prefix, "merge"));
    }
    let (checkpoint, progress) = (path("/ojs/v1/jobs", "checkpoint"), path("/ojs/v1/jobs", "progress"));
    let saved = call(&federation, Method::PUT, &checkpoint, json!({ "state": { "row": 7 } })).await;
    assert_eq!((saved.status, saved.region()), (StatusCode::OK, IDS[1]));
    assert_eq!(cold.client.get(&checkpoint).await.json()["checkpoint"]["state"]["row"], 7);
    let reported = call(&federation, Method::PUT, &progress, json!({ "progress": 1.5, "message": "far" })).await;
    assert_eq!(reported.json()["progress"], 1.0, "what is beyond the end is the end");
    let shown = federation.client.get(&progress).await;
    assert_eq!((&shown.json()["progress"], &shown.json()["message"]), (&json!(1.0), &json!("far")));
    told.extend([checkpoint, progress]);
    for path in told {
        let calls = calls(&federation, &path);
        assert!(calls[0] == 0 && calls[1] > 0 && calls[2] == 0, "{path}: {calls:?}");
    }
}

#[tokio::test]
async fn a_full_queue_is_answered_429_with_its_depth_and_its_region_stays_well() {
    let federation = started().await;
    let config = "/ojs/v1/admin/queues/full/config";
    let bound = json!({ "backpressure": { "max_depth": 1, "strategy": "reject" } });
    assert_eq!(call(&federation, Method::PUT, config, bound).await.status, 200);
    assert_eq!(calls(&federation, config), [1, 1, 1]);
    for region in IDS {
        let last = federation.client.enqueue(job(region, "full", json!({}))).await;
        assert_eq!((last.status.as_u16(), last.header("x-ojs-queue-pressure")), (201, Some("1.00")), "{region}");
    }
    for _ in 0..10 {
        let refused = federation.client.enqueue(job(IDS[1], "full", json!({}))).await;
        assert_eq!((refused.status.as_u16(), refused.region()), (429, IDS[1]), "{refused:?}");
        assert_eq!(refused.json()["error"]["code"], "QUEUE_FULL");
        assert_eq!(refused.header("retry-after"), Some("5"));
        assert_eq!((refused.header("x-ojs-queue-depth"), refused.header("x-ojs-queue-bound")), (Some("1"), Some("1")));
    }
    assert_eq!((federation.breaker(1), federation.health(1)), ("closed", "healthy"));
    assert_eq!(federation.client.enqueue(job(IDS[1], "other", json!({}))).await.status, 201);
    assert_eq!(federation.regions[1].jobs().len(), 2, "what was refused is stored nowhere");
}

#[tokio::test]
async fn a_tenants_header_reaches_the_region_of_each_call() {
    let federation = started().await;
    let made = of_tenant(&federation, "acme", Method::POST, "/ojs/v1/jobs", job(IDS[1], "q", json!({}))).await;
    assert_eq!((made.status.as_u16(), &made.json()["job"]["meta"]["tenant_id"]), (201, &json!("acme")));
    let path = format!("/ojs/v1/jobs/{}", made.job_id());
    for (tenant, status) in [("other", 404), ("acme", 200)] {
        let shown = of_tenant(&federation, tenant, Method::GET, &path, String::new()).await;
        assert_eq!(shown.status, status, "{tenant}: {shown:?}");
    }
    assert_eq!(of_tenant(&federation, "other", Method::DELETE, &path, String::new()).await.status, 404);
    let beside = federation.sidecar_in(IDS[1], &[]).await;
    for (tenant, count) in [("other", 0), ("acme", 1)] {
        let request = Request::post("/ojs/v1/workers/fetch").header("x-ojs-tenant", tenant);
        let fetched = beside.client.send(request, json!({ "queues": ["q"] }).to_string()).await.json();
        assert_eq!(fetched["jobs"].as_array().unwrap().len(), count, "{tenant}");
    }
    // Each region counts its own tenants; a call may name the region.
    for (region, count) in [(IDS[0], 0), (IDS[1], 1)] {
        let stats = federation.client.get(&format!("/ojs/v1/admin/tenants/acme/stats?region={region}")).await;
        assert_eq!((stats.region(), &stats.json()["total_jobs"]), (region, &json!(count)));
    }
}

#[tokio::test]
async fn the_limits_of_a_key_are_those_of_the_region_that_holds_its_jobs() {
    let federation = started().await;
    let limit = json!({ "rate_limit": { "key": "k", "concurrency": 1, "rate": 3, "period": "hour" } });
    for remaining in ["2", "1"] {
        let made = federation.client.enqueue(job(IDS[1], "q", limit.clone())).await;
        let named = ["limit", "remaining"].map(|name| made.header(&format!("x-ratelimit-{name}")));
        assert_eq!(named, [Some("3"), Some(remaining)]);
    }
    assert_eq!(
        federation.client.get("/ojs/v1/rate-limits/k").await.status,
        404,
        "nothing of it is in the local region"
    );
    let shown = federation.client.get("/ojs/v1/rate-limits/k?region=eu-west-1").await;
    assert_eq!((shown.region(), &shown.json()["waiting_count"]), (IDS[1], &json!(2)));
}

#[tokio::test]
async fn schemas_of_types_are_in_all_regions_and_subscriptions_in_the_local_one() {
    let federation = started().await;
    let path = "/ojs/v1/admin/schemas/mail.send/1";
    let schema = json!({ "schema": { "minItems": 1 } });
    assert_eq!(call(&federation, Method::PUT, path, schema).await.status, 201);
    assert_eq!(calls(&federation, path), [1, 1, 1]);
    for region in IDS {
        let shown = federation.client.get(&format!("/ojs/v1/admin/schemas/mail.send?region={region}")).await;
        assert_eq!((shown.region(), &shown.json()["schema"]["minItems"]), (region, &json!(1)));
    }
    assert_eq!(call(&federation, Method::DELETE, path, json!({})).await.status, 200);
    assert_eq!(federation.client.get("/ojs/v1/admin/schemas/mail.send?region=ap-south-1").await.status, 404);
    let hook = json!({ "url": "https://example.com/", "events": ["job.completed"] });
    let made = call(&federation, Method::POST, "/ojs/v1/webhooks/subscriptions", hook).await;
    let path = format!("/ojs/v1/webhooks/subscriptions/{}", made.json()["id"].as_str().unwrap());
    let changed = call(&federation, Method::PATCH, &path, json!({ "events": ["job.failed"] })).await;
    assert_eq!((changed.region(), &changed.json()["events"]), (IDS[0], &json!(["job.failed"])));
    let rotated = call(&federation, Method::POST, &format!("{path}/rotate-secret"), json!({})).await;
    assert_ne!(rotated.json()["secret"], made.json()["secret"]);
    assert_eq!(calls(&federation, "/ojs/v1/webhooks/subscriptions")[1..], [0, 0]);
}

#[tokio::test]
async fn probes_and_metrics_below_the_root_are_the_local_regions() {
    let federation = Federation::start().await;
    for (path, word) in [("/healthz", "\"ok\""), ("/ready", "ready"), ("/readyz", "ready"), ("/metrics", "ojs_jobs{")] {
        let answer = federation.client.get(path).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert!(answer.status == 200 && text.contains(word) && answer.region() == IDS[0], "{path}: {answer:?}");
        assert_eq!(calls(&federation, path), [1, 0, 0], "{path}");
    }
}
