//! Quotas that bound the jobs which are active at once: the sidecars keep to them together, through kills of the hub and of sidecars. Judged by the
//! active jobs in the region.

mod mixed;

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use ojs_testbed::{DemoRegion, JobState};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::INFO;
use super::history::Draw;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, ask_with, status};
use crate::support::{Answer, Client, Process, Stage, eventually, rises};

const QUOTAS: &str = "/api/quotas";
const GROUNDS: &str = "quota_reason=year%20end&quota_ticket=OPS-7&author=ana";
const FETCH: &str = "/ojs/v1/workers/fetch";
const ACK: &str = "/ojs/v1/workers/ack";
const SIDECARS: usize = 3;
const WORKERS: usize = 3;
/// The leases of greedy workers, and those of single calls. Units: milliseconds.
const LEASE_MS: u64 = 3_000;
const LONG_MS: u64 = 60_000;
const SHARDED: &str =
    "scheduling: { tenant_queues: [{ queue: email, shards: 8, weights: { acme: 1, globex: 1, initech: 1 } }] }";

async fn put(stage: &HubStage, quotas: &Value) {
    let body = Bytes::from(json!({ "quotas": quotas }).to_string());
    let path = format!("{QUOTAS}?{GROUNDS}");
    let (head, done) = ask_with(stage, Some("ann"), &Method::PUT, &path, &[], body).await;
    assert_eq!(head.status, 200, "{done}");
}

/// A quota with its use.
async fn shown(stage: &HubStage, place: usize) -> Value {
    status(stage, "eve", &Method::GET, QUOTAS).await.1["quotas"][place].clone()
}

/// A sidecar with a name and a journal of its own.
async fn sidecar(federation: &Stage, name: &str) -> Process {
    let journal = format!("journal.path={}", federation.files.path().join(format!("journal-{name}")).display());
    let name = format!("hub.name={name}");
    Process::run(&federation.config, &[&INFO[..], &["--set", &name, "--set", &journal]].concat()).await
}

fn asked(queues: &[&str], count: usize, lease_ms: u64) -> String {
    json!({ "queues": queues, "count": count, "worker_id": "w", "visibility_timeout_ms": lease_ms }).to_string()
}

