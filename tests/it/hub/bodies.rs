//! The bytes of jobs: sidecars report them, hubs keep them sealed and show them to hubs of the regions that a job may go to.

use std::path::Path;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use ojs_sidecar::base::RegionId;
use ojs_sidecar::fleet::{BodiesRequest, ChangesRequest};
use ojs_sidecar::replica::{Content, JobBody, Reach, read_bodies};
use serde_json::{Value, json};

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, connected, status};
use crate::support::{Process, Setup, Stage, command, eventually};

const US: &str = "us-east-1";
const EU: &str = "eu-west-1";
const RULE: &str = "routing: { rules: [{ match: { queue: home }, target: { regions: [us-east-1, ap-south-1] } }] }";
/// In the arguments of jobs that may go to every region, of those that a rule keeps at home, of pinned ones, and in a header.
const FREE: &str = "canary-of-the-free";
const RULED: &str = "canary-of-the-rule";
const PINNED: &str = "canary-of-the-pin";
const SECRET: &str = "canary-of-the-header";

/// A hub of the first region, which the hub of the second one may read.
fn hub_of(region: &str, reader: &str) -> HubStage {
    let mut stage = HubStage::new("");
    stage.client("peer", "spiffe://test/hub");
    std::fs::write(stage.path("bodies.key"), "0f".repeat(32)).unwrap();
    stage.set_more(&keeps(&stage, region, reader, "", true));
    stage
}

fn keeps(stage: &HubStage, region: &str, reader: &str, from: &str, bodies: bool) -> String {
    let key = stage.path("bodies.key");
    let bodies = if bodies { format!(", bodies: {{ key_file: {key:?} }}") } else { String::new() };
    format!(
        "  - {{ san: \"spiffe://test/hub\", role: hub, region: {reader} }}\nindex: {{ region: {region}{bodies}{from} }}"
    )
}

/// The settings of a hub that pulls facts and bodies from another one.
fn pulls(own: &HubStage, region: &str, reader: &str, other: &HubStage) -> String {
    let file = |name: &str| other.path(name);
    let (ca, cert, key) = (file("hub.ca.pem"), file("peer.cert.pem"), file("peer.key.pem"));
    let tls = format!("tls: {{ ca: {ca:?}, cert: {cert:?}, key: {key:?} }}");
    let from = format!(", from: [{{ region: {reader}, urls: [{:?}], {tls}, bodies: true }}]", other.url());
    keeps(own, region, reader, &from, true)
}

/// A federation whose sidecar in `region` reports the bytes of all queues, and the sidecar.
async fn reporting(stage: &HubStage, name: &str, region: &str, more: &str) -> (Stage, Process) {
    let section = stage.section(name).replace("hub: {", "hub: { report_jobs: true, report_bodies: [\"*\"],");
    let federation = Setup::default().yaml(&section).yaml(RULE).yaml(more).stage().await;
    let place = format!("local_region={region}");
    let sidecar = Process::run(&federation.config, &[&INFO[..], &["--set", &place]].concat()).await;
    stage.follows(name).await;
    (federation, sidecar)
}

/// Two regions with a hub each; the one in the EU pulls from the other one, whose sidecar reports.
struct Two {
    us: HubStage,
    eu: HubStage,
    of_us: Hub,
    of_eu: Hub,
    in_us: Process,
    _federation: Stage,
}

impl Two {
    async fn start(us: HubStage, mut eu: HubStage) -> Self {
        let of_us = us.run().await;
        eu.set_more(&pulls(&eu, EU, US, &us));
        let of_eu = eu.run().await;
        let (federation, in_us) = reporting(&us, "one", US, "").await;
        Self { us, eu, of_us, of_eu, in_us, _federation: federation }
    }

    /// Waits until both hubs say that they have, or have not, the bytes of a job.
    async fn both(&self, id: &str, is_here: bool) {
        for (stage, place) in [(&self.us, "us"), (&self.eu, "eu")] {
            eventually(&format!("{place}: bytes_here is {is_here}"), async || here(stage, id).await == json!(is_here))
                .await;
        }
    }
}

/// Whether a hub has the bytes of a job; null where its index does not have the job.
async fn here(stage: &HubStage, id: &str) -> Value {
    let (_, record) = status(stage, "eve", &Method::GET, &format!("/v1/federation/jobs?job_id={id}")).await;
    record["copies"][0]["bytes_here"].clone()
}

