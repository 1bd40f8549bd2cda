//! Quotas that operators put at a hub: orders and their refusals in both records, and the sidecars that keep to them together. Judged by the
//! jobs that reach the region.

mod spool;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::INFO;
use super::postgres::Postgres;
use super::stage::{Hub, HubStage, ask_with, status};
use crate::support::{Answer, Process, Stage, eventually};

const QUOTAS: &str = "/api/quotas";
const JOBS: &str = "/ojs/v1/jobs";
const GROUNDS: &str = "quota_reason=year%20end&quota_ticket=OPS-7&author=ana";

/// Puts a body at the first hub; the status and the document.
async fn put_text(stage: &HubStage, who: &str, query: &str, body: String) -> (u16, Value) {
    let path = format!("{QUOTAS}?{query}");
    let (head, document) = ask_with(stage, Some(who), &Method::PUT, &path, &[], Bytes::from(body)).await;
    (head.status.as_u16(), document)
}

/// Puts one quota.
async fn put(stage: &HubStage, quota: &Value) {
    let (code, done) = put_text(stage, "ann", GROUNDS, json!({ "quotas": [quota] }).to_string()).await;
    assert!(code == 200 && done["durable"] == true, "{done}");
}

/// The only quota, with its use.
async fn shown(stage: &HubStage) -> Value {
    status(stage, "eve", &Method::GET, QUOTAS).await.1["quotas"][0].clone()
}

/// A sidecar with a name and a journal of its own.
async fn sidecar(federation: &Stage, name: &str) -> Process {
    let journal = format!("journal.path={}", federation.files.path().join(format!("journal-{name}")).display());
    let name = format!("hub.name={name}");
    Process::run(&federation.config, &[&INFO[..], &["--set", &name, "--set", &journal]].concat()).await
}

/// A job of the tenant of most tests.
fn mail(more: &Value) -> String {
    let mut job = json!({ "type": "mail", "args": [], "meta": { "tenant_id": "acme" } });
    more.as_object().unwrap().iter().for_each(|(name, value)| job[name] = value.clone());
    job.to_string()
}

async fn send(sidecar: &Process) -> Answer {
    sidecar.client.enqueue(mail(&json!({}))).await
}

/// The bodies of the enqueues that reached the first region.
fn stored(federation: &Stage) -> Vec<Value> {
    let requests = federation.regions[0].record().requests_to(JOBS);
    let jobs = requests.iter().filter(|it| it.method == Method::POST && it.path == JOBS);
    jobs.map(|it| serde_json::from_slice(&it.body).unwrap()).collect()
}

/// Sends jobs by turns until so many have reached the region.
async fn fill(federation: &Stage, sidecars: &[&Process], count: usize) {
    eventually("the quota is used up", async || {
        for sidecar in sidecars {
            let answer = send(sidecar).await;
            assert!(answer.status == 201 || answer.status == 429, "{answer:?}");
        }
        stored(federation).len() >= count
    })
    .await;
}

#[track_caller]
fn check_refused_any(answer: &Answer) {
    answer.check_error(429, "rate_limited", "quota_exceeded");
}

#[track_caller]
fn check_refused(answer: &Answer) {
    let error = answer.check_error(429, "rate_limited", "quota_exceeded");
    assert_eq!(
        (&error["retryable"], &error["details"]["quota"]["job_type"]),
        (&json!(true), &json!("mail")),
        "{error}"
    );
}

