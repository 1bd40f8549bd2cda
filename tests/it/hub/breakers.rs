//! Breakers of job types at a hub: the jobs of one tenant that fail are stopped, and nobody else's. Judged by the jobs that reach the region, by
//! the queues of its FETCH calls, and by the receiver of the messages.

mod queues;
mod removed;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, post, status};
use crate::support::{Process, Setup, Stage, eventually};

const JOBS: &str = "/ojs/v1/jobs";
const FETCH: &str = "/ojs/v1/workers/fetch";

/// The receiver of the messages: the first one is refused, so that it comes again.
struct Receiver {
    url: String,
    messages: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let messages = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&messages);
        tokio::spawn(async move {
            let mut is_first = true;
            'accepted: loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut text = Vec::new();
                let body = loop {
                    let mut part = [0; 4096];
                    // A hub that is killed leaves a message unfinished, and sends it again later.
                    let Ok(length @ 1..) = socket.read(&mut part).await else { continue 'accepted };
                    text.extend_from_slice(&part[..length]);
                    let whole = String::from_utf8_lossy(&text).into_owned();
                    let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
                    assert!(head.starts_with("POST /hook HTTP/1.1\r\n"), "{head}");
                    let said = head.to_ascii_lowercase().split_once("content-length: ").unwrap().1.to_owned();
                    if body.len() == said.split("\r\n").next().unwrap().parse::<usize>().unwrap() {
                        break body.to_owned();
                    }
                };
                let word = if std::mem::take(&mut is_first) { "500 Internal Server Error" } else { "204 No Content" };
                if word.starts_with("204") {
                    kept.lock().unwrap().push(serde_json::from_str(&body).unwrap());
                }
                let answer = format!("HTTP/1.1 {word}\r\ncontent-length: 0\r\n\r\n");
                // A client that has gone is asked again.
                let _ = socket.write_all(answer.as_bytes()).await;
            }
        });
        Self { url, messages }
    }

    fn events(&self) -> Vec<(String, String)> {
        let text = |it: &Value| it.as_str().unwrap().to_owned();
        self.messages.lock().unwrap().iter().map(|it| (text(&it["event"]), text(&it["incidentId"]))).collect()
    }
}

fn settings(breaker: &str, url: &str) -> String {
    format!(
        "index: {{ region: us-east-1 }}\nledger: {{}}\n\
         breakers: [{{ job_type: mail.send, minimum: 4, ratio: 0.5, window: 10min, pause: 2s, pause_most: 4s, probe: 1h, {breaker} }}]\n\
         incidents: {{ webhook: {{ url: {url:?} }} }}"
    )
}

/// A federation whose sidecars report their jobs.
async fn federation(stage: &HubStage) -> Stage {
    let section = stage.section("one").replace("hub: {", "hub: { report_jobs: true, ledger: metadata,");
    Setup::default().yaml(&section).stage().await
}

/// A sidecar with a name of its own.
async fn sidecar(stage: &HubStage, federation: &Stage, name: &str, more: &[&str]) -> Process {
    let name_set = format!("hub.name={name}");
    let sidecar = Process::run(&federation.config, &[&INFO[..], &["--set", &name_set], more].concat()).await;
    stage.follows(name).await;
    sidecar
}

fn job(job_type: &str, tenant: &str, queue: &str) -> String {
    json!({ "type": job_type, "args": [], "options": { "queue": queue }, "meta": { "tenant_id": tenant } }).to_string()
}

/// Enqueues a job; its id, and whether it has reached its region with a later time.
async fn enqueued(federation: &Stage, sidecar: &Process, body: String) -> (String, bool) {
    let answer = sidecar.client.enqueue(body).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.job_id();
    let requests = federation.regions[0].record().requests_to(JOBS);
    let bodies = requests.iter().filter(|it| it.method == Method::POST && it.path == JOBS);
    let sent = bodies.map(|it| serde_json::from_slice::<Value>(&it.body).unwrap()).find(|it| it["id"] == id.as_str());
    (id, sent.unwrap()["scheduled_at"].is_string())
}

