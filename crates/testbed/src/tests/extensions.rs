//! What the documents add beside the levels: figures over time, bounds of queues, tenants, shared limits, agents, schemas of types.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use super::client::{Answered, Client, plain};
use crate::{DemoRegion, Dialect, JobState, RegionOptions};
use ojs_handles::{Clock, SteeredTime};

const ONE: &str = "019461a8-0000-7000-8000-000000000001";

async fn of_tenant(client: &mut Client, tenant: &str, method: Method, path: &str, body: &Value) -> Answered {
    let request =
        Request::builder().method(method).uri(path).header("host", "localhost").header("x-ojs-tenant", tenant);
    client.call(request.body(Full::from(body.to_string())).unwrap()).await.unwrap()
}

async fn call(client: &mut Client, method: Method, path: &str, body: &Value) -> Answered {
    client.send(method, path, &body.to_string()).await.unwrap()
}

fn header<'a>(answer: &'a Answered, name: &str) -> Option<&'a str> {
    answer.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn figures_tell_what_was_done_in_the_last_minute_and_when_before() {
    for dialect in Dialect::ALL {
        let time = SteeredTime::starting_at(1_800_000_000_000);
        let clock = Clock::new(Arc::new(Arc::clone(&time)));
        let options = RegionOptions { dialect, clock, ..RegionOptions::new("eu-west-1") };
        let region = DemoRegion::start(options).await.unwrap();
        let mut client = Client::plain(&region).await;
        region.fill("mail", 3);
        let fetch = r#"{"queues":["mail"],"count":3,"worker_id":"w1"}"#;
        let jobs = client.post("/ojs/v1/workers/fetch", fetch).await.json();
        for place in 0..2 {
            let ack = json!({ "job_id": jobs["jobs"][place]["id"] }).to_string();
            client.post("/ojs/v1/workers/ack", &ack).await;
        }
        let nack = json!({ "job_id": jobs["jobs"][2]["id"], "error": { "message": "m" } }).to_string();
        client.post("/ojs/v1/workers/nack", &nack).await;
        let now = client.get("/ojs/v1/admin/stats").await.json();
        assert_eq!(now["throughput"], json!({ "processed_per_minute": 2, "failed_per_minute": 1 }));
        let worker = &client.get("/ojs/v1/admin/workers").await.json()["items"][0];
        assert_eq!((&worker["id"], &worker["queues"]), (&json!("w1"), &json!(["mail"])));
        time.advance(Duration::from_secs(61));
        let later = client.get("/ojs/v1/admin/stats").await.json();
        assert_eq!(later["throughput"], json!({ "processed_per_minute": 0, "failed_per_minute": 0 }));
        let history = client.get("/ojs/v1/admin/stats/history?period=1m").await.json();
        let rows = history["data"].as_array().unwrap();
        assert_eq!((rows.len(), &history["period"]), (61, &json!("1m")));
        let row = json!({"timestamp": "2027-01-15T08:00:00.000Z", "processed": 2, "failed": 1, "enqueued": 3});
        assert_eq!((&rows[59], &rows[60]["enqueued"]), (&row, &json!(0)));
        let other = client.get("/ojs/v1/admin/stats/history?period=1h&queue=other").await.json();
        assert_eq!((other["data"].as_array().unwrap().len(), &other["data"][1]["processed"]), (2, &json!(0)));
        assert_eq!(client.get("/ojs/v1/admin/stats/history?period=2m").await.status, 400);
        assert_eq!(client.get("/ojs/v1/admin/stats/history?since=soon").await.status, 400);
        let day = client.get("/ojs/v1/admin/stats/history?period=1m&since=1970-01-01T00:00:00Z").await.json();
        assert_eq!(day["data"].as_array().unwrap().len(), 1_440, "a history has an end");
    }
}

