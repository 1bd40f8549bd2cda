//! The second source of the index: the event stream of a region, for jobs that no sidecar saw.

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::INFO;
use super::index::{CANARY, completed, enqueued};
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, status};
use super::views::regions;
use crate::support::{Process, Setup, Stage, command, eventually, rises};

const US: &str = "us-east-1";
const EU: &str = "eu-west-1";
const STREAM: &str = "/ojs/v1/queues/email/events";

/// The settings of the hub of the first region, which reads event streams.
fn reads(stage: &Stage, events: &str) -> String {
    let regions = regions(stage, |_| None);
    format!(
        "  - {{ san: \"spiffe://test/hub\", role: hub, region: {EU} }}\nindex: {{ region: {US}, events: {events} }}\n{regions}"
    )
}

/// A hub of the first region that reads event streams, and the regions.
async fn reading(mut hub: HubStage, events: &str) -> (HubStage, Hub, Stage) {
    let stage = Setup::default().regions(2).stage().await;
    hub.client("peer", "spiffe://test/hub");
    hub.set_more(&reads(&stage, events));
    let running = hub.run().await;
    (hub, running, stage)
}

/// A call of a client that knows no sidecar, at a region.
async fn direct(stage: &Stage, place: usize, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
    let (region, dir) = (&stage.regions[place], stage.files.path());
    let file = |name: &str| Some(dir.join(format!("{}{name}", region.id())));
    let tls = ojs_sidecar::config::RegionTls {
        ca: file(".ca.pem"),
        cert: file("-client.cert.pem"),
        key: file("-client.key.pem"),
        ..Default::default()
    };
    let files = ojs_sidecar::net::tls::TlsFiles::read(&tls).unwrap();
    let tls = ojs_sidecar::net::tls::build(&tls, &files, "localhost").unwrap();
    let url = region.url();
    let port: u16 = url.rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let stream = tokio_rustls::TlsConnector::from(tls.config_http1.clone()).connect(tls.name.clone(), socket).await;
    let io = hyper_util::rt::TokioIo::new(stream.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::builder().method(method).uri(path).header("host", "region");
    let request = request.header("content-type", "application/json").body(Full::new(Bytes::from(body.to_string())));
    let (head, body) = sender.send_request(request.unwrap()).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Enqueues a job at the first region, in a queue.
async fn enqueue(stage: &Stage, queue: &str, meta: Value) -> String {
    let job = json!({ "type": "mail.send", "args": [CANARY], "options": { "queue": queue }, "meta": meta });
    let (status, made) = direct(stage, 0, Method::POST, "/ojs/v1/jobs", &job).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made["job"]["id"].as_str().unwrap().to_owned()
}

/// A worker at the first region gets the job of a queue.
async fn lease(stage: &Stage, queue: &str, id: &str) {
    let body = json!({ "queues": [queue], "worker_id": "w" });
    let (_, got) = direct(stage, 0, Method::POST, "/ojs/v1/workers/fetch", &body).await;
    assert_eq!(got["jobs"][0]["id"], id, "{got}");
}

async fn end(stage: &Stage, word: &str, id: &str) {
    let body = json!({ "job_id": id, "worker_id": "w", "error": { "code": "x", "message": CANARY }, "result": CANARY });
    let (status, ended) = direct(stage, 0, Method::POST, &format!("/ojs/v1/workers/{word}"), &body).await;
    assert!(status.is_success(), "{ended}");
}

async fn look_up(hub: &HubStage, id: &str) -> Value {
    status(hub, "eve", &Method::GET, &format!("/v1/federation/jobs?job_id={id}")).await.1
}

/// The record of a job at a hub, once it is in this state.
async fn is(hub: &HubStage, id: &str, state: &str) -> Value {
    let mut record = Value::Null;
    eventually(&format!("the job is {state}"), async || {
        record = look_up(hub, id).await;
        record["state"] == state
    })
    .await;
    record
}

/// The history of the only copy; an `e` behind each change that only events have shown.
fn history(record: &Value) -> Vec<String> {
    let copies = record["copies"].as_array().unwrap();
    assert_eq!(copies.len(), 1, "{record}");
    let shown = |it: &Value| {
        let source = if it["observed_by"] == "events" { " e" } else { "" };
        format!("{}{source}", it["change"].as_str().unwrap())
    };
    copies[0]["history"].as_array().unwrap().iter().map(shown).collect()
}

/// A figure of the hub.
async fn figure(hub: &Hub, name: &str) -> f64 {
    let metrics = hub.admin.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("{name}: {text}"))
}

async fn is_open(hub: &Hub) {
    eventually("the stream is open", async || figure(hub, "ojs_hub_event_streams{state=\"open\"}").await == 1.0).await;
}

fn has_no_canary(hub: &HubStage) {
    for file in std::fs::read_dir(hub.path("")).unwrap() {
        let path = file.unwrap().path();
        let Ok(content) = std::fs::read(&path) else { continue };
        assert!(memchr::memmem::find(&content, CANARY.as_bytes()).is_none(), "{}", path.display());
    }
}

/// A hub of the second region, which pulls from that of the first.
async fn beside(hub: &HubStage) -> (HubStage, Hub) {
    let mut other = HubStage::new("");
    other.set_more(&super::index::pulls(EU, US, hub));
    let running = other.run().await;
    (other, running)
}

/// A job that no sidecar sees goes through its life, and both hubs know each state of it.
async fn follows_a_direct_job(hub: HubStage) {
    let (hub, running, stage) = reading(hub, "{ queues: [email], unbound: [email] }").await;
    let (other, _other) = beside(&hub).await;
    is_open(&running).await;
    let id = enqueue(&stage, "email", json!({ "x": CANARY })).await;
    let record = is(&hub, &id, "available").await;
    let copy = &record["copies"][0];
    assert_eq!(
        [&copy["type"], &copy["queue"], &copy["region"], &copy["bound"]],
        [&json!("mail.send"), &json!("email"), &json!(US), &json!(false)]
    );
    lease(&stage, "email", &id).await;
    is(&hub, &id, "active").await;
    is(&other, &id, "active").await;
    end(&stage, "ack", &id).await;
    let record = is(&hub, &id, "completed").await;
    assert_eq!(history(&record), ["created e", "leased e", "completed e"]);
    let there = is(&other, &id, "completed").await;
    assert_eq!((history(&there), &there["copies"][0]["queue"]), (history(&record), &json!("email")));
    let failed = enqueue(&stage, "email", json!({})).await;
    lease(&stage, "email", &failed).await;
    end(&stage, "nack", &failed).await;
    assert_eq!(history(&is(&other, &failed, "retryable").await), ["created e", "leased e", "failed e"]);
    let cancelled = enqueue(&stage, "email", json!({})).await;
    direct(&stage, 0, Method::DELETE, &format!("/ojs/v1/jobs/{cancelled}"), &json!({})).await;
    assert_eq!(history(&is(&other, &cancelled, "cancelled").await), ["created e", "cancelled e"]);
    has_no_canary(&hub);
    has_no_canary(&other);
    eventually("none waits", async || figure(&running, "ojs_hub_events_waiting").await == 0.0).await;
}

#[tokio::test]
async fn a_job_that_no_sidecar_saw_is_in_the_index_of_every_region_through_its_life() {
    follows_a_direct_job(HubStage::new("")).await;
}

#[tokio::test]
async fn the_events_are_in_an_index_in_postgresql_as_well() {
    let hub = HubStage::new("");
    let Some(server) = Postgres::start(&hub.authority).await else { return };
    let record = Postgres::section(&[&server], &hub.path(""), &hub.path("hub.ca.pem"));
    follows_a_direct_job(hub.with_record(record)).await;
}

#[tokio::test]
async fn a_job_that_a_sidecar_reports_and_the_stream_shows_has_each_step_once() {
    let mut hub = HubStage::new("");
    hub.client("peer", "spiffe://test/hub");
    let section = hub.section("one").replace("hub: {", "hub: { report_jobs: true,");
    let stage = Setup::default().regions(2).yaml(&section).stage().await;
    hub.set_more(&reads(&stage, "{ queues: [email] }"));
    let running = hub.run().await;
    let sidecar = Process::run(&stage.config, &INFO).await;
    hub.follows("one").await;
    is_open(&running).await;
    let id = enqueued(&sidecar, "email", json!({})).await;
    is(&hub, &id, "available").await;
    completed(&sidecar, "email", &id).await;
    let taken = "ojs_hub_events_total{result=\"taken\"}";
    eventually("the events are in the index, too", async || figure(&running, taken).await >= 3.0).await;
    let record = is(&hub, &id, "completed").await;
    assert_eq!(history(&record), ["created", "leased", "completed"], "{record}");
    assert_eq!(record["copies"][0]["bound"], false, "by the word of the sidecar");
    let asked = stage.regions[0].record().requests_to(&format!("/ojs/v1/jobs/{id}"));
    assert!(asked.is_empty(), "no question about a job that a sidecar describes: {asked:?}");
    // One that goes on without the sidecar.
    let half = enqueued(&sidecar, "email", json!({})).await;
    is(&hub, &half, "available").await;
    lease(&stage, "email", &half).await;
    end(&stage, "ack", &half).await;
    assert_eq!(history(&is(&hub, &half, "completed").await), ["created", "leased e", "completed e"]);
}

#[tokio::test]
async fn a_bound_job_leaves_without_its_fields_and_a_replica_not_at_all() {
    let (hub, running, stage) = reading(HubStage::new(""), "{ queues: [email, other], unbound: [email] }").await;
    let (other, _other) = beside(&hub).await;
    eventually("both are open", async || figure(&running, "ojs_hub_event_streams{state=\"open\"}").await == 2.0).await;
    let pinned = enqueue(&stage, "email", json!({ "ojs.federation.region": US, "tenant_id": "acme" })).await;
    let unsaid = enqueue(&stage, "other", json!({})).await;
    let replica = enqueue(&stage, "email", json!({ "ojs.federation.replicated_from": EU })).await;
    let free = enqueue(&stage, "email", json!({})).await;
    for (id, bound, queue) in [(&pinned, true, "email"), (&unsaid, true, "other"), (&free, false, "email")] {
        let (here, there) = (is(&hub, id, "available").await, is(&other, id, "available").await);
        let (here, there) = (&here["copies"][0], &there["copies"][0]);
        assert_eq!([&here["queue"], &here["bound"], &there["bound"]], [&json!(queue), &json!(bound), &json!(bound)]);
        assert_eq!(there["queue"], if bound { Value::Null } else { json!(queue) }, "{there}");
        assert!(!bound || (there["type"].is_null() && there["tenant"].is_null()), "{there}");
    }
    let record = is(&hub, &replica, "available").await;
    assert_eq!(record["copies"][0]["replicated_from"], EU);
    // It was kept before the job behind it, which is there.
    assert!(look_up(&other, &replica).await["copies"].is_null());
}

#[tokio::test]
async fn streams_that_are_absent_or_send_rubbish_or_end_are_counted_and_later_jobs_are_there() {
    let mut hub = HubStage::new("");
    let stage = Setup::default().regions(1).stage().await;
    hub.set_more(&reads(&stage, "{ queues: [email, absent], unbound: [email] }"));
    let rubbish = format!(
        "data: {{\n\nevent: job.state_changed\ndata: {{\"job_id\":\"x\",\"queue\":\"email\",\"from\":\"active\",\"to\":\"completed\",\"timestamp\":\"9999-01-01T00:00:00Z\"}}\n\ndata: {}\n\nid: \u{0}\n\n",
        "x".repeat(70_000)
    );
    let answer = |status, body: Vec<u8>, kind: &str| Fault::Answer {
        answer: FaultAnswer { status, headers: vec![("content-type".to_owned(), kind.to_owned())], body: body.into() },
        store: false,
    };
    let faults = stage.regions[0].faults();
    faults
        .add(When::path("/ojs/v1/queues/absent/events"), answer(StatusCode::NOT_FOUND, b"none".to_vec(), "text/plain"));
    faults.add(When::path(STREAM), answer(StatusCode::OK, rubbish.into_bytes(), "text/event-stream"));
    let running = hub.run().await;
    for (name, least) in [
        ("ojs_hub_event_streams{state=\"absent\"}", 1.0),
        ("ojs_hub_events_total{result=\"odd\"}", 4.0),
        ("ojs_hub_events_total{result=\"too_long\"}", 2.0),
        ("ojs_hub_event_gaps_total", 2.0),
    ] {
        eventually(name, async || figure(&running, name).await >= least).await;
    }
    assert_eq!(running.log_count(&["ojs.federation.hub_events_absent", "absent"]), 1);
    assert_eq!(running.log_count(&["ojs.federation.hub_events_failed", "email"]), 1, "once for one cause");
    faults.clear();
    is_open(&running).await;
    let id = enqueue(&stage, "email", json!({})).await;
    is(&hub, &id, "available").await;
    // The region stops; what happens until the stream is open again is in its lists.
    stage.regions[0].stop().await;
    eventually("the stream has ended", async || figure(&running, "ojs_hub_event_streams{state=\"open\"}").await == 0.0)
        .await;
    stage.regions[0].resume().await.unwrap();
    let missed = enqueue(&stage, "email", json!({})).await;
    direct(&stage, 0, Method::DELETE, &format!("/ojs/v1/jobs/{id}"), &json!({})).await;
    assert_eq!(history(&is(&hub, &missed, "available").await), ["created e"]);
    assert_eq!(history(&is(&hub, &id, "cancelled").await), ["created e", "cancelled e"]);
    // Once it was open for long: the server writes to it at least each 15 s.
    eventually("its return is logged", async || running.log_has(&["ojs.federation.hub_events_return", "email"])).await;
}

#[tokio::test]
async fn a_flood_of_jobs_is_taken_in_by_and_by_and_those_that_wait_are_shown() {
    const JOBS: usize = 1_000;
    let (hub, running, stage) = reading(HubStage::new(""), "{ queues: [email], unbound: [email] }").await;
    is_open(&running).await;
    stage.regions[0].put(r#"{"type":"a","args":[],"options":{"queue":"email"}}"#, JOBS);
    eventually("they wait", async || figure(&running, "ojs_hub_events_waiting").await > 0.0).await;
    let taken = "ojs_hub_events_total{result=\"taken\"}";
    rises("all are taken", JOBS, async || figure(&running, taken).await as usize).await;
    eventually("none waits", async || figure(&running, "ojs_hub_events_waiting").await == 0.0).await;
    let list = format!("/v1/federation/jobs?region={US}&queue=email&offset=0&limit=1");
    assert_eq!(status(&hub, "eve", &Method::GET, &list).await.1["total"], JOBS);
}

#[tokio::test]
async fn queues_are_found_by_globs_and_of_two_hubs_one_reads_until_it_is_killed() {
    let mut hub = HubStage::new("");
    let Some(server) = Postgres::start(&hub.authority).await else { return };
    let record = Postgres::section(&[&server], &hub.path(""), &hub.path("hub.ca.pem"));
    hub = hub.on_record(record);
    let stage = Setup::default().regions(1).stage().await;
    enqueue(&stage, "email", json!({})).await;
    enqueue(&stage, "other", json!({})).await;
    hub.set_more(&reads(&stage, "{ queues: [\"em*\"], unbound: [\"*\"] }"));
    let (mut first, mut second) = (hub.again(0).await, hub.again(1).await);
    let reading = async |it: &Hub| figure(it, "ojs_hub_events_reading").await;
    eventually("one reads", async || reading(&first).await + reading(&second).await == 1.0).await;
    let (reader, other) = if reading(&first).await == 1.0 { (&mut first, &second) } else { (&mut second, &first) };
    reader.kill();
    is_open(other).await;
    enqueue(&stage, "email", json!({})).await;
    let taken = "ojs_hub_events_total{result=\"taken\"}";
    eventually("the other one goes on", async || figure(other, taken).await >= 1.0).await;
}

#[tokio::test]
async fn wrong_settings_of_event_streams_are_named_by_their_key() {
    let stage = HubStage::new("");
    let path = stage.path("wrong.yaml");
    let dir = stage.path("");
    let dir = dir.display();
    let tls = format!("tls: {{ cert: {dir}hub.cert.pem, key: {dir}hub.key.pem, client_ca: {dir}hub.ca.pem }}");
    let rest =
        format!("listen: 127.0.0.1:0\n{tls}\naccess: [{{ san: a, role: sidecar }}]\nrecord: {{ path: {dir}a.db }}");
    for (events, words) in [
        ("{ queues: [] }", "index.events.queues: expected 1 to 64"),
        ("{ queues: [email] }", "index.events: expected `regions` with us-east-1"),
        ("{ queues: [email], unbound: [\"\"] }", "index.events.unbound[0]: expected a queue"),
        ("{ queue: [email] }", "unknown field `queue`"),
        ("{ unbound: [email] }", "missing field `queues`"),
    ] {
        std::fs::write(&path, format!("{rest}\nindex: {{ region: us-east-1, events: {events} }}\n")).unwrap();
        let ended = command(&["hub", "--config", path.to_str().unwrap()], &[], "");
        assert!(ended.code == Some(78) && ended.stderr.contains(words), "{events}: {}", ended.all());
    }
}
