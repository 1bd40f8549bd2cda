//! A throttle: an operator bounds the calls at once of each sidecar to a region, for a time.

use std::net::SocketAddr;

use http::Method;
use ojs_testbed::{Fault, Gate, When};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::INFO;
use super::stage::{HubStage, ask_as, post, status};
use crate::support::{Answer, Client, Process, Stage, eventually, job, pinned};

const REGION: &str = "us-east-1";

fn is_throttled(answer: &Answer) -> bool {
    answer.status == 503 && answer.json()["error"]["details"]["reason"] == "throttled"
}

async fn throttle(sidecar: &Process) -> Value {
    sidecar.admin.get("/state").await.json()["regions"][0]["calls"]["throttle"].clone()
}

/// The answers to six jobs of a sidecar for the throttled region, which holds those that reach it until the others are refused.
async fn six(federation: &Stage, address: SocketAddr, refused: usize) -> Vec<Answer> {
    let (gate, region) = (Gate::new(), &federation.regions[0]);
    region.faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let mut calls = JoinSet::new();
    (0..6).for_each(|_| drop(calls.spawn(async move { Client::new(address).enqueue(pinned(REGION, "a")).await })));
    let mut answers = Vec::new();
    while answers.len() < refused {
        answers.push(calls.join_next().await.unwrap().unwrap());
    }
    assert!(answers.iter().all(is_throttled), "{answers:?}");
    eventually("the others are at the region", async || region.enqueues_under_way() == 6 - refused).await;
    region.faults().clear();
    gate.open();
    answers.extend(calls.join_all().await);
    answers
}

#[tokio::test]
async fn a_throttle_bounds_the_calls_of_each_sidecar_and_outlives_the_hub() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    let dir = tempfile::tempdir().unwrap();
    let journal = format!("journal: {{ path: {:?} }}", dir.path().join("journal"));
    let (one, two) = (stage.federation("one", &journal).await, stage.federation("two", "").await);
    let first = Process::run(&one.config, &INFO).await;
    let second = Process::run(&two.config, &INFO).await;
    stage.follows("one").await;
    stage.follows("two").await;
    let unknown = stage.order("ann", &["throttle", "mars", "--calls", "2", "--for", "1h"]).await;
    assert!(unknown.code == Some(1) && unknown.stderr.contains("--force"), "{}", unknown.all());
    assert_eq!(stage.order("ann", &["throttle", "mars", "--calls", "2", "--for", "1s", "--force"]).await.code, Some(0));
    let done = stage.order("ann", &["throttle", REGION, "--calls", "2", "--for", "1h"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("throttle us-east-1 to 2 calls until "), "{}", done.all());
    for (federation, sidecar) in [(&one, &first), (&two, &second)] {
        eventually("the throttle is in force", async || throttle(sidecar).await == 2).await;
        let answers = six(federation, sidecar.client.address(), 4).await;
        assert_eq!(answers.iter().filter(|it| it.status == 201).count(), 2, "{answers:?}");
        answers[0].check_error(503, "backend_error", "throttled");
        answers[0].check_retry_after(1);
        assert_eq!(federation.regions[0].enqueues_at_once(), 2);
    }
    // A drain beside it, and the end of the drain, change nothing about it.
    assert_eq!(stage.order("ann", &["drain", REGION, "--for", "1h"]).await.code, Some(0));
    eventually("jobs leave the region", async || first.client.enqueue(job("b")).await.region() != REGION).await;
    assert_eq!(throttle(&first).await, 2);
    assert_eq!(stage.order("ann", &["undrain", REGION]).await.code, Some(0));
    eventually("jobs are back", async || first.client.enqueue(job("b")).await.region() == REGION).await;
    // Without the hub and after a kill, the sidecar has it from its own disk.
    hub.kill();
    drop(first);
    let first = Process::run(&one.config, &INFO).await;
    assert_eq!(throttle(&first).await, 2);
    six(&one, first.client.address(), 4).await;
    let text = std::fs::read_to_string(&one.config).unwrap();
    std::fs::write(&one.config, format!("{text}\nlimits: {{ calls: 500 }}\n")).unwrap();
    first.signal("HUP");
    first.wait_for_line("configuration_reloaded").await;
    six(&one, first.client.address(), 4).await;
    let _hub = stage.run().await;
    stage.follows("one").await;
    assert_eq!(stage.order("ann", &["unthrottle", REGION]).await.code, Some(0));
    eventually("the throttle is over", async || throttle(&first).await == Value::Null).await;
    six(&one, first.client.address(), 0).await;
}