#[tokio::test]
async fn a_queue_that_is_full_refuses_or_drops_its_oldest_and_warns_before() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let config = "/ojs/v1/admin/queues/mail/config";
    let bound = |strategy: &str| json!({ "backpressure": { "max_depth": 2, "strategy": strategy } });
    assert_eq!(call(&mut client, Method::PUT, config, &bound("block")).await.status, 400);
    assert_eq!(call(&mut client, Method::PUT, config, &bound("reject")).await.status, 200);
    let job = r#"{"type":"a","args":[],"options":{"queue":"mail"}}"#;
    let first = client.post("/ojs/v1/jobs", job).await;
    assert_eq!((first.status.as_u16(), header(&first, "x-ojs-queue-depth")), (201, None));
    let second = client.post("/ojs/v1/jobs", job).await;
    assert_eq!((second.status.as_u16(), header(&second, "x-ojs-queue-pressure")), (201, Some("1.00")));
    for (path, body) in [
        ("/ojs/v1/jobs", job.to_owned()),
        ("/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{{"type":"a","args":[]}},{job}]}}"#)),
    ] {
        let refused = client.post(path, &body).await;
        assert_eq!((refused.status.as_u16(), &refused.json()["error"]["code"]), (429, &json!("QUEUE_FULL")));
        assert_eq!(refused.json()["error"]["retryable"], true);
        assert_eq!(header(&refused, "retry-after"), Some("5"));
        assert_eq!(
            (header(&refused, "x-ojs-queue-depth"), header(&refused, "x-ojs-queue-bound")),
            (Some("2"), Some("2"))
        );
    }
    assert_eq!(region.jobs().len(), 2, "a batch is stored whole or not at all");
    assert_eq!(call(&mut client, Method::PUT, config, &bound("drop_oldest")).await.status, 200);
    assert_eq!(client.post("/ojs/v1/jobs", job).await.status, 201);
    let states: Vec<JobState> = region.jobs().iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Discarded, JobState::Available, JobState::Available]);
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["mail"],"count":2}"#).await;
    assert_eq!(client.post("/ojs/v1/jobs", job).await.status, 429, "what workers have is not dropped");
    assert_eq!(call(&mut client, Method::PUT, config, &json!({})).await.status, 200);
    assert_eq!(client.post("/ojs/v1/jobs", job).await.status, 201, "without a bound");
}

#[tokio::test]
async fn a_tenants_jobs_are_stamped_counted_and_seen_by_no_other_tenant() {
    for dialect in Dialect::ALL {
        let region = DemoRegion::start(RegionOptions { dialect, ..RegionOptions::new("eu-west-1") }).await.unwrap();
        let mut client = Client::plain(&region).await;
        let job = json!({ "type": "a", "args": [], "id": ONE, "meta": { "k": 1 } });
        let made = of_tenant(&mut client, "acme", Method::POST, "/ojs/v1/jobs", &job).await;
        assert_eq!(made.json()["job"]["meta"], json!({ "tenant_id": "acme", "k": 1 }));
        let batch = json!({ "jobs": [{ "type": "a", "args": [] }] });
        let made = of_tenant(&mut client, "other", Method::POST, "/ojs/v1/jobs/batch", &batch).await;
        assert_eq!(made.json()["jobs"][0]["meta"], json!({ "tenant_id": "other" }));
        let foreign = json!({ "type": "a", "args": [], "meta": { "tenant_id": "other" } });
        assert_eq!(of_tenant(&mut client, "acme", Method::POST, "/ojs/v1/jobs", &foreign).await.status, 400);
        let path = format!("/ojs/v1/jobs/{ONE}");
        for (tenant, status) in [("other", 404), ("acme", 200)] {
            let shown = of_tenant(&mut client, tenant, Method::GET, &path, &Value::Null).await;
            assert_eq!(shown.status, status, "{tenant}");
        }
        assert_eq!(of_tenant(&mut client, "other", Method::DELETE, &path, &Value::Null).await.status, 404);
        let fetch = json!({ "queues": ["default"], "count": 9 });
        let fetched = of_tenant(&mut client, "other", Method::POST, "/ojs/v1/workers/fetch", &fetch).await.json();
        assert_eq!(fetched["jobs"].as_array().unwrap().len(), 1);
        assert_eq!(fetched["jobs"][0]["meta"]["tenant_id"], "other");
        if dialect == Dialect::Spec {
            let stats = client.get("/ojs/v1/admin/tenants/acme/stats").await.json();
            assert_eq!((&stats["tenant_id"], &stats["total_jobs"]), (&json!("acme"), &json!(1)));
            let all = client.get("/ojs/v1/admin/tenants").await.json();
            assert_eq!(
                (&all["items"][1]["id"], &all["items"][1]["stats"]["jobs"]["active"]),
                (&json!("other"), &json!(1))
            );
        }
    }
}

