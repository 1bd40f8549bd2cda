//! The index of jobs: what sidecars report, and what hubs of other regions get of it.

use http::Method;
use serde_json::{Value, json};

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, status};
use crate::support::{Process, Stage, command, eventually, pinned};

pub(super) const CANARY: &str = "canary-of-the-arguments";

/// The settings of a hub that keeps an index; the rule is the last one of `access`.
fn keeps(region: &str, reader: &str, more: &str) -> String {
    format!("  - {{ san: \"spiffe://test/hub\", role: hub, region: {reader} }}\nindex: {{ region: {region}{more} }}")
}

/// A federation whose sidecar reports jobs, and the sidecar.
pub(super) async fn reporting(stage: &HubStage, name: &str, region: &str, more: &str) -> (Stage, Process) {
    let section = stage.section(name).replace("hub: {", "hub: { report_jobs: true,");
    let federation = crate::support::Setup::default().yaml(&section).yaml(more).stage().await;
    let sidecar =
        Process::run(&federation.config, &[&INFO[..], &["--set", &format!("local_region={region}")]].concat()).await;
    stage.follows(name).await;
    (federation, sidecar)
}

async fn look_up(stage: &HubStage, path: &str) -> (u16, Value) {
    status(stage, "eve", &Method::GET, &format!("/v1/federation/jobs{path}")).await
}