#[tokio::test]
async fn a_job_that_may_go_elsewhere_does_and_workers_and_their_words_are_not_throttled() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    assert_eq!(stage.order("ann", &["throttle", REGION, "--calls", "1", "--for", "1h"]).await.code, Some(0));
    eventually("the throttle is in force", async || throttle(&sidecar).await == 1).await;
    let made = sidecar.client.enqueue(pinned(REGION, "leased")).await;
    assert_eq!(made.status, 201, "{made:?}");
    let (gate, region) = (Gate::new(), &one.regions[0]);
    region.faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let address = sidecar.client.address();
    let held = tokio::spawn(async move { Client::new(address).enqueue(pinned(REGION, "held")).await });
    eventually("a call is at the region", async || region.enqueues_under_way() == 1).await;
    let flexible = sidecar.client.enqueue(job("flexible")).await;
    assert!(flexible.status == 201 && flexible.region() != REGION, "{flexible:?}");
    let body = r#"{"queues":["default"],"worker_id":"w"}"#;
    let fetched = sidecar.client.post("/ojs/v1/workers/fetch", body).await.json();
    let id = fetched["jobs"][0]["id"].as_str().unwrap_or_else(|| panic!("{fetched}"));
    let done = sidecar.client.post("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{id}","worker_id":"w"}}"#)).await;
    assert_eq!(done.status, 200, "{done:?}");
    gate.open();
    assert_eq!(held.await.unwrap().status, 201);
}

#[tokio::test]
async fn an_orchestrator_pauses_and_resumes_sources_and_lowers_the_concurrency_of_a_region() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let one = stage.federation("one", "").await;
    let sidecar = Process::run(&one.config, &INFO).await;
    stage.follows("one").await;
    let order = async |source: Value, action: &str, more: Value| {
        let mut body = json!({ "source": source, "action": action, "reason": "r", "ticket": "T-1", "author": "ann" });
        more.as_object().unwrap().iter().for_each(|(key, value)| body[key] = value.clone());
        post(&stage, "ann", "/api/limits/throttle", &body).await
    };
    let hour = json!({ "ttl": "1h" });
    let (code, set) = order(json!({ "type": "mail" }), "pause", hour.clone()).await;
    assert_eq!(
        (code, &set["switches"][0]["switch"], &set["switches"][0]["type"]),
        (200, &"pause".into(), &"mail".into()),
        "{set}"
    );
    let mail = async || sidecar.client.enqueue(r#"{"type":"mail","args":[]}"#).await;
    eventually("the type is paused", async || mail().await.status == 503).await;
    mail().await.check_error(503, "backend_error", "source_paused");
    let (code, ended) = order(json!({ "type": "mail" }), "resume", json!({})).await;
    assert_eq!((code, &ended["ended"][0]["type"]), (200, &"mail".into()), "{ended}");
    eventually("the type is resumed", async || mail().await.status == 201).await;
    let region = json!({ "region": REGION });
    let (code, set) = order(region.clone(), "concurrency", json!({ "ttl": "1h", "calls": 7 })).await;
    assert_eq!((code, &set["switches"][0]["calls"]), (200, &7.into()), "{set}");
    eventually("the throttle is in force", async || throttle(&sidecar).await == 7).await;
    assert_eq!(order(region, "resume", json!({})).await.0, 200);
    eventually("the throttle is over", async || throttle(&sidecar).await == Value::Null).await;
    for (source, action, more, field) in [
        (json!({ "queue": "email" }), "pause", json!({}), "`ttl`"),
        (json!({ "queue": "email" }), "concurrency", hour.clone(), "`action`"),
        (json!({ "origin": "10.0.0.1" }), "pause", hour.clone(), "`origin`"),
        (json!({ "queue": "email" }), "pause", json!({ "ttl": "1h", "reason": "" }), "`reason`"),
        (json!({ "queue": "email" }), "pause", json!({ "ttl": "1h", "ticket": "" }), "`ticket`"),
    ] {
        let (code, refused) = order(source, action, more).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(code == 400 && message.contains(field), "{refused}");
    }
    let right = r#"{"source":{"queue":"q"},"action":"resume","reason":"r","ticket":"t","author":"a"}"#;
    for (header, path, code) in [
        (("origin", "https://page.example"), "/api/limits/throttle", 403),
        (("sec-fetch-site", "cross-site"), "/api/limits/throttle", 403),
        (("sec-fetch-site", "none"), "/api/limits/throttle", 404),
        (("accept", "*/*"), "/api/limits/throttle?force=true", 400),
    ] {
        assert_eq!(ask_as(&stage, "ann", &Method::POST, path, header, right).await, code, "{header:?} {path}");
    }
    let (_, trail) = status(&stage, "ann", &Method::GET, "/v1/hub/audit").await;
    let rows: Vec<_> = trail["rows"].as_array().unwrap().iter().map(|it| (&it["action"], &it["subject"])).collect();
    let throttle = "throttle us-east-1 to 7 calls";
    let expected = [
        ("switch_set", "pause type mail"),
        ("switch_ended", "pause type mail"),
        ("switch_set", throttle),
        ("switch_ended", throttle),
    ];
    assert_eq!(
        rows,
        expected
            .map(|(action, subject)| (action.into(), subject.into()))
            .iter()
            .map(|(a, s)| (a, s))
            .collect::<Vec<(&Value, &Value)>>()
    );
}