#[tokio::test]
async fn jobs_of_one_key_run_no_more_at_once_than_it_allows_and_others_do() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let job = |key: &str| json!({ "type": "a", "args": [], "options": { "rate_limit": { "key": key, "concurrency": 1, "rate": 2, "period": "minute" } } });
    for (key, remaining) in [("k", "1"), ("k", "0"), ("other", "1")] {
        let made = call(&mut client, Method::POST, "/ojs/v1/jobs", &job(key)).await;
        assert_eq!(header(&made, "x-ratelimit-limit"), Some("2"));
        assert_eq!(header(&made, "x-ratelimit-remaining"), Some(remaining));
        assert!(header(&made, "x-ratelimit-reset").is_some());
    }
    let fetch = r#"{"queues":["default"],"count":9}"#;
    assert_eq!(client.post("/ojs/v1/workers/fetch", fetch).await.json()["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(client.post("/ojs/v1/workers/fetch", fetch).await.json()["jobs"], json!([]));
    let shown = client.get("/ojs/v1/rate-limits/k").await.json();
    assert_eq!(shown["concurrency"], json!({ "limit": 1, "active": 1, "available": 0 }));
    assert_eq!((&shown["rate"]["current_count"], &shown["waiting_count"]), (&json!(2), &json!(1)));
    let listed = client.get("/ojs/v1/rate-limits").await.json();
    assert_eq!((&listed["items"][1]["key"], &listed["pagination"]["total"]), (&json!("other"), &json!(2)));
    let word = call(&mut client, Method::PUT, "/ojs/v1/rate-limits/k", &json!({ "concurrency": 2 })).await;
    assert_eq!(word.json()["concurrency"]["available"], 1);
    assert_eq!(client.post("/ojs/v1/workers/fetch", fetch).await.json()["jobs"].as_array().unwrap().len(), 1);
    assert_eq!(client.get("/ojs/v1/rate-limits/none").await.status, 404);
    let odd = json!({ "type": "a", "args": [], "options": { "rate_limit": { "key": "k", "period": "soon" } } });
    assert_eq!(call(&mut client, Method::POST, "/ojs/v1/jobs", &odd).await.status, 400);
}

#[tokio::test]
async fn an_agent_is_paused_branched_joined_and_its_tool_tried_again() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let agent = json!({ "tool_retry": { "alternate_provider": "fallback" } });
    let job = json!({ "type": "a", "args": [], "id": ONE, "ext_agent_v2": agent });
    call(&mut client, Method::POST, "/ojs/v1/jobs", &job).await;
    for prefix in ["/ojs/v1/agents", "/v1/agents", "/v1/agent/jobs"] {
        let path = |act: &str| format!("{prefix}/{ONE}/{act}");
        assert_eq!(client.post(&path("pause"), r#"{"reason":"r"}"#).await.json()["state"], "paused");
        assert_eq!(client.post(&path("resume"), r#"{"approved":true}"#).await.json()["state"], "running");
        let (one, two) = (client.post(&path("fork"), "{}").await.json(), client.post(&path("fork"), "{}").await.json());
        assert!(one["content_id"].is_string() && one["branch_id"] != two["branch_id"]);
        let merge = json!({ "branch_a": one["branch_id"], "branch_b": two["branch_id"] });
        let merged = client.post(&path("merge"), &merge.to_string()).await.json();
        assert!(merged["merged_id"].is_string() && merged["conflicts"] == json!([]), "{merged}");
        assert_eq!(client.post(&path("merge"), r#"{"branch_a":"x"}"#).await.status, 400);
        let retry = client.post(&path("tool-retry"), r#"{"use_alternate":true}"#).await.json();
        assert_eq!((&retry["retried"], &retry["provider"]), (&json!(true), &json!("fallback")));
        assert_eq!(client.post(&format!("{prefix}/none/pause"), "{}").await.status, 404);
        assert_eq!(client.post(&path("dance"), "{}").await.status, 404);
    }
}

#[tokio::test]
async fn a_schema_of_a_type_is_written_once_per_version_and_the_newest_is_shown() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let path = |rest: &str| format!("/ojs/v1/admin/schemas/mail.send{rest}");
    for version in [2, 10] {
        let body = json!({ "schema": { "minItems": version } });
        let made = call(&mut client, Method::PUT, &path(&format!("/{version}")), &body).await;
        assert_eq!((made.status.as_u16(), &made.json()["version"]), (201, &json!(version)));
        assert_eq!(call(&mut client, Method::PUT, &path(&format!("/{version}")), &body).await.status, 409);
    }
    assert_eq!(call(&mut client, Method::PUT, &path("/11"), &json!({})).await.status, 400);
    assert_eq!(client.get(&path("")).await.json()["schema"]["minItems"], 10);
    assert_eq!(client.get(&path("/2")).await.json()["schema"]["minItems"], 2);
    assert_eq!(client.get(&path("/versions")).await.json()["versions"].as_array().unwrap().len(), 2);
    assert_eq!(client.send(Method::DELETE, &path("/10"), "").await.unwrap().status, 200);
    assert_eq!(client.send(Method::DELETE, &path("/10"), "").await.unwrap().status, 404);
    assert_eq!(client.get(&path("")).await.json()["version"], 2);
}

#[tokio::test]
async fn a_subscription_is_changed_and_its_secret_rotated() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let body = json!({ "url": "https://example.com/", "events": ["job.completed"] });
    let made = call(&mut client, Method::POST, "/ojs/v1/webhooks/subscriptions", &body).await.json();
    let path = format!("/ojs/v1/webhooks/subscriptions/{}", made["id"].as_str().unwrap());
    let changed = call(&mut client, Method::PATCH, &path, &json!({ "events": ["job.failed"] })).await.json();
    assert_eq!((&changed["events"], &changed["url"]), (&json!(["job.failed"]), &json!("https://example.com/")));
    assert_eq!(client.get(&path).await.json()["events"], json!(["job.failed"]));
    let rotated = client.post(&format!("{path}/rotate-secret"), "").await.json();
    assert_ne!(rotated["secret"], made["secret"]);
    assert_eq!(client.post(&format!("{path}/test"), "").await.json()["success"], false, "nothing is delivered");
    assert_eq!(client.post("/ojs/v1/webhooks/subscriptions/none/test", "").await.status, 404);
}

#[tokio::test]
async fn a_worker_that_drains_says_so_and_is_given_no_jobs() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    region.fill("mail", 1);
    let beat = |state: &str| json!({ "worker_id": "w1", "state": state, "active_jobs": 0 }).to_string();
    let fetch = r#"{"queues":["mail"],"worker_id":"w1"}"#;
    assert_eq!(client.post("/ojs/v1/workers/beat", &beat("drain")).await.json()["acknowledged"], true);
    assert_eq!(client.get("/ojs/v1/workers/w1/health").await.json()["state"], "draining");
    assert_eq!(client.post("/ojs/v1/jobs/fetch", fetch).await.json()["jobs"], json!([]));
    client.post("/ojs/v1/workers/beat", &beat("running")).await;
    assert_eq!(client.post("/ojs/v1/jobs/fetch", fetch).await.json()["jobs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn whoever_watches_the_server_asks_outside_of_the_api() {
    for dialect in Dialect::ALL {
        let region = DemoRegion::start(RegionOptions { dialect, ..RegionOptions::new("eu-west-1") }).await.unwrap();
        let mut client = Client::plain(&region).await;
        region.fill("mail", 2);
        for path in ["/health", "/healthz"] {
            assert_eq!(client.get(path).await.json()["status"], "ok", "{path}");
        }
        for path in ["/ready", "/readyz"] {
            assert_eq!(client.get(path).await.json()["status"], "ready", "{path}");
        }
        let metrics = client.get("/metrics").await;
        assert!(metrics.text().contains("ojs_jobs{state=\"available\"} 2\n"), "{}", metrics.text());
    }
}