async fn enqueued(sidecar: &Process, queue: &str, canary: &str, meta: Value) -> String {
    let job = json!({ "type": "t", "args": [canary], "options": { "queue": queue }, "meta": meta }).to_string();
    let request = Request::post("/ojs/v1/jobs").header("authorization", SECRET).header("x-secret", SECRET);
    let request = request.header("content-type", "application/json").header("x-ojs-tenant", "acme");
    let answer = sidecar.client.send(request, job).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.job_id()
}

/// A worker gets the job of a queue and completes it.
async fn completed(sidecar: &Process, queue: &str, id: &str) {
    let body = json!({ "queues": [queue], "worker_id": "w" }).to_string();
    let fetched = sidecar.client.post("/ojs/v1/workers/fetch", body).await.json();
    assert_eq!(fetched["jobs"][0]["id"], id, "{fetched}");
    let done = json!({ "job_id": id, "worker_id": "w" }).to_string();
    assert_eq!(sidecar.client.post("/ojs/v1/workers/ack", done).await.status, 200);
}

/// The status and the bytes of an answer of a hub.
async fn octets(stage: &HubStage, who: &str, method: Method, path: &str, body: Vec<u8>) -> (u16, Bytes) {
    let request = Request::builder().method(method).uri(path).header("host", "hub");
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let answer = connected(stage, Some(who)).await.send_request(request).await.unwrap();
    (answer.status().as_u16(), answer.into_body().collect().await.unwrap().to_bytes())
}

/// The bodies that a hub shows the other one.
async fn shown(stage: &HubStage) -> Vec<JobBody> {
    let (status, answer) = octets(stage, "peer", Method::GET, "/v1/hub/bodies", Vec::new()).await;
    assert_eq!(status, 200, "{answer:?}");
    let head = answer.iter().position(|byte| *byte == b'\n').unwrap();
    read_bodies(&answer[head + 1..]).unwrap()
}

fn has(content: &[u8], text: &str) -> bool {
    memchr::memmem::find(content, text.as_bytes()).is_some()
}

/// Fails where a file below a folder, but for the configuration of sidecars, has one of these texts.
fn check_files(folder: &Path, texts: &[&str]) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_files(&path, texts);
        } else if let Ok(content) = std::fs::read(&path) {
            for text in texts {
                assert!(!has(&content, text), "{text} is in {}", path.display());
            }
        }
    }
}

/// A job that may go everywhere reaches the other hub and leaves with its end; others stay where they may be.
async fn replicate(two: &Two, databases: &[&Path]) {
    let pinned = enqueued(&two.in_us, "pinned", PINNED, json!({ "ojs.federation.region": US })).await;
    let home = enqueued(&two.in_us, "home", RULED, json!({})).await;
    let replica = enqueued(&two.in_us, "again", RULED, json!({ "ojs.federation.replicated_from": "ap-south-1" })).await;
    let free = enqueued(&two.in_us, "email", FREE, json!({})).await;
    two.both(&free, true).await;
    assert_eq!([here(&two.us, &pinned).await, here(&two.us, &home).await], [json!(false), json!(true)]);
    assert_eq!([here(&two.eu, &pinned).await, here(&two.eu, &home).await], [json!(false), json!(false)]);
    assert_eq!(here(&two.us, &replica).await, json!(false));
    let bodies = shown(&two.us).await;
    let body = &bodies[0];
    assert_eq!((bodies.len(), &body.job_id, body.region.as_str()), (1, &free, US));
    assert_eq!(body.reach, Reach::Every);
    let mut headers: Vec<_> = body.call.headers.keys().map(|name| name.as_str()).collect();
    headers.sort_unstable();
    assert_eq!((headers, body.call.path.as_str()), (vec!["content-type", "x-ojs-tenant"], "/ojs/v1/jobs"));
    let job: Value = serde_json::from_slice(&body.call.body).unwrap();
    assert_eq!((&job["args"], &job["id"]), (&json!([FREE]), &json!(free)), "as it was sent to its region");
    databases.iter().for_each(|folder| check_files(folder, &[FREE, RULED, PINNED, SECRET]));
    for hub in [&two.of_us, &two.of_eu] {
        assert!(!hub.log_has(&["canary"]));
    }
    completed(&two.in_us, "email", &free).await;
    completed(&two.in_us, "home", &home).await;
    two.both(&free, false).await;
    two.both(&home, false).await;
    assert_eq!(shown(&two.us).await, []);
}