async fn fetched(sidecar: &Process, queues: &[&str]) -> Vec<String> {
    let body = json!({ "queues": queues, "worker_id": "w1", "count": 5 });
    let answer = sidecar.client.post(FETCH, body.to_string()).await.json();
    answer["jobs"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

async fn says(sidecar: &Process, word: &str, id: &str) {
    let body = json!({ "job_id": id, "worker_id": "w1", "error": { "code": "x", "message": "secret-of-the-error" } });
    let answer = sidecar.client.post(&format!("/ojs/v1/workers/{word}"), body.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Ends a job by this word once a worker gets it, and completes all others that it gets meanwhile.
async fn ended(sidecar: &Process, queue: &str, id: &str, word: &str) {
    let mut is_done = false;
    eventually("the worker gets the job", async || {
        for other in fetched(sidecar, &[queue]).await {
            is_done |= other == id;
            says(sidecar, if other == id { word } else { "ack" }, &other).await;
        }
        is_done
    })
    .await;
}

/// The incidents with this status at a replica.
async fn incidents(stage: &HubStage, wanted: &str) -> Vec<Value> {
    let (code, page) = status(stage, "eve", &Method::GET, &format!("/api/incidents?status={wanted}")).await;
    assert_eq!(code, 200, "{page}");
    page["incidents"].as_array().unwrap().clone()
}

async fn only(stage: &HubStage, wanted: &str) -> Value {
    let mut found = Vec::new();
    eventually(&format!("one incident is {wanted}"), async || {
        found = incidents(stage, wanted).await;
        !found.is_empty()
    })
    .await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

async fn figure(hub: &Hub, name: &str) -> String {
    let metrics = hub.admin.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap_or_default().to_owned()
}

/// The rows of the audit trail about incidents, by their action.
async fn rows(stage: &HubStage) -> BTreeMap<String, Vec<Value>> {
    let (_, trail) = status(stage, "ann", &Method::GET, "/v1/hub/audit").await;
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in
        trail["rows"].as_array().unwrap().iter().filter(|it| it["subject"].as_str().unwrap().contains("incident"))
    {
        found.entry(row["action"].as_str().unwrap().to_owned()).or_default().push(row.clone());
    }
    found
}

/// Enqueues jobs of a stopped type until one goes without a later time; its id.
async fn probe(federation: &Stage, sidecars: &[&Process]) -> String {
    let mut went = None;
    eventually("one job goes", async || {
        for sidecar in sidecars {
            let (id, is_later) = enqueued(federation, sidecar, job("mail.send", "acme", "mixed")).await;
            if !is_later {
                assert!(went.is_none(), "two at once");
                went = Some(id);
            }
        }
        went.is_some()
    })
    .await;
    for sidecar in sidecars {
        let (_, is_later) = enqueued(federation, sidecar, job("mail.send", "acme", "mixed")).await;
        assert!(is_later, "one at a time");
    }
    went.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_fails_is_stopped_for_its_tenant_alone_until_one_job_succeeds_and_is_one_incident() {
    let (mut stage, receiver) = (HubStage::new(""), Receiver::start().await);
    stage.set_more(&settings("", &receiver.url));
    let hub = stage.run().await;
    let federation = federation(&stage).await;
    let one = sidecar(&stage, &federation, "one", &[]).await;
    let two = sidecar(&stage, &federation, "two", &[]).await;
    for number in 0..4 {
        for (job_type, tenant, word) in
            [("sms.send", "acme", "ack"), ("mail.send", "other", "ack"), ("mail.send", "acme", "nack")]
        {
            let (id, is_later) = enqueued(&federation, &one, job(job_type, tenant, "mixed")).await;
            assert!(!is_later, "{job_type} {tenant} {number}");
            ended(&one, "mixed", &id, word).await;
        }
    }
    let opened = only(&stage, "open").await;
    assert_eq!([&opened["jobType"], &opened["tenant"]], ["mail.send", "acme"]);
    let id = opened["id"].as_str().unwrap().to_owned();
    let whole = status(&stage, "eve", &Method::GET, &format!("/api/incidents/{id}")).await.1["incident"].clone();
    assert!(whole["evidence"]["jobs"].as_array().unwrap().len() >= 4, "{whole}");
    assert!(hub.log_has(&["ERROR", "incident_opened", &id]));
    for sidecar in [&one, &two] {
        eventually("its jobs get a later time", async || {
            enqueued(&federation, sidecar, job("mail.send", "acme", "mixed")).await.1
        })
        .await;
        for (job_type, tenant) in [("sms.send", "acme"), ("mail.send", "other")] {
            assert!(!enqueued(&federation, sidecar, job(job_type, tenant, "mixed")).await.1, "{job_type} {tenant}");
        }
    }
    // A job whose time cannot be read cannot get another one.
    let mut odd: Value = serde_json::from_str(&job("mail.send", "acme", "mixed")).unwrap();
    odd["scheduled_at"] = json!("tomorrow");
    let refused = one.client.enqueue(odd.to_string()).await;
    let error = refused.check_error(429, "rate_limited", "type_stopped");
    let named = &error["details"]["breaker"];
    assert_eq!((&named["job_type"], &named["tenant"]), (&json!("mail.send"), &json!("acme")), "{error}");
    let failing = probe(&federation, &[&one, &two]).await;
    ended(&one, "mixed", &failing, "nack").await;
    eventually("it has opened again", async || only(&stage, "open").await["breaker"]["reopened"] == 1).await;
    assert_eq!(only(&stage, "open").await["id"], id.as_str());
    let right = probe(&federation, &[&one, &two]).await;
    ended(&one, "mixed", &right, "ack").await;
    let closed = only(&stage, "closed").await;
    assert_eq!((&closed["id"], &closed["closedBy"]["by"]), (&json!(id), &json!("probe")));
    for sidecar in [&one, &two] {
        eventually("its jobs go again", async || {
            !enqueued(&federation, sidecar, job("mail.send", "acme", "mixed")).await.1
        })
        .await;
        assert!(!enqueued(&federation, sidecar, job("mail.send", "acme", "mixed")).await.1);
    }
    eventually("both messages came", async || receiver.events().len() == 2).await;
    assert_eq!(receiver.events(), [("incident.opened".to_owned(), id.clone()), ("incident.closed".to_owned(), id)]);
    assert!(!format!("{:?}", receiver.messages.lock().unwrap()).contains("secret-of-the-error"));
    eventually("the trail has both rows", async || rows(&stage).await.len() == 2).await;
    assert!(rows(&stage).await.values().all(|rows| rows.len() == 1), "{:?}", rows(&stage).await);
    assert_eq!(figure(&hub, "ojs_hub_incidents_open").await, "0");
    assert_eq!(figure(&hub, "ojs_hub_breaker_trips_total").await, "1");
    assert_eq!(incidents(&stage, "open").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_closes_an_incident_with_a_reason_and_its_jobs_go_at_once() {
    let mut stage = HubStage::new("");
    stage.set_more(
        &settings("", "http://127.0.0.1:1/closed").replace("pause: 2s, pause_most: 4s", "pause: 1h, pause_most: 2h"),
    );
    let hub = stage.run().await;
    let federation = federation(&stage).await;
    let one = sidecar(&stage, &federation, "one", &[]).await;
    for _ in 0..4 {
        let (id, _) = enqueued(&federation, &one, job("mail.send", "acme", "mixed")).await;
        ended(&one, "mixed", &id, "nack").await;
    }
    let id = only(&stage, "open").await["id"].as_str().unwrap().to_owned();
    one.wait_for_line("ojs.federation.type_stopped").await;
    assert!(enqueued(&federation, &one, job("mail.send", "acme", "mixed")).await.1);
    let path = format!("/api/incidents/{id}/close");
    let grounds = json!({ "reason": "mended", "ticket": "OPS-9", "author": "ana" });
    assert_eq!(post(&stage, "eve", &path, &grounds).await.0, 403);
    assert_eq!(post(&stage, "ann", &path, &json!({ "reason": "mended" })).await.0, 400);
    assert_eq!(post(&stage, "ann", "/api/incidents/x/close", &grounds).await.0, 404);
    let shown = stage.command("eve", &["incidents"]).await;
    assert!(shown.code == Some(0) && shown.stdout.contains(&id) && shown.stdout.contains("acme"), "{}", shown.all());
    let close = ["incidents", &id, "--close", "--reason", "mended", "--ticket", "OPS-9", "--author", "ana"];
    let done = stage.command("ann", &close).await;
    assert!(done.code == Some(0) && done.stdout.contains("operator: mended"), "{}", done.all());
    assert_eq!(post(&stage, "ann", &path, &grounds).await.0, 409);
    let row = rows(&stage).await["incident_closed"][0].clone();
    assert_eq!(["reason", "ticket", "author"].map(|it| row[it].clone()), ["operator: mended", "OPS-9", "ana"]);
    eventually("its jobs go again", async || !enqueued(&federation, &one, job("mail.send", "acme", "mixed")).await.1)
        .await;
    assert!(hub.log_has(&["incident_message_failed"]) && !hub.log_has(&["/closed"]), "no path of the receiver");
    for query in ["status=x", "limit=0", "cursor=x", "of=x"] {
        assert_eq!(status(&stage, "ann", &Method::GET, &format!("/api/incidents?{query}")).await.0, 400, "{query}");
    }
    assert_eq!(status(&stage, "ann", &Method::GET, "/api/incidents/x").await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hubs_that_each_hear_of_half_the_failures_open_one_incident() {
    let (stage, receiver) = (HubStage::new(""), Receiver::start().await);
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    let mut stage = stage.on_record(record);
    stage.set_more(&settings("", &receiver.url).replace("pause: 2s", "pause: 4s"));
    let _hubs = [stage.again(0).await, stage.again(1).await];
    let federation = federation(&stage).await;
    let of = |replica: usize| format!("hub.urls={}", stage.url_of(replica));
    let (first, second) = (of(0), of(1));
    let one = sidecar(&stage, &federation, "one", &["--set", &first]).await;
    let two = sidecar(&stage, &federation, "two", &["--set", &second]).await;
    for sidecar in [&one, &two] {
        for _ in 0..2 {
            let (id, is_later) = enqueued(&federation, sidecar, job("mail.send", "acme", "mixed")).await;
            assert!(!is_later);
            ended(sidecar, "mixed", &id, "nack").await;
        }
    }
    only(&stage, "open").await;
    for sidecar in [&one, &two] {
        sidecar.wait_for_line("ojs.federation.type_stopped").await;
    }
    let right = probe(&federation, &[&one, &two]).await;
    ended(&two, "mixed", &right, "ack").await;
    only(&stage, "closed").await;
    for sidecar in [&one, &two] {
        sidecar.wait_for_line("ojs.federation.type_goes_on").await;
    }
    let count = "SELECT count(*) FROM ojs_hub_incident";
    assert_eq!(server.query(count), "1");
    eventually("the trail has both rows", async || rows(&stage).await.len() == 2).await;
    assert!(rows(&stage).await.values().all(|rows| rows.len() == 1), "{:?}", rows(&stage).await);
}
