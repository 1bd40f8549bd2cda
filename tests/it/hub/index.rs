//! The index of jobs: what sidecars report, and what hubs of other regions get of it.

use http::Method;
use serde_json::{Value, json};

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, status};
use crate::support::{Process, Stage, eventually, pinned};

const CANARY: &str = "canary-of-the-arguments";

/// The settings of a hub that keeps an index; the rule is the last one of `access`.
fn keeps(region: &str, reader: &str, more: &str) -> String {
    format!("  - {{ san: \"spiffe://test/hub\", role: hub, region: {reader} }}\nindex: {{ region: {region}{more} }}")
}

/// A federation whose sidecar reports jobs, and the sidecar.
async fn reporting(stage: &HubStage, name: &str, region: &str) -> (Stage, Process) {
    let section = stage.section(name).replace("hub: {", "hub: { report_jobs: true,");
    let federation = crate::support::Setup::default().yaml(&section).stage().await;
    let sidecar =
        Process::run(&federation.config, &[&INFO[..], &["--set", &format!("local_region={region}")]].concat()).await;
    stage.follows(name).await;
    (federation, sidecar)
}

async fn look_up(stage: &HubStage, path: &str) -> (u16, Value) {
    status(stage, "eve", &Method::GET, &format!("/v1/federation/jobs{path}")).await
}

/// The record of a job, once it has this state.
async fn recorded(stage: &HubStage, job_id: &str, state: &str) -> Value {
    let path = format!("?job_id={job_id}");
    let mut found = Value::Null;
    eventually(&format!("the job is {state}"), async || {
        found = look_up(stage, &path).await.1;
        found["state"] == state
    })
    .await;
    found
}

fn changes(record: &Value) -> Vec<&str> {
    record["copies"][0]["history"].as_array().unwrap().iter().map(|it| it["change"].as_str().unwrap()).collect()
}