#[tokio::test]
async fn the_bytes_of_a_job_reach_the_hubs_of_its_regions_only_and_leave_with_its_end() {
    let two = Two::start(hub_of(US, EU), hub_of(EU, US)).await;
    replicate(&two, &[&two.us.path(""), &two.eu.path("")]).await;
}

#[tokio::test]
async fn a_hub_on_postgresql_keeps_the_bytes_of_jobs_as_one_on_sqlite() {
    let us = hub_of(US, EU);
    let Some(server) = Postgres::start(&us.authority).await else { return };
    let record = Postgres::section(&[&server], &us.path(""), &us.path("hub.ca.pem"));
    let two = Two::start(us.with_record(record), hub_of(EU, US)).await;
    replicate(&two, &[&server.folder(), &two.eu.path("")]).await;
    let eu = hub_of(EU, US);
    let Some(server) = Postgres::start(&eu.authority).await else { return };
    let record = Postgres::section(&[&server], &eu.path(""), &eu.path("hub.ca.pem"));
    let two = Two::start(hub_of(US, EU), eu.with_record(record)).await;
    replicate(&two, &[&two.us.path(""), &server.folder()]).await;
}

fn body(job_id: &str, reach: Reach) -> JobBody {
    let path = http::uri::PathAndQuery::from_static("/ojs/v1/jobs");
    let call = Content { path, headers: http::HeaderMap::new(), body: Bytes::from_static(b"{\"args\":[]}") };
    JobBody { job_id: job_id.to_owned(), region: RegionId::parse(US).unwrap(), federation_id: None, reach, call }
}

/// Reports come twice, and in the other order; a job whose end is known keeps no bytes.
async fn repeat(us: HubStage) {
    let two = Two::start(us, hub_of(EU, US)).await;
    let report = async |bodies: &[JobBody]| {
        let request = BodiesRequest::body("one", bodies);
        octets(&two.us, "pod", Method::POST, "/v1/hub/bodies", request).await.0
    };
    let change = async |line: &str| {
        let request = ChangesRequest::body("one", line.as_bytes());
        octets(&two.us, "pod", Method::POST, "/v1/hub/changes", request).await.0
    };
    let created = |id: &str| format!("{id}\t{US}\tcreated\t0\t7\t\t\t\t\t\t\t\t\n");
    let only = Reach::Only([US, EU].map(|id| RegionId::parse(id).unwrap()).into());
    let (kept, ended) = (body("kept", only.clone()), body("ended", Reach::Every));
    // The end comes before the bytes, and before the job is known at all.
    assert_eq!(change(&format!("ended\t{US}\tcompleted\t0\t9\t\t\t\t\t\t\t\t\n")).await, 204);
    for turn in [vec![ended.clone(), kept.clone()], vec![kept.clone(), kept.clone()], vec![kept.clone(), ended]] {
        assert_eq!(report(&turn).await, 204);
        assert_eq!(shown(&two.us).await, std::slice::from_ref(&kept));
    }
    assert_eq!(change(&(created("kept") + &created("ended"))).await, 204);
    two.both("kept", true).await;
    two.both("ended", false).await;
    // A narrower report makes it go no further.
    let home = Reach::Only([RegionId::parse(US).unwrap()].into());
    assert_eq!(report(&[body("kept", home)]).await, 204);
    assert_eq!(shown(&two.us).await, []);
    assert_eq!(change(&format!("kept\t{US}\tfailed\t5\t9\t\tdiscarded\t\t\t\t\t\t\n")).await, 204);
    two.both("kept", false).await;
    // Neither another hub nor a person may report, and no sidecar may read.
    let request = || BodiesRequest::body("one", std::slice::from_ref(&kept));
    assert_eq!(octets(&two.us, "peer", Method::POST, "/v1/hub/bodies", request()).await.0, 403);
    assert_eq!(octets(&two.us, "ann", Method::GET, "/v1/hub/bodies", Vec::new()).await.0, 403);
    assert_eq!(octets(&two.us, "pod", Method::GET, "/v1/hub/bodies", Vec::new()).await.0, 403);
    assert_eq!(octets(&two.us, "pod", Method::POST, "/v1/hub/bodies", b"one\nx".to_vec()).await.0, 400);
}

#[tokio::test]
async fn repeated_and_reordered_reports_of_bytes_change_nothing() {
    repeat(hub_of(US, EU)).await;
}