/// Two sidecars share a quota, over the kill of all hubs and of both sidecars.
async fn share(stage: &HubStage, replicas: &[usize]) {
    let mut hubs: Vec<Hub> = Vec::new();
    for replica in replicas {
        hubs.push(stage.again(*replica).await);
    }
    let federation = stage.federation("one", "").await;
    let [one, two] = [sidecar(&federation, "one").await, sidecar(&federation, "two").await];
    put(stage, &json!({ "tenant": "acme", "jobType": "mail", "maxPerHour": 7, "burst": 7 })).await;
    eventually("both sidecars keep to it", async || {
        let shown = shown(stage).await;
        shown["sidecars"] == 2 && shown["granted"] == 7
    })
    .await;
    // A job that its region refuses takes none.
    let answer = FaultAnswer::error_document(StatusCode::UNPROCESSABLE_ENTITY, "unsupported");
    federation.regions[0].faults().add(When::enqueue().next(3), Fault::Answer { answer, store: false });
    // The other sidecar may have all tokens at first.
    eventually("the region has refused three jobs", async || {
        send(&one).await;
        stored(&federation).len() == 3
    })
    .await;
    federation.regions[0].record().clear();
    fill(&federation, &[&one, &two], 7).await;
    for sidecar in [&one, &two] {
        let refused = send(sidecar).await;
        check_refused(&refused);
    }
    eventually("the hub knows of all jobs", async || shown(stage).await["usedInLastHour"] == 7).await;
    eventually("the sidecar knows when there is a token", async || send(&one).await.retry_after() > 3_000).await;
    // Other tenants and types are not counted.
    let other = one.client.enqueue(mail(&json!({ "meta": { "tenant_id": "other" } }))).await;
    assert_eq!(other.status, 201, "{other:?}");
    hubs.iter_mut().for_each(Hub::kill);
    hubs.clear();
    drop((one, two));
    let [one, two] = [sidecar(&federation, "one").await, sidecar(&federation, "two").await];
    check_refused(&send(&one).await);
    for replica in replicas {
        hubs.push(stage.again(*replica).await);
    }
    stage.follows("one").await;
    stage.follows("two").await;
    eventually("both sidecars were told", async || {
        let mut waits = Vec::new();
        for sidecar in [&one, &two] {
            let refused = send(sidecar).await;
            check_refused(&refused);
            waits.push(refused.retry_after());
        }
        waits.iter().all(|wait| *wait > 3_000)
    })
    .await;
    assert_eq!(stored(&federation).len(), 8);
    let shown = shown(stage).await;
    assert_eq!((&shown["usedInLastHour"], &shown["granted"]), (&json!(7), &json!(0)), "{shown}");
    let metrics = String::from_utf8(one.admin.get("/metrics").await.body.to_vec()).unwrap();
    let refusals = metrics.lines().filter(|line| line.starts_with("ojs_federation_refusals_total{"));
    let mut counted = refusals.filter(|line| line.contains("quota_exceeded"));
    assert!(counted.any(|line| !line.ends_with(" 0")), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_share_a_quota_and_no_kill_gives_more_of_it() {
    share(&HubStage::new(""), &[0]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sidecars_of_two_hubs_on_postgresql_share_a_quota_and_no_kill_gives_more_of_it() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    share(&stage.on_record(record), &[0, 1]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_beyond_its_quota_is_delayed_by_its_server_until_there_is_a_token() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    let one = sidecar(&federation, "one").await;
    put(&stage, &json!({ "tenant": "acme", "maxPerHour": 3, "burst": 3, "overLimit": "delay" })).await;
    eventually("the sidecar has tokens", async || shown(&stage).await["granted"] == 3).await;
    // Until it has later tokens, a further job is refused.
    eventually("a job is delayed", async || {
        let answer = send(&one).await;
        assert!(answer.status == 201 || answer.status == 429, "{answer:?}");
        stored(&federation).len() == 4
    })
    .await;
    let jobs = stored(&federation);
    let due = |job: &Value| job["scheduled_at"].as_str().map(str::to_owned);
    assert!(jobs[..3].iter().all(|job| due(job).is_none() && job["options"].is_null()), "{jobs:?}");
    let first = due(&jobs[3]).expect("the fourth job has a time");
    assert_eq!(jobs[3]["options"]["scheduled_at"], first.as_str(), "{}", jobs[3]);
    // None where the sidecar has reserved all tokens of the next hours for the jobs that were refused.
    let next = shown(&stage).await["nextEligible"].clone();
    assert!(next.is_null() || next.as_str().is_some_and(|next| next >= first.as_str()), "{next} {first}");
    // A job of a later time keeps that; one of an earlier time does not.
    for (own, keeps) in [("2099-01-01T00:00:00Z", true), ("2020-01-01T00:00:00Z", false)] {
        let job = mail(&json!({ "options": { "delay_until": own } }));
        eventually("the job is taken", async || one.client.enqueue(job.clone()).await.status == 201).await;
        let last = stored(&federation).pop().unwrap();
        assert_eq!(last["options"]["delay_until"] == own, keeps, "{last}");
        assert_eq!(last["scheduled_at"].is_null(), keeps, "{last}");
    }
    // A time that this program cannot read.
    let odd = one.client.enqueue(mail(&json!({ "scheduled_at": "+PT5S" }))).await;
    odd.check_error(429, "rate_limited", "quota_exceeded");
    // All jobs of a batch.
    let batch = json!({ "jobs": [serde_json::from_str::<Value>(&mail(&json!({}))).unwrap(), serde_json::from_str::<Value>(&mail(&json!({}))).unwrap()] });
    eventually("the batch is taken", async || {
        one.client.post("/ojs/v1/jobs/batch", batch.to_string()).await.status == 201
    })
    .await;
    let requests = federation.regions[0].record().requests_to("/ojs/v1/jobs/batch");
    let sent: Value = serde_json::from_slice(&requests.last().unwrap().body).unwrap();
    let times: Vec<Option<String>> = sent["jobs"].as_array().unwrap().iter().map(due).collect();
    assert!(times.iter().all(Option::is_some) && times[0] <= times[1], "{sent}");
    eventually("the hub shows them", async || shown(&stage).await["later"].as_u64().is_some_and(|later| later >= 5))
        .await;
    let metrics = String::from_utf8(one.admin.get("/metrics").await.body.to_vec()).unwrap();
    assert!(metrics.contains("ojs_federation_quota_delayed_jobs_total 4"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_that_the_journal_answers_takes_no_token_and_is_answered_without_one() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    let one = sidecar(&federation, "one").await;
    put(&stage, &json!({ "maxPerHour": 2, "burst": 2 })).await;
    eventually("the sidecar has tokens", async || shown(&stage).await["granted"] == 2).await;
    let keyed = || one.client.send(Request::post(JOBS).header("idempotency-key", "k-1"), mail(&json!({})));
    let first = keyed().await;
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(keyed().await.status, 201);
    assert_eq!(send(&one).await.status, 201, "the repetition took no token");
    eventually("the quota is used up", async || send(&one).await.status == 429).await;
    let again = keyed().await;
    assert_eq!((again.status, again.json()["id"].clone()), (first.status, first.json()["id"].clone()));
    assert_eq!(stored(&federation).len(), 2);
    // A key that was refused is free for the same job.
    let other = || one.client.send(Request::post(JOBS).header("idempotency-key", "k-2"), mail(&json!({})));
    for _ in 0..2 {
        check_refused_any(&other().await);
    }
    put(&stage, &json!({ "maxPerHour": 20, "burst": 20 })).await;
    eventually("the key has its job", async || other().await.status == 201).await;
    assert_eq!(other().await.status, 201);
    assert_eq!(stored(&federation).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_hub_a_sidecar_holds_refuses_or_keeps_to_a_limit_of_its_own() {
    let stage = HubStage::new("");
    let mut hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    let one = sidecar(&federation, "one").await;
    let quota = |job_type: &str, on_loss: &str| json!({ "jobType": job_type, "maxPerHour": 4, "burst": 4, "onHubLoss": on_loss });
    let mut local = quota("local", "local");
    (local["localPerHour"], local["maxPerHour"], local["burst"]) = (json!(2), json!(1), json!(1));
    let mut refuse = quota("refuse", "refuse");
    (refuse["maxPerHour"], refuse["burst"]) = (json!(100_000), json!(100_000));
    let body = json!({ "quotas": [quota("hold", "hold"), refuse, local] });
    assert_eq!(put_text(&stage, "ann", GROUNDS, body.to_string()).await.0, 200);
    let of = async |name: &str| one.client.enqueue(mail(&json!({ "type": name }))).await;
    eventually("the sidecar has tokens", async || {
        let all = status(&stage, "eve", &Method::GET, QUOTAS).await.1;
        [0, 1, 2].iter().all(|place| all["quotas"][*place]["granted"].as_u64().is_some_and(|granted| granted > 0))
    })
    .await;
    assert_eq!(of("refuse").await.status, 201);
    hub.kill();
    eventually("the loss is noticed", async || of("refuse").await.status == 429).await;
    // The sidecar spends the rest of its block.
    for _ in 0..4 {
        assert_eq!(of("hold").await.status, 201);
    }
    of("hold").await.check_error(429, "rate_limited", "quota_exceeded");
    // The hub's token, and then those of its own limit.
    let count = |name: &str| stored(&federation).iter().filter(|it| it["type"] == name).count();
    eventually("the sidecar has its own limit", async || {
        of("local").await;
        count("local") >= 2
    })
    .await;
    of("local").await.check_error(429, "rate_limited", "quota_exceeded");
    let hub = stage.run().await;
    stage.follows("one").await;
    eventually("the hub grants again", async || of("refuse").await.status == 201).await;
    assert_eq!(of("hold").await.status, 429);
    assert_eq!(count("hold"), 4);
    drop(hub);
}

#[tokio::test]
async fn a_wrong_set_is_refused_with_its_member_and_changes_nothing() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    for (query, body, words) in [
        (GROUNDS, json!({}), ["`quotas`", "array"]),
        (GROUNDS, json!({ "quotas": [{ "maxPerHour": 0 }] }), ["`quotas[0].maxPerHour`", "1 to"]),
        (GROUNDS, json!({ "quotas": [{ "maxActive": 0 }] }), ["`quotas[0].maxActive`", "1 to 1000000"]),
        (GROUNDS, json!({ "quotas": [{ "maxPerHour": 5, "queues": ["q"] }] }), ["`quotas[0].queues`", "maxActive"]),
        (
            GROUNDS,
            json!({ "quotas": [{ "maxActive": 1, "queues": ["q"] }, { "tenant": "a", "maxActive": 1, "queues": ["q"] }] }),
            ["`quotas[1].queues[0]`", "quotas[0].queues"],
        ),
        (GROUNDS, json!({ "quotas": [{ "profile": "x" }] }), ["`quotas[0].profile`", "profiles"]),
        ("quota_ticket=t&author=a", json!({ "quotas": [] }), ["`quota_reason`", "text"]),
        ("quota_reason=r&author=a", json!({ "quotas": [] }), ["`quota_ticket`", "text"]),
        ("quota_reason=r&quota_ticket=t", json!({ "quotas": [] }), ["`author`", "text"]),
        ("reason=r", json!({ "quotas": [] }), ["`quota_reason`", "query"]),
    ] {
        let (code, refused) = put_text(&stage, "ann", query, body.to_string()).await;
        let message = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(code == 400 && words.iter().all(|word| message.contains(word)), "{query} {body}: {refused}");
    }
    let (code, refused) = put_text(&stage, "eve", GROUNDS, json!({ "quotas": [] }).to_string()).await;
    assert!(code == 403 && refused.to_string().contains("scope quota"), "{refused}");
    assert_eq!(put_text(&stage, "pod", GROUNDS, json!({ "quotas": [] }).to_string()).await.0, 403);
    let (code, listed) = status(&stage, "pod", &Method::GET, QUOTAS).await;
    assert_eq!((code, &listed["quotas"]), (200, &json!([])), "{listed}");
    let forgets = HubStage::new("").with_record(String::new());
    let _other = forgets.run().await;
    let (code, refused) =
        put_text(&forgets, "ann", GROUNDS, json!({ "quotas": [{ "maxPerHour": 5 }] }).to_string()).await;
    assert!(code == 409 && refused.to_string().contains("record.path"), "{refused}");
}

#[tokio::test]
async fn commands_put_and_list_quotas_and_each_change_has_its_row() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let (file, body) = (
        stage.path("quotas.json"),
        json!({
            "profiles": { "small": { "maxPerHour": 1_000 } },
            "quotas": [{ "tenant": "acme", "jobType": "mail", "profile": "small", "onHubLoss": "local", "localPerHour": 60 }],
        }),
    );
    std::fs::write(&file, body.to_string()).unwrap();
    let order = ["quotas", "put", file.to_str().unwrap()];
    let done = stage.order("ann", &order).await;
    assert!(done.code == Some(0) && done.stdout.contains("put: 1 quotas"), "{}", done.all());
    let again = stage.order("ann", &order).await;
    assert!(again.code == Some(0) && again.stdout.contains("there already"), "{}", again.all());
    let table = stage.command("eve", &["quotas", "list"]).await;
    assert!(table.stdout.contains("acme") && table.stdout.contains("1000"), "{}", table.all());
    let listed = status(&stage, "eve", &Method::GET, QUOTAS).await.1;
    let quota = &listed["quotas"][0];
    assert_eq!((&quota["burst"], &quota["profile"], &quota["advisory"]), (&json!(17), &json!("small"), &json!(true)));
    assert_eq!(
        quota["advisoryReasons"],
        json!(["scheduled_by_client", "tenant_by_client", "local_without_hub"]),
        "{listed}"
    );
    assert_eq!((&listed["quota_reason"], &listed["author"]), (&json!("storm ahead"), &json!("ana")), "{listed}");
    let (_, trail) = status(&stage, "ann", &Method::GET, "/v1/hub/audit").await;
    let rows = trail["rows"].as_array().unwrap();
    assert!(rows.len() == 1 && rows[0]["action"] == "quotas_put", "a repetition has no row: {trail}");
    assert_eq!((&rows[0]["reason"], &rows[0]["ticket"]), (&json!("storm ahead"), &json!("OPS-7")), "{trail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_within_its_quota_and_one_that_none_counts_reach_the_region_byte_for_byte() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = stage.federation("one", "routing: { stamp: never, mint_id: false }").await;
    let one = sidecar(&federation, "one").await;
    let bodies = ["acme", "other"].map(|tenant| {
        format!(r#"{{ "type":"mail","args":[1.50, "\u00e9"] ,"meta":{{"tenant_id":"{tenant}"}},"options":{{"scheduled_at":null}} }}"#)
    });
    for is_on in [false, true] {
        if is_on {
            put(&stage, &json!({ "tenant": "acme", "maxPerHour": 5, "burst": 5, "overLimit": "delay" })).await;
            eventually("the sidecar has tokens", async || shown(&stage).await["granted"] == 5).await;
        }
        for body in &bodies {
            assert_eq!(one.client.enqueue(body.clone()).await.status, 201);
            let sent = federation.regions[0].record().requests_to(JOBS).pop().unwrap();
            assert_eq!(sent.body, body.as_bytes(), "{is_on}");
        }
    }
}