/// The record of a job, once it has this state.
pub(super) async fn recorded(stage: &HubStage, job_id: &str, state: &str) -> Value {
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

/// A client of the sidecar sees the same record as one of the hub, under each prefix, and by the command.
async fn shows_clients(sidecar: &Process, federation_id: &str, id: &str, record: &Value) {
    for path in [
        format!("/v1/federation/jobs/{federation_id}"),
        format!("/ojs/v1/federation/jobs?job_id={id}"),
        format!("/ojs/federation/jobs?job_id={id}"),
    ] {
        let shown = sidecar.client.get(&path).await;
        assert_eq!((shown.status.as_u16(), &shown.json()), (200, record), "{path}");
    }
    let by_job = ["--job-id", id];
    for named in [&[federation_id][..], &by_job] {
        let line = [&["job"], named, &["--address", &sidecar.client_address]].concat();
        let ended = command(&line, &[], "");
        assert_eq!(ended.code, Some(0), "{}", ended.all());
        assert!(ended.stdout.contains(&format!("{federation_id}: available in us-east-1")), "{}", ended.stdout);
    }
    let none = command(&["job", "none", "--address", &sidecar.client_address], &[], "");
    assert!(none.code == Some(1) && none.all().contains("the index of the hub has no such job"), "{}", none.all());
    for (path, status, reason) in [
        ("/v1/federation/jobs/none", 404, "job_not_indexed"),
        ("/v1/federation/jobs", 400, "index_query"),
        ("/v1/federation/jobs/none?job_id=x", 400, "index_query"),
    ] {
        let refused = sidecar.client.get(path).await;
        assert_eq!((refused.status.as_u16(), refused.reason().as_str()), (status, reason), "{path}: {refused:?}");
    }
}

/// A job goes through its whole life, with and without the hub.
async fn follows_a_life(stage: &mut HubStage) {
    let mut hub = stage.run().await;
    let (federation, sidecar) = reporting(stage, "one", "us-east-1", "").await;
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
    shows_clients(&sidecar, &federation_id, &id, &record).await;
    assert_eq!(look_up(stage, "?job_id=none").await.0, 404);
    assert_eq!(look_up(stage, "").await.0, 400);
    let fetched = fetch(&sidecar).await;
    assert_eq!(fetched["id"], id.as_str());
    recorded(stage, &id, "active").await;
    // Without the hub nothing changes for workers, and the hub hears of it later.
    hub.kill();
    sidecar.wait_for_line("ojs.federation.hub_lost").await;
    let unheard = sidecar.client.get(&format!("/v1/federation/jobs/{federation_id}")).await;
    assert_eq!((unheard.status.as_u16(), unheard.reason().as_str()), (503, "hub_unavailable"), "{unheard:?}");
    assert!(unheard.headers.contains_key("retry-after"));
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
pub(super) fn hub_of(region: &str, reader: &str) -> HubStage {
    let stage = HubStage::new(&keeps(region, reader, ""));
    stage.client("peer", "spiffe://test/hub");
    stage
}

/// The settings of a hub that pulls from another one.
pub(super) fn pulls(region: &str, reader: &str, stage: &HubStage) -> String {
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

/// A record whose copies name each region that they came from, also that of the index.
fn by_origin((status, mut record): (u16, Value), here: &str) -> (u16, Value) {
    for copy in record["copies"].as_array_mut().into_iter().flatten().filter(|it| it["replicated_from"].is_null()) {
        copy["replicated_from"] = json!(here);
    }
    (status, record)
}

fn regions(record: &Value) -> Vec<&str> {
    record["copies"].as_array().unwrap().iter().map(|it| it["region"].as_str().unwrap()).collect()
}

/// Two regions, each with a hub that pulls from the other and a sidecar that reports to it.
pub(super) struct Two {
    pub(super) us: HubStage,
    pub(super) eu: HubStage,
    pub(super) of_us: Hub,
    of_eu: Hub,
    pub(super) in_us: Process,
    pub(super) in_eu: Process,
    pub(super) federations: [Stage; 2],
}

impl Two {
    async fn start(us: HubStage) -> Self {
        Self::start_with(us, "").await
    }

    /// `more` is added to the configuration of each sidecar.
    pub(super) async fn start_with(mut us: HubStage, more: &str) -> Self {
        let mut eu = hub_of("eu-west-1", "us-east-1");
        let (of_us, of_eu) = (us.run().await, eu.run().await);
        us.set_more(&pulls("us-east-1", "eu-west-1", &eu));
        eu.set_more(&pulls("eu-west-1", "us-east-1", &us));
        drop((of_us, of_eu));
        let (of_us, of_eu) = (us.again(0).await, eu.again(0).await);
        let (one, in_us) = reporting(&us, "one", "us-east-1", more).await;
        let (two, in_eu) = reporting(&eu, "two", "eu-west-1", more).await;
        Self { us, eu, of_us, of_eu, in_us, in_eu, federations: [one, two] }
    }

    /// The record of a job, once both hubs have the same one.
    pub(super) async fn equal(&self, id: &str) -> Value {
        let path = format!("?job_id={id}");
        eventually("both indexes have the same record", async || {
            let (one, two) = (look_up(&self.us, &path).await, look_up(&self.eu, &path).await);
            one.0 == 200 && by_origin(one, "us-east-1") == by_origin(two, "eu-west-1")
        })
        .await;
        look_up(&self.us, &path).await.1
    }

    async fn lags(&self) -> [Value; 3] {
        let health = self.in_us.client.get("/v1/federation/health").await.json();
        ["us-east-1", "eu-west-1", "ap-south-1"].map(|id| {
            let region = health["regions"].as_array().unwrap().iter().find(|it| it["id"] == id).unwrap();
            region["replication_lag_ms"].clone()
        })
    }

    /// Nothing of the arguments is in a file of either hub, and nothing of a bound queue in one of the other region.
    fn check_files(&self) {
        for (stage, is_us) in [(&self.us, true), (&self.eu, false)] {
            for name in ["hub.db", "hub.db-wal"] {
                let content = std::fs::read(stage.path(name)).unwrap_or_default();
                let has = |text: &str| memchr::memmem::find(&content, text.as_bytes()).is_some();
                assert!(!has(CANARY), "{name}");
                assert!(!is_us || !has("secret"), "{name}");
            }
        }
    }
}

pub(super) async fn enqueued(sidecar: &Process, queue: &str, meta: Value) -> String {
    let job = json!({ "type": "t", "args": [CANARY], "options": { "queue": queue }, "meta": meta });
    let answer = sidecar.client.enqueue(job.to_string()).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    id_of(&answer)
}

/// The same of a job with an id of the client's, which says nothing about its region, that is pinned.
pub(super) async fn enqueued_as(sidecar: &Process, id: &str, region: &str) {
    let job = json!({ "id": id, "type": "t", "args": [], "meta": { "ojs.federation.region": region } });
    let answer = sidecar.client.enqueue(job.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, region), "{answer:?}");
}

/// A worker gets the job of a queue and completes it.
pub(super) async fn completed(sidecar: &Process, queue: &str, id: &str) {
    let body = json!({ "queues": [queue], "worker_id": "w" }).to_string();
    let fetched = sidecar.client.post("/ojs/v1/workers/fetch", body).await.json();
    assert_eq!(fetched["jobs"][0]["id"], id, "{fetched}");
    let done = json!({ "job_id": id, "worker_id": "w" }).to_string();
    assert_eq!(sidecar.client.post("/ojs/v1/workers/ack", done).await.status, 200);
}

/// Each change of a job reaches the other hub, and both name the same winner of two copies.
async fn replicate(two: &Two) {
    let id = enqueued(&two.in_us, "email", json!({})).await;
    two.equal(&id).await;
    completed(&two.in_us, "email", &id).await;
    recorded(&two.us, &id, "completed").await;
    assert_eq!(changes(&two.equal(&id).await), ["created", "leased", "completed"]);
    let same = "01912e4a-7b3c-7def-8a12-abcdef123456";
    let meta = |region: &str| json!({ "ojs.federation.federation_id": same, "ojs.federation.region": region });
    enqueued(&two.in_us, "q", meta("us-east-1")).await;
    enqueued(&two.in_eu, "q", meta("eu-west-1")).await;
    eventually("both have both copies", async || {
        let path = format!("/{same}");
        let all = [look_up(&two.us, &path).await.1, look_up(&two.eu, &path).await.1];
        let are_there = all.iter().all(|it| it["copies"].is_array() && regions(it) == ["eu-west-1", "us-east-1"]);
        are_there && all[0]["region"] == all[1]["region"]
    })
    .await;
}

#[tokio::test]
async fn hubs_of_two_regions_have_the_same_index_and_name_the_same_winner() {
    replicate(&Two::start(hub_of("us-east-1", "eu-west-1")).await).await;
}

/// The tracking id of a job that a region has got.
fn stamp(job: &Value) -> &Value {
    let metas = [&job["meta"], &job["metadata"], &job["options"]["metadata"]];
    metas.into_iter().find_map(|it| it.get("ojs.federation.federation_id")).unwrap_or(&Value::Null)
}

/// Those of all jobs in a body that creates some.
fn stamps(body: &Value) -> Vec<&Value> {
    let several = [&body["jobs"], &body["steps"]].into_iter().find_map(Value::as_array);
    let one = || std::slice::from_ref(body.get("job_template").unwrap_or(body));
    several.map_or_else(one, Vec::as_slice).iter().map(stamp).collect()
}

#[tokio::test]
async fn an_active_active_federation_stamps_every_job_and_shows_those_of_each_region_in_all() {
    let two = Two::start_with(hub_of("us-east-1", "eu-west-1"), "topology: active-active").await;
    for sidecar in [&two.in_us, &two.in_eu] {
        let id = enqueued(sidecar, "email", json!({})).await;
        let record = two.equal(&id).await;
        assert!(record["federation_id"].is_string(), "{record}");
        let job = json!({ "type": "t", "args": [CANARY] });
        for (path, body) in [
            ("/ojs/v1/jobs/batch", json!({ "jobs": [job, job] })),
            ("/ojs/v1/workflows", json!({ "type": "chain", "name": "flow", "steps": [job, job] })),
            ("/ojs/v1/cron", json!({ "name": "nightly", "expression": "0 3 * * *", "job_template": job })),
        ] {
            let answer = sidecar.client.post(path, body.to_string()).await;
            assert!(answer.status.is_success(), "{path}: {answer:?}");
        }
    }
    for region in two.federations.iter().flat_map(|it| &it.regions) {
        for request in region.record().requests().iter().filter(|it| it.method == Method::POST) {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let stamps = stamps(&body);
            assert!(!stamps.is_empty() && stamps.iter().all(|it| it.is_string()), "{}: {body}", request.path);
        }
    }
}

#[tokio::test]
async fn a_hub_on_postgresql_replicates_with_one_on_sqlite() {
    let us = hub_of("us-east-1", "eu-west-1");
    let Some(server) = Postgres::start(&us.authority).await else { return };
    let record = Postgres::section(&[&server], &us.path(""), &us.path("hub.ca.pem"));
    replicate(&Two::start(us.with_record(record)).await).await;
}

#[tokio::test]
async fn a_bound_job_leaves_without_its_description_and_a_replica_not_at_all() {
    let two = Two::start(hub_of("us-east-1", "eu-west-1")).await;
    let bound = enqueued(&two.in_eu, "secret", json!({ "ojs.federation.region": "eu-west-1" })).await;
    let from_afar = enqueued(&two.in_us, "secret", json!({ "ojs.federation.region": "eu-west-1" })).await;
    assert_eq!(recorded(&two.eu, &bound, "available").await["copies"][0]["queue"], "secret");
    let replica = enqueued(&two.in_eu, "again", json!({ "ojs.federation.replicated_from": "ap-south-1" })).await;
    completed(&two.in_eu, "again", &replica).await;
    completed(&two.in_eu, "secret", &bound).await;
    for (id, state) in [(&bound, "completed"), (&from_afar, "available")] {
        let there = recorded(&two.us, id, state).await;
        assert_eq!((&there["copies"][0]["queue"], &there["copies"][0]["type"]), (&Value::Null, &Value::Null));
    }
    let after = enqueued(&two.in_eu, "q", json!({})).await;
    recorded(&two.eu, &replica, "completed").await;
    two.equal(&after).await;
    assert_eq!(look_up(&two.us, &format!("?job_id={replica}")).await.0, 404);
    two.check_files();
}

#[tokio::test]
async fn after_a_cut_the_other_hub_gets_all_and_the_lag_says_how_long_it_was() {
    let mut two = Two::start(hub_of("us-east-1", "eu-west-1")).await;
    eventually("there is no lag", async || lag(&two.of_us).await == Some(0.0)).await;
    eventually("the sidecar knows it", async || two.lags().await == [json!(0), json!(0), Value::Null]).await;
    two.of_eu.kill();
    let missed = enqueued(&two.in_eu, "q", json!({})).await;
    eventually("the lag grows", async || lag(&two.of_us).await.is_some_and(|lag| lag > 1.0)).await;
    eventually("the sidecar knows it", async || two.lags().await[1].as_u64().is_some_and(|ms| ms > 1_000)).await;
    assert!(two.of_us.log_has(&["hub_pull_failed", "eu-west-1"]));
    let _eu = two.eu.again(0).await;
    two.equal(&missed).await;
    eventually("the lag is over", async || lag(&two.of_us).await == Some(0.0)).await;
    two.check_files();
}