#[tokio::test]
async fn repeated_and_reordered_reports_of_bytes_change_nothing_in_postgresql() {
    let us = hub_of(US, EU);
    let Some(server) = Postgres::start(&us.authority).await else { return };
    let record = Postgres::section(&[&server], &us.path(""), &us.path("hub.ca.pem"));
    repeat(us.with_record(record)).await;
}

async fn metric(sidecar: &Process, name: &str) -> Option<f64> {
    let metrics = sidecar.admin.get("/metrics").await;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test]
async fn a_hub_without_bodies_and_a_body_that_is_too_long_cost_the_replica_only() {
    let mut us = hub_of(US, EU);
    us.set_more(&keeps(&us, US, EU, "", false));
    let mut of_us = us.run().await;
    let mut eu = hub_of(EU, US);
    eu.set_more(&pulls(&eu, EU, US, &us));
    let of_eu = eu.run().await;
    let (_federation, sidecar) = reporting(&us, "one", US, "limits: { body_bytes: 4MiB }").await;
    let first = enqueued(&sidecar, "email", FREE, json!({})).await;
    sidecar.wait_for_line("ojs.federation.hub_bodies_refused").await;
    let dropped = async || metric(&sidecar, "ojs_federation_hub_bodies_dropped").await;
    eventually("the job is counted", async || dropped().await == Some(1.0)).await;
    eventually("its change has come", async || here(&us, &first).await == json!(false)).await;
    eventually("the operator of the reader sees why", async || {
        of_eu.log_has(&["hub_bodies_pull_failed", "index.bodies"])
    })
    .await;
    let (status, answer) = octets(&us, "peer", Method::GET, "/v1/hub/bodies", Vec::new()).await;
    assert!(status == 404 && has(&answer, "no_bodies"), "{answer:?}");
    // The next hub keeps some, and the job that is too long costs nothing else.
    of_us.kill();
    us.set_more(&keeps(&us, US, EU, "", true));
    let _of_us = us.again(0).await;
    us.follows("one").await;
    enqueued(&sidecar, "email", &"x".repeat(1_100_000), json!({})).await;
    eventually("the long one is counted", async || dropped().await == Some(2.0)).await;
    let last = enqueued(&sidecar, "email", FREE, json!({})).await;
    eventually("the last one is kept", async || here(&us, &last).await == json!(true)).await;
    eventually("the reader gets it", async || here(&eu, &last).await == json!(true)).await;
}

/// A job that no region could take is reported once its region has it.
#[tokio::test]
async fn the_bytes_of_a_job_from_the_outage_spool_are_reported_when_a_region_has_it() {
    let us = hub_of(US, EU);
    let _of_us = us.run().await;
    let (spool, key) = (us.path("spool"), us.path("bodies.key"));
    let more = format!(
        "spool: {{ path: {spool:?}, key_file: {key:?}, queues: [email] }}
health_check: {{ interval: 100ms, timeout: 2s }}
circuit_breaker: {{ cooldown: 100ms, early_probe: 50ms, hold_down_changes: 0, slow_start: 0s }}"
    );
    let (federation, sidecar) = reporting(&us, "one", US, &more).await;
    for region in &federation.regions {
        region.stop().await;
    }
    let job = json!({ "type": "t", "args": [FREE], "options": { "queue": "email" } }).to_string();
    let answer = sidecar.client.enqueue(job).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(shown(&us).await, [], "no region has it");
    for region in &federation.regions {
        region.resume().await.unwrap();
    }
    eventually("its bytes are there", async || here(&us, &answer.job_id()).await == json!(true)).await;
    let bodies = shown(&us).await;
    assert!(bodies.len() == 1 && has(&bodies[0].call.body, FREE), "{bodies:?}");
}

#[tokio::test]
async fn a_hub_with_another_key_does_not_start_and_says_why() {
    let us = hub_of(US, EU);
    us.run().await.kill();
    let config = us.write_config(0);
    let start = || command(&["hub", "--config", config.to_str().unwrap()], &[], "");
    for (key, expected) in [("0e".repeat(32), "sealed with another key"), ("0e".repeat(31), "64 hexadecimal digits")] {
        std::fs::write(us.path("bodies.key"), key).unwrap();
        let ended = start();
        assert_ne!(ended.code, Some(0));
        assert!(ended.all().contains("index.bodies.key_file: ") && ended.all().contains(expected), "{}", ended.all());
    }
    std::fs::write(us.path("bodies.key"), "0F".repeat(32)).unwrap();
    us.again(0).await.kill();
}
