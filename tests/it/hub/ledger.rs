//! The ledger of a hub: the history of each job from enqueue to end, its digests, and no byte of its arguments.

use std::fs;

use http::Method;
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, post, status};
use super::views::regions;
use crate::support::{Process, Setup, Stage, eventually, pinned};

const CANARY: &str = "canary-of-the-arguments";
/// Odd, so that another spelling of the same arguments has another digest.
const ARGS: &str = "[ \"canary-of-the-arguments\" , 1e2,\"\\u00e9\"]";
/// `printf '%s' "$ARGS" | sha256sum`.
const DIGEST: &str = "sha256:";

fn settings(stage: &HubStage) -> String {
    let key = stage.path("audit.key");
    fs::write(&key, KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem()).unwrap();
    format!("index: {{ region: us-east-1 }}\nledger: {{}}\naudit: {{ key: {key:?}, log: hub.test }}")
}

pub(super) async fn reporting(stage: &HubStage, name: &str, more: &str) -> (Stage, Process) {
    let section = stage.section(name).replace("hub: {", "hub: { report_jobs: true, ledger: metadata,");
    let federation = Setup::default().yaml(&section).yaml(more).stage().await;
    let sidecar = Process::run(&federation.config, &INFO).await;
    stage.follows(name).await;
    (federation, sidecar)
}

pub(super) async fn get(stage: &HubStage, path: &str) -> (u16, Value) {
    status(stage, "ann", &Method::GET, path).await
}

/// The only copy of a job, once it has this status.
pub(super) async fn recorded(stage: &HubStage, id: &str, wanted: &str) -> Value {
    let mut copy = Value::Null;
    eventually(&format!("the ledger has {id} as {wanted}"), async || {
        copy = get(stage, &format!("/api/jobs/{id}")).await.1["copies"][0].clone();
        copy["status"] == wanted
    })
    .await;
    copy
}

fn events(copy: &Value) -> Vec<&str> {
    copy["history"].as_array().unwrap().iter().map(|it| it["record"]["event"].as_str().unwrap()).collect()
}