async fn fetch(sidecar: &Process, queues: &[&str], count: usize) -> Vec<(String, String)> {
    let answer = sidecar.client.post(FETCH, asked(queues, count, LONG_MS)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    jobs(&answer)
}

/// The ids and the queues of jobs.
fn jobs(answer: &Answer) -> Vec<(String, String)> {
    let document = answer.json();
    let text = |job: &Value, name: &str| job[name].as_str().unwrap().to_owned();
    let jobs = document["jobs"].as_array().into_iter().flatten();
    jobs.map(|job| (text(job, "id"), text(job, "queue"))).collect()
}

async fn ack(sidecar: &Process, id: &str) {
    let answer = sidecar.client.post(ACK, format!(r#"{{"job_id":"{id}","worker_id":"w"}}"#)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// A sidecar with greedy workers, which end with it.
struct Member {
    name: String,
    process: Option<Process>,
    workers: JoinSet<()>,
    queues: &'static [&'static str],
}

impl Member {
    async fn begin(federation: &Stage, name: String, queues: &'static [&'static str]) -> Self {
        let mut member = Self { name, process: None, workers: JoinSet::new(), queues };
        member.again(federation).await;
        member
    }

    async fn again(&mut self, federation: &Stage) {
        let process = sidecar(federation, &self.name).await;
        // Until it has heard of quotas once it bounds nothing; then it knows them by its journal.
        process.wait_for_line("ojs.federation.hub_quotas_in_force").await;
        for number in 0..WORKERS {
            self.workers.spawn(work(process.client, number, self.queues));
        }
        self.process = Some(process);
    }

    /// kill -9, of the sidecar and of its workers.
    async fn kill(&mut self) {
        self.workers.shutdown().await;
        self.process = None;
    }
}

/// Fetches more jobs than there may be, works on each for some time, and acknowledges it.
async fn work(client: Client, number: usize, queues: &[&str]) {
    let mut draw = Draw(u64::from(client.address().port()) * 10 + number as u64);
    loop {
        let came = client.post(FETCH, asked(queues, 4, LEASE_MS)).await;
        assert_eq!(came.status, 200, "{came:?}");
        let came = jobs(&came);
        for (id, _) in &came {
            tokio::time::sleep(Duration::from_millis(5 + draw.below(30) as u64)).await;
            let answer = client.post(ACK, format!(r#"{{"job_id":"{id}","worker_id":"w"}}"#)).await;
            assert!(answer.status.is_success() || answer.status == 404 || answer.status == 409, "{answer:?}");
        }
        // A worker that got nothing asks again after a moment.
        if came.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn done(region: &DemoRegion) -> usize {
    region.jobs().count_in(JobState::Completed)
}

/// Waits until so many more jobs are done.
async fn go_on(region: &DemoRegion, count: usize) {
    let target = (done(region) + count).min(region.jobs().iter().count());
    rises("jobs are done", target, async || done(region)).await;
}

async fn run_all(stage: &HubStage, replicas: &[usize]) -> Vec<Hub> {
    let mut hubs = Vec::new();
    for replica in replicas {
        hubs.push(stage.again(*replica).await);
    }
    hubs
}

/// Hubs and sidecars are killed while greedy workers work, until every job is done once. `check`: that the bound was kept.
async fn work_through_kills(
    stage: &HubStage,
    federation: &Stage,
    (replicas, mut hubs): (&[usize], Vec<Hub>),
    queues: &'static [&'static str],
    check: impl Fn(&DemoRegion),
) {
    let region = &federation.regions[0];
    let mut members = Vec::new();
    for number in 0..SIDECARS {
        members.push(Member::begin(federation, format!("s{number}"), queues).await);
    }
    go_on(region, 30).await;
    // The slots last for a while without any hub.
    hubs.iter_mut().for_each(Hub::kill);
    go_on(region, 10).await;
    members[0].kill().await;
    check(region);
    let _hubs = run_all(stage, replicas).await;
    go_on(region, 20).await;
    members[0].again(federation).await;
    members[1].kill().await;
    go_on(region, 20).await;
    check(region);
    members[1].again(federation).await;
    let all = region.jobs().iter().count();
    rises("all jobs are done", all, async || done(region)).await;
    check(region);
    let once = region.jobs().iter().filter(|job| job.acknowledged == 1).count();
    assert_eq!(once, all);
    for member in &mut members {
        let ended = member.workers.try_join_next();
        assert!(ended.is_none(), "a worker had another answer: {ended:?}");
        member.kill().await;
    }
}

/// A queue that a quota lists.
async fn of_a_queue(stage: &HubStage, replicas: &[usize]) {
    let hubs = run_all(stage, replicas).await;
    let federation = stage.federation("s0", "").await;
    put(stage, &json!([{ "jobType": "demo.load", "maxActive": 3, "queues": ["reports"] }])).await;
    federation.regions[0].fill("reports", 140);
    let check = |region: &DemoRegion| {
        let most = region.most_active("reports");
        assert!(most <= 3, "{most} jobs");
    };
    work_through_kills(stage, &federation, (replicas, hubs), &["reports"], check).await;
    assert_eq!(federation.regions[0].most_active("reports"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_jobs_of_a_listed_queue_are_active_than_the_quota_has_through_kills_of_the_hub_and_of_sidecars() {
    of_a_queue(&HubStage::new(""), &[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hubs_on_postgresql_grant_slots_of_one_quota() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    of_a_queue(&stage.on_record(record), &[0, 1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_jobs_of_a_tenant_are_active_in_its_shards_than_its_quota_has() {
    let stage = HubStage::new("");
    let hubs = run_all(&stage, &[0]).await;
    let federation = stage.federation("s0", SHARDED).await;
    let region = &federation.regions[0];
    put(&stage, &json!([{ "tenant": "acme", "maxActive": 2 }, { "tenant": "globex", "maxActive": 1 }])).await;
    let quota = shown(&stage, 0).await;
    assert_eq!((&quota["exact"], &quota["advisoryReasons"]), (&json!(false), &json!(["outside_of_shards"])), "{quota}");
    let one = sidecar(&federation, "one").await;
    one.wait_for_line("ojs.federation.hub_quotas_in_force").await;
    for (tenant, count) in [("acme", 40), ("globex", 20), ("initech", 60)] {
        let job = json!({ "type": "mail", "args": [tenant], "meta": { "tenant_id": tenant }, "options": { "queue": "email" } });
        let jobs: Vec<Value> = (0..count).map(|_| job.clone()).collect();
        let answer = one.client.post("/ojs/v1/jobs/batch", json!({ "jobs": jobs }).to_string()).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    drop(one);
    let shard = |region: &DemoRegion, tenant: &str| {
        let jobs = region.jobs();
        let queue = jobs.iter().find(|job| job.args.contains(tenant)).map(|job| job.queue.clone());
        queue.filter(|queue| queue.starts_with("email.ojs-")).unwrap()
    };
    let queues = ["acme", "globex", "initech"].map(|tenant| shard(region, tenant));
    let check = |region: &DemoRegion| {
        let most = [0, 1].map(|at| region.most_active(&queues[at]));
        assert!(most[0] <= 2 && most[1] <= 1, "{most:?}");
    };
    work_through_kills(&stage, &federation, (&[0], hubs), &["email"], check).await;
    let most = [0, 1, 2].map(|at| region.most_active(&queues[at]));
    assert!(most[0] == 2 && most[1] == 1 && most[2] > 2, "the tenant without a quota has no bound: {most:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_queue_of_the_same_fetch_has_the_rest_and_a_fetch_that_is_not_clear_is_refused() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    let region = &federation.regions[0];
    put(&stage, &json!([{ "jobType": "report", "maxActive": 3, "queues": ["reports"] }])).await;
    let quota = shown(&stage, 0).await;
    assert_eq!((&quota["exact"], &quota["advisory"]), (&json!(true), &json!(false)), "{quota}");
    region.fill("reports", 20);
    region.fill("default", 60);
    let one = sidecar(&federation, "one").await;
    one.wait_for_line("ojs.federation.hub_quotas_in_force").await;
    let mut came = Vec::new();
    eventually("the slots are taken", async || {
        came.extend(fetch(&one, &["reports"], 5).await);
        came.len() == 3
    })
    .await;
    eventually("the hub shows the active jobs", async || shown(&stage, 0).await["active"] == 3).await;
    let other = fetch(&one, &["reports", "default"], 5).await;
    assert!(other.len() == 5 && other.iter().all(|(_, queue)| queue == "default"), "{other:?}");
    let sent = region.record().requests_to(FETCH).pop().unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap()["queues"], json!(["default"]));
    ack(&one, &came[0].0).await;
    let mixed = fetch(&one, &["reports", "default"], 5).await;
    let of = |queue: &str| mixed.iter().filter(|it| it.1 == queue).count();
    assert_eq!((of("reports"), of("default")), (1, 4), "one slot was free");
    assert_eq!(region.most_active("reports"), 3);
    one.wait_for_line("ojs.federation.quota_active_full").await;
    let metrics = String::from_utf8(one.admin.get("/metrics").await.body.to_vec()).unwrap();
    let mut held = metrics.lines().filter(|it| it.starts_with("ojs_federation_quota_held_fetches_total{"));
    assert!(held.any(|it| it.contains("full") && !it.ends_with(" 0")), "{metrics}");
    for (body, field) in [
        (r#"{"queues":[],"count":1,"worker_id":"w"}"#, "queues"),
        (r#"{"queues":["reports"],"count":"many","worker_id":"w"}"#, "count"),
        (r#"{"queues":["reports"],"count":1,"worker_id":"w","visibility_timeout_ms":"3000"}"#, "visibility_timeout_ms"),
        (r#"{"queues":["reports"],"queues":["default"],"worker_id":"w"}"#, "queues"),
    ] {
        let answer = one.client.post(FETCH, body).await;
        assert!(answer.status == 400 && answer.json().to_string().contains(field), "{body}: {answer:?}");
    }
    // A longer lease than the hub has heard of waits for it.
    for (id, _) in came.iter().skip(1).chain(mixed.iter().filter(|it| it.1 == "reports")) {
        ack(&one, id).await;
    }
    eventually("a job with a long lease comes", async || {
        jobs(&one.client.post(FETCH, asked(&["reports"], 1, 600_000)).await).len() == 1
    })
    .await;
    // Without the quota nothing is bounded.
    put(&stage, &json!([])).await;
    eventually("the bound is lifted", async || fetch(&one, &["reports"], 9).await.len() == 9).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_without_queues_counts_the_active_jobs_and_bounds_none() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    put(&stage, &json!([{ "jobType": "demo.load", "maxPerHour": 100, "maxActive": 2, "onHubLoss": "local", "localPerHour": 5, "localActive": 1 }]))
        .await;
    federation.regions[0].fill("default", 5);
    let one = sidecar(&federation, "one").await;
    one.wait_for_line("ojs.federation.hub_quotas_in_force").await;
    assert_eq!(fetch(&one, &["default"], 5).await.len(), 5);
    eventually("the hub shows them", async || shown(&stage, 0).await["active"] == 5).await;
    let quota = shown(&stage, 0).await;
    assert_eq!(
        (&quota["exact"], &quota["advisoryReasons"]),
        (&json!(false), &json!(["scheduled_by_client", "local_without_hub", "shared_queues"])),
        "{quota}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_hub_a_sidecar_hands_out_as_each_quota_says() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    let region = &federation.regions[0];
    let quota = |name: &str| json!({ "jobType": name, "maxActive": 4, "queues": [name], "onHubLoss": name });
    let mut local = quota("local");
    local["localActive"] = json!(1);
    put(&stage, &json!([quota("hold"), local, quota("refuse")])).await;
    ["hold", "local", "refuse", "free"].iter().for_each(|queue| region.fill(queue, 30));
    let one = sidecar(&federation, "one").await;
    one.wait_for_line("ojs.federation.hub_quotas_in_force").await;
    let get = async |process: &Process, queue: &str| {
        let came = fetch(process, &[queue], 1).await;
        for (id, _) in &came {
            ack(process, id).await;
        }
        came.len()
    };
    for queue in ["hold", "local", "refuse"] {
        eventually("the slots are granted", async || get(&one, queue).await == 1).await;
    }
    hub.kill();
    eventually("the loss is noticed", async || get(&one, "refuse").await == 0).await;
    assert_eq!((get(&one, "hold").await, get(&one, "free").await), (1, 1), "the last slots are held");
    drop(one);
    // It knows the quotas by its journal.
    let again = sidecar(&federation, "one").await;
    assert_eq!(fetch(&again, &["hold", "refuse"], 5).await, []);
    assert_eq!(fetch(&again, &["local"], 5).await.len(), 1);
    assert_eq!(fetch(&again, &["local", "free"], 5).await.len(), 5, "the other queue has all of it");
    assert_eq!(region.most_active("local"), 1);
    let _hub = stage.run().await;
    eventually("the hub grants again", async || get(&again, "refuse").await == 1).await;
}