fn id_of(answer: &crate::support::Answer) -> String {
    let document = answer.json();
    let id = [&document["job"]["id"], &document["id"]].into_iter().find_map(Value::as_str);
    id.unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

async fn fetch(sidecar: &Process) -> Value {
    let body = r#"{"queues":["email"],"worker_id":"w"}"#;
    sidecar.client.post("/ojs/v1/workers/fetch", body).await.json()["jobs"][0].clone()
}

/// A job goes through its whole life, with and without the hub.
async fn follows_a_life(stage: &mut HubStage) {
    let mut hub = stage.run().await;
    let (federation, sidecar) = reporting(stage, "one", "us-east-1").await;
    let job = json!({ "type": "mail.send", "args": [CANARY], "options": { "queue": "email" }, "meta": { "tenant_id": "acme" } });
    let made = sidecar.client.enqueue(job.to_string()).await;
    let id = id_of(&made);
    let record = recorded(stage, &id, "available").await;
    let copy = &record["copies"][0];
    assert_eq!(
        [&copy["type"], &copy["queue"], &copy["tenant"], &copy["region"], &copy["bound"]],
        [&json!("mail.send"), &json!("email"), &json!("acme"), &json!("us-east-1"), &json!(false)]
    );
    let federation_id = record["federation_id"].as_str().unwrap().to_owned();
    assert_eq!(look_up(stage, &format!("/{federation_id}")).await, (200, record.clone()));
    assert_eq!(look_up(stage, "?job_id=none").await.0, 404);
    assert_eq!(look_up(stage, "").await.0, 400);
    let fetched = fetch(&sidecar).await;
    assert_eq!(fetched["id"], id.as_str());
    recorded(stage, &id, "active").await;
    // Without the hub nothing changes for workers, and the hub hears of it later.
    hub.kill();
    sidecar.wait_for_line("ojs.federation.hub_lost").await;
    let beat = json!({ "worker_id": "w", "active_jobs": [id] }).to_string();
    assert_eq!(sidecar.client.post("/ojs/v1/workers/heartbeat", beat).await.status, 200);
    let done = sidecar.client.post("/ojs/v1/workers/ack", json!({ "job_id": id, "worker_id": "w" }).to_string()).await;
    assert_eq!(done.status, 200, "{done:?}");
    let other = id_of(&sidecar.client.enqueue(job.to_string()).await);
    assert_eq!(fetch(&sidecar).await["id"], other.as_str());
    let nack = json!({ "job_id": other, "worker_id": "w", "error": { "code": "x", "message": "x" } });
    assert_eq!(sidecar.client.post("/ojs/v1/workers/nack", nack.to_string()).await.status, 200);
    let third = id_of(&sidecar.client.enqueue(pinned("eu-west-1", "cancelled")).await);
    let cancelled = sidecar.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{third}"), "").await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let _hub = stage.again(0).await;
    assert_eq!(changes(&recorded(stage, &id, "completed").await), ["created", "leased", "extended", "completed"]);
    assert_eq!(changes(&recorded(stage, &other, "retryable").await), ["created", "leased", "failed"]);
    let record = recorded(stage, &third, "cancelled").await;
    assert_eq!((changes(&record), &record["copies"][0]["bound"]), (vec!["created", "cancelled"], &json!(true)));
    let batch = json!({ "jobs": [job, { "type": "b", "args": [] }] }).to_string();
    let answer = sidecar.client.post("/ojs/v1/jobs/batch", batch).await.json();
    for made in answer["jobs"].as_array().unwrap() {
        recorded(stage, made["id"].as_str().unwrap(), "available").await;
    }
    drop((federation, sidecar));
}

#[tokio::test]
async fn the_index_has_each_change_of_a_job_and_none_of_its_arguments() {
    let mut stage = HubStage::new(&keeps("us-east-1", "eu-west-1", ""));
    follows_a_life(&mut stage).await;
    for file in std::fs::read_dir(stage.path("")).unwrap() {
        let path = file.unwrap().path();
        let Ok(content) = std::fs::read(&path) else { continue };
        assert!(memchr::memmem::find(&content, CANARY.as_bytes()).is_none(), "{}", path.display());
    }
}

#[tokio::test]
async fn the_index_is_the_same_in_postgresql() {
    let stage = HubStage::new(&keeps("us-east-1", "eu-west-1", ""));
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    follows_a_life(&mut stage.with_record(record)).await;
}

/// The hub of one region, with a certificate for that of another.
fn hub_of(region: &str, reader: &str) -> HubStage {
    let stage = HubStage::new(&keeps(region, reader, ""));
    stage.client("peer", "spiffe://test/hub");
    stage
}

/// The settings of a hub that pulls from another one.
fn pulls(region: &str, reader: &str, stage: &HubStage) -> String {
    let file = |name: &str| stage.path(name);
    let (ca, cert, key) = (file("hub.ca.pem"), file("peer.cert.pem"), file("peer.key.pem"));
    let tls = format!("tls: {{ ca: {ca:?}, cert: {cert:?}, key: {key:?} }}");
    let from = format!(", from: [{{ region: {reader}, urls: [{:?}], {tls} }}]", stage.url());
    keeps(region, reader, &from)
}

async fn lag(hub: &Hub) -> Option<f64> {
    let metrics = hub.admin.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let name = "ojs_hub_replication_lag_seconds{from=\"eu-west-1\",to=\"us-east-1\"}";
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

fn regions(record: &Value) -> Vec<&str> {
    record["copies"].as_array().unwrap().iter().map(|it| it["region"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn hubs_of_two_regions_have_the_same_index_after_a_cut_and_nothing_is_replicated_twice() {
    let (mut us, mut eu) = (hub_of("us-east-1", "eu-west-1"), hub_of("eu-west-1", "us-east-1"));
    let (of_us, of_eu) = (us.run().await, eu.run().await);
    us.set_more(&pulls("us-east-1", "eu-west-1", &eu));
    eu.set_more(&pulls("eu-west-1", "us-east-1", &us));
    drop((of_us, of_eu));
    let (of_us, mut of_eu) = (us.again(0).await, eu.again(0).await);
    let (_one, in_us) = reporting(&us, "one", "us-east-1").await;
    let (_two, in_eu) = reporting(&eu, "two", "eu-west-1").await;
    let job = |queue: &str, meta: Value| {
        json!({ "type": "t", "args": [CANARY], "options": { "queue": queue }, "meta": meta }).to_string()
    };
    let enqueued = async |sidecar: &Process, queue: &str, meta: Value| {
        let answer = sidecar.client.enqueue(job(queue, meta)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        id_of(&answer)
    };
    let equal = async |id: &str| {
        let path = format!("?job_id={id}");
        eventually("both indexes have the same record", async || {
            let (one, two) = (look_up(&us, &path).await, look_up(&eu, &path).await);
            one.0 == 200 && one == two
        })
        .await;
        look_up(&us, &path).await.1
    };
    let equal_but_description = async |id: &str| {
        recorded(&eu, id, "completed").await;
        let there = recorded(&us, id, "completed").await;
        assert_eq!((&there["copies"][0]["queue"], &there["copies"][0]["type"]), (&Value::Null, &Value::Null));
        there
    };
    let id = enqueued(&in_us, "email", json!({})).await;
    equal(&id).await;
    assert_eq!(fetch(&in_us).await["id"], id.as_str());
    recorded(&us, &id, "active").await;
    assert_eq!(changes(&equal(&id).await), ["created", "leased"]);
    // One tracking id in two regions: both indexes name the same winner.
    let same = "01912e4a-7b3c-7def-8a12-abcdef123456";
    let meta = |region: &str| json!({ "ojs.federation.federation_id": same, "ojs.federation.region": region });
    enqueued(&in_us, "q", meta("us-east-1")).await;
    enqueued(&in_eu, "q", meta("eu-west-1")).await;
    eventually("both have both copies", async || {
        let path = format!("/{same}");
        let all = [look_up(&us, &path).await.1, look_up(&eu, &path).await.1];
        let winner = |record: &Value| record["region"].clone();
        all.iter().all(|it| it["copies"].is_array() && regions(it) == ["eu-west-1", "us-east-1"])
            && winner(&all[0]) == winner(&all[1])
    })
    .await;
    // A pinned job: its queue and type stay with the hub of its region, and the rest goes.
    let pinned = enqueued(&in_eu, "secret", json!({ "ojs.federation.region": "eu-west-1" })).await;
    let there = recorded(&us, &pinned, "available").await;
    assert_eq!((&there["copies"][0]["queue"], &there["copies"][0]["type"]), (&Value::Null, &Value::Null));
    let here = recorded(&eu, &pinned, "available").await;
    assert_eq!(here["copies"][0]["queue"], "secret");
    // A copy of a replica is not told again.
    let replica = enqueued(&in_eu, "again", json!({ "ojs.federation.replicated_from": "ap-south-1" })).await;
    let take_in = async |queue: &str, id: &str| {
        let body = json!({ "queues": [queue], "worker_id": "w" }).to_string();
        let fetched = in_eu.client.post("/ojs/v1/workers/fetch", body).await.json();
        assert_eq!(fetched["jobs"][0]["id"], id, "{fetched}");
        let done = json!({ "job_id": id, "worker_id": "w" }).to_string();
        assert_eq!(in_eu.client.post("/ojs/v1/workers/ack", done).await.status, 200);
    };
    take_in("again", &replica).await;
    take_in("secret", &pinned).await;
    let there = equal_but_description(&pinned).await;
    assert_eq!(changes(&there), ["created", "leased", "completed"]);
    let after = enqueued(&in_eu, "q", json!({})).await;
    recorded(&eu, &replica, "completed").await;
    equal(&after).await;
    assert_eq!(look_up(&us, &format!("?job_id={replica}")).await.0, 404);
    eventually("there is no lag", async || lag(&of_us).await == Some(0.0)).await;
    let of_health = async || {
        let health = in_us.client.get("/v1/federation/health").await.json();
        let of = |id: &str| {
            health["regions"].as_array().unwrap().iter().find(|it| it["id"] == id).unwrap()["replication_lag_ms"]
                .clone()
        };
        [of("us-east-1"), of("eu-west-1"), of("ap-south-1")]
    };
    eventually("the sidecar knows it", async || of_health().await == [json!(0), json!(0), Value::Null]).await;
    // While the other hub is away its sidecar goes on; the lag grows until it is back.
    of_eu.kill();
    let missed = enqueued(&in_eu, "q", json!({})).await;
    eventually("the lag grows", async || lag(&of_us).await.is_some_and(|lag| lag > 1.0)).await;
    eventually("the sidecar knows it", async || of_health().await[1].as_u64().is_some_and(|ms| ms > 1_000)).await;
    assert!(of_us.log_has(&["hub_pull_failed", "eu-west-1"]));
    let _eu = eu.again(0).await;
    equal(&missed).await;
    eventually("the lag is over", async || lag(&of_us).await == Some(0.0)).await;
    for file in [us.path("hub.db"), us.path("hub.db-wal"), eu.path("hub.db"), eu.path("hub.db-wal")] {
        let content = std::fs::read(&file).unwrap_or_default();
        assert!(memchr::memmem::find(&content, CANARY.as_bytes()).is_none(), "{}", file.display());
        let is_us = file.starts_with(us.path(""));
        assert!(!is_us || memchr::memmem::find(&content, b"secret").is_none(), "{}", file.display());
    }
}