fn job(queue: &str, tenant: &str) -> String {
    let options = json!({ "queue": queue, "priority": 7 });
    format!(r#"{{"type":"mail.send","args":{ARGS},"options":{options},"meta":{{"tenant_id":"{tenant}"}}}}"#)
}

async fn fetched(sidecar: &Process) -> Value {
    let body = r#"{"queues":["email"],"worker_id":"w1"}"#;
    sidecar.client.post("/ojs/v1/workers/fetch", body).await.json()["jobs"][0].clone()
}

async fn says(sidecar: &Process, word: &str, id: &str) {
    let body =
        json!({ "job_id": id, "worker_id": "w1", "active_jobs": [id], "error": { "code": "x", "message": "x" } });
    let answer = sidecar.client.post(&format!("/ojs/v1/workers/{word}"), body.to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// A job from its enqueue to its end, through the loss of the hub.
async fn follows_a_life(stage: &mut HubStage) {
    let more = settings(stage);
    stage.set_more(&more);
    let mut hub = stage.run().await;
    let (federation, sidecar) = reporting(stage, "one", "").await;
    let id = sidecar.client.enqueue(job("email", "acme")).await.job_id();
    let copy = recorded(stage, &id, "enqueued").await;
    let shown = |member: &str| copy[member].clone();
    assert_eq!(
        ["jobType", "queue", "tenant", "region", "priority", "bound", "attempts", "rerouted"].map(shown),
        [
            json!("mail.send"),
            json!("email"),
            json!("acme"),
            json!("us-east-1"),
            json!(7),
            json!(false),
            json!(0),
            json!(false)
        ]
    );
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, ARGS.as_bytes());
    let digest = format!("{DIGEST}{}", data_encoding::HEXLOWER.encode(digest.as_ref()));
    assert_eq!(copy["payloadDigest"], digest.as_str(), "the bytes as they were sent");
    assert_eq!(fetched(&sidecar).await["id"], id.as_str());
    let copy = recorded(stage, &id, "leased").await;
    assert_eq!((&copy["worker"], &copy["leases"][0]["worker"]), (&json!("w1"), &json!("w1")));
    assert!(copy["leaseUntil"].as_str() > copy["leases"][0]["leasedAt"].as_str(), "{copy}");
    hub.kill();
    sidecar.wait_for_line("ojs.federation.hub_lost").await;
    says(&sidecar, "heartbeat", &id).await;
    says(&sidecar, "ack", &id).await;
    let hub = stage.again(0).await;
    let copy = recorded(stage, &id, "succeeded").await;
    assert_eq!(events(&copy), ["enqueued", "leased", "extended", "succeeded"]);
    assert_eq!((&copy["leases"][0]["end"], &copy["metrics"]["attempts"]), (&json!("succeeded"), &json!(1)));
    assert_eq!((copy["leases"].as_array().unwrap().len(), &copy["leases"][0]["extensions"]), (1, &json!(1)));
    assert_eq!(copy["evidence"]["records"], 4);
    let failing = sidecar.client.enqueue(job("email", "other")).await.job_id();
    assert_eq!(fetched(&sidecar).await["id"], failing.as_str());
    says(&sidecar, "nack", &failing).await;
    let copy = recorded(stage, &failing, "retrying").await;
    assert_eq!(events(&copy), ["enqueued", "leased", "retried"]);
    let bound = sidecar.client.enqueue(pinned("eu-west-1", "x")).await.job_id();
    let cancelled = sidecar.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{bound}"), "").await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let copy = recorded(stage, &bound, "canceled").await;
    assert_eq!((events(&copy), &copy["bound"]), (vec!["enqueued", "canceled"], &json!(true)));
    assert_eq!([&copy["jobType"], &copy["payloadDigest"]], [&Value::Null; 2], "it is bound to another region");
    let later = json!({ "type": "t", "args": [], "options": { "delay_until": "2099-01-01T00:00:00Z" } });
    let batch = json!({ "jobs": [serde_json::from_str::<Value>(&job("email", "acme")).unwrap(), later] });
    let made = sidecar.client.post("/ojs/v1/jobs/batch", batch.to_string()).await.json();
    let first = made["jobs"][0]["id"].as_str().unwrap();
    let copy = recorded(stage, first, "enqueued").await;
    assert!(copy["payloadDigest"].is_string() && copy["tenant"] == "acme", "{copy}");
    lists(stage).await;
    dashboard(stage, &hub).await;
    drop((federation, sidecar));
}

/// Filters and pages of the list.
async fn lists(stage: &HubStage) {
    let ids = async |query: &str| -> Vec<String> {
        let (status, page) = get(stage, &format!("/api/jobs?{query}")).await;
        assert_eq!(status, 200, "{query}: {page}");
        let jobs = page["jobs"].as_array().unwrap();
        jobs.iter().map(|it| it["jobId"].as_str().unwrap().to_owned()).collect()
    };
    eventually("all five jobs are listed", async || ids("").await.len() == 5).await;
    let all = ids("").await;
    assert_eq!(ids("tenant=acme").await.len(), 2);
    assert_eq!(ids("tenant=acme&status=succeeded").await.len(), 1);
    assert_eq!((ids("region=eu-west-1").await.len(), ids("jobType=mail.send").await.len()), (1, 3));
    assert_eq!((ids("to=2020-01-01T00:00:00Z").await.len(), ids("from=2020-01-01T00:00:00Z").await.len()), (0, 5));
    let (mut paged, mut path) = (Vec::new(), "/api/jobs?limit=2".to_owned());
    loop {
        let (_, page) = get(stage, &path).await;
        paged.extend(page["jobs"].as_array().unwrap().iter().map(|it| it["jobId"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/jobs?limit=2&cursor={next}");
    }
    assert_eq!(paged, all);
    let (refused, document) = get(stage, "/api/jobs?status=done").await;
    assert!(refused == 400 && document.to_string().contains("expected one of enqueued"), "{document}");
    assert_eq!(get(stage, "/api/jobs/none").await.0, 404);
    let (_, head) = get(stage, &format!("/api/ledger/heads?day={}", today(stage).await)).await;
    assert_eq!(head["payloadType"], "application/vnd.in-toto+json");
}

/// The figures of the steps that this hub took since its start, as a document, as an event, and as metrics.
async fn dashboard(stage: &HubStage, hub: &Hub) {
    let (status, shown) = get(stage, "/api/dashboard/metrics").await;
    assert_eq!(status, 200, "{shown}");
    let of_acme = |subjects: &Value| {
        subjects.as_array().unwrap().iter().find(|it| it["tenant"] == "acme" && it["jobType"] == "mail.send").cloned()
    };
    let subject = of_acme(&shown["subjects"]).unwrap();
    assert_eq!((&subject["steps"]["succeeded"], &subject["latency"]["jobs"]), (&json!(1), &json!(1)), "{subject}");
    assert!(shown["minutes"].as_array().is_some_and(|minutes| !minutes.is_empty()), "{shown}");
    let metrics = hub.admin.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for line in [
        "lease_extensions_total{jobType=\"mail.send\",tenant=\"acme\"} 1",
        "job_failures_total{jobType=\"mail.send\",tenant=\"other\"} 1",
        "job_retry_total{jobType=\"mail.send\",tenant=\"other\"} 1",
        "job_latency_seconds_count{jobType=\"mail.send\",tenant=\"acme\"} 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in {metrics}");
    }
}

/// The only day that has records.
async fn today(stage: &HubStage) -> String {
    let (_, days) = get(stage, "/api/ledger/days").await;
    days["days"][0]["day"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_ledger_has_each_step_of_a_job_and_none_of_its_arguments() {
    let mut stage = HubStage::new("");
    follows_a_life(&mut stage).await;
    for file in ["hub.db", "hub.db-wal"] {
        let bytes = fs::read(stage.path(file)).unwrap_or_default();
        let canary = CANARY.as_bytes();
        assert!(!bytes.windows(canary.len()).any(|it| it == canary), "{file}");
    }
}

#[tokio::test]
async fn the_ledger_of_several_hubs_is_in_their_database() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let section = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    let mut stage = stage.with_record(section);
    follows_a_life(&mut stage).await;
    let rows = "SELECT count(*) FROM ojs_hub_job_history WHERE line LIKE '%canary%'";
    assert_eq!(server.query(rows), "0");
}

/// A replay compares the present arguments with the digests of the ledger, and its new job is in the ledger itself.
#[tokio::test]
async fn a_replay_is_refused_where_the_arguments_are_not_those_of_the_ledger() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    let mut stage = stage.with_record(record);
    let section = stage.section("one").replace("hub: {", "hub: { report_jobs: true, ledger: metadata,");
    let federation = Setup::default().yaml(&section).stage().await;
    let more = format!("{}\n{}", settings(&stage), regions(&federation, |_| None));
    stage.set_more(&more);
    let _hub = stage.run().await;
    let sidecar = Process::run(&federation.config, &INFO).await;
    stage.follows("one").await;
    let id = sidecar.client.enqueue(job("email", "acme")).await.job_id();
    let copy = recorded(&stage, &id, "enqueued").await;
    let order = json!({ "reason": "again", "ticket": "OPS-1", "author": "ann" });
    let path = format!("/api/jobs/{id}/replay");
    let (status, answer) = post(&stage, "ann", &path, &order).await;
    assert_eq!((status, &answer["job"]["step"]), (200, &json!("replayed")), "{answer}");
    assert_eq!(answer["job"]["digest"], copy["payloadDigest"], "the same bytes");
    let new = answer["job"]["new_id"].as_str().unwrap();
    let repeated = recorded(&stage, new, "enqueued").await;
    assert_eq!(
        (events(&repeated), &repeated["replayOf"], &repeated["priority"]),
        (vec!["replayed"], &json!(id), &json!(100))
    );
    for member in ["jobType", "queue", "tenant", "bound", "payloadDigest"] {
        assert_eq!(repeated[member], copy[member], "{member}");
    }
    let (status, answer) = post(&stage, "ann", &format!("/api/jobs/{new}/cancel"), &order).await;
    assert_eq!((status, &answer["job"]["state"]), (200, &json!("cancelled")), "{answer}");
    let cancelled = recorded(&stage, new, "canceled").await;
    assert_eq!(events(&cancelled), ["replayed", "canceled"]);
    assert_eq!(cancelled["history"][1]["record"]["reportedBy"], "hub");
    let digest = copy["payloadDigest"].as_str().unwrap().trim_start_matches("sha256:");
    let changed =
        format!("UPDATE ojs_hub_ledger_job SET document = replace(document, '{digest}', '{}')", "0".repeat(64));
    server.query(&changed);
    let (status, answer) = post(&stage, "ann", &path, &order).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("digest_differs")), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("the ledger: expected sha256:0000"), "{answer}");
    let stored: usize = federation.regions.iter().map(|region| region.jobs().iter().count()).sum();
    assert_eq!(stored, 2, "nothing more was sent");
}

/// Types that the ledger is without; the rule stands before the setting of the hub.
const QUIET: &str = "routing: { rules: [{ match: { job_type: 'quiet.*' }, target: { ledger: 'off' } }] }
scheduling: { tenant_queues: [{ queue: shared, shards: 4 }] }";

/// Jobs that are sent in several ways, each described as its client has named it.
#[tokio::test]
async fn a_job_is_described_as_its_client_named_it_however_it_is_sent() {
    let mut stage = HubStage::new("");
    let more = settings(&stage);
    stage.set_more(&more);
    let _hub = stage.run().await;
    let (_federation, sidecar) = reporting(&stage, "one", QUIET).await;
    let of_header = async |queue: &str, args: &str| {
        let post = http::Request::post("/ojs/v1/jobs").header("content-type", "application/json");
        let options = json!({ "queue": queue });
        let body = format!(r#"{{"type":"mail.send","args":[{args}],"options":{options}}}"#);
        sidecar.client.send(post.header("x-ojs-tenant", "caller"), body).await.job_id()
    };
    let long = format!("\"{}\"", "x".repeat(20_000));
    let longer = format!("\"{}\"", "x".repeat(200_000));
    for (id, queue, tenant) in [
        (of_header("email", "").await, "email", "caller"),
        (of_header("shared", "").await, "shared", "caller"),
        (of_header("email", &long).await, "email", "caller"),
        (of_header("email", &longer).await, "email", "caller"),
        (sidecar.client.enqueue(job("shared", "acme")).await.job_id(), "shared", "acme"),
    ] {
        let copy = recorded(&stage, &id, "enqueued").await;
        let shown = [&copy["jobType"], &copy["queue"], &copy["tenant"]];
        assert_eq!(shown, [&json!("mail.send"), &json!(queue), &json!(tenant)], "{copy}");
        assert!(copy["payloadDigest"].is_string(), "{copy}");
    }
    let quiet =
        |padding: usize| json!({ "type": "quiet.x", "args": ["x".repeat(padding)], "meta": { "tenant_id": "acme" } });
    let short = sidecar.client.enqueue(quiet(0).to_string()).await.job_id();
    let long = sidecar.client.enqueue(quiet(20_000).to_string()).await.job_id();
    let batch = json!({ "jobs": [quiet(0), quiet(20_000)] }).to_string();
    let batch = sidecar.client.post("/ojs/v1/jobs/batch", batch).await.json();
    let of_batch = |place: usize| batch["jobs"][place]["id"].as_str().unwrap().to_owned();
    for id in [short, long, of_batch(0), of_batch(1)] {
        let path = format!("/v1/federation/jobs?job_id={id}");
        let mut record = Value::Null;
        eventually(&format!("the index has {id}"), async || {
            record = status(&stage, "eve", &Method::GET, &path).await.1;
            record["state"] == "available"
        })
        .await;
        let copy = &record["copies"][0];
        assert_eq!([&copy["type"], &copy["tenant"]], [&json!("quiet.x"), &json!("acme")], "{record}");
        assert_eq!(get(&stage, &format!("/api/jobs/{id}")).await.0, 404, "its rule keeps it out of the ledger");
    }
}
