//! All jobs of the ledger with some status are run again by one order: each once, also over kills of the hub.

use std::fs;

use futures_util::stream::{StreamExt as _, iter};
use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::{Value, json};

use super::{BEA, Bed, ended, why};
use crate::hub::INFO;
use crate::hub::ledger::{get, recorded};
use crate::hub::stage::{Hub, HubStage, post};
use crate::hub::views::regions;
use crate::support::{Process, Setup, Stage, eventually, rises};

/// Jobs of one batch, and of one FETCH.
const AT_ONCE: usize = 100;
/// Calls of workers at once.
const CALLS: usize = 8;

/// The settings of a hub with a ledger, which reaches the regions whose line holds.
fn settings(hubs: &HubStage, stage: &Stage, is_reached: impl Fn(&str) -> bool) -> String {
    let key = hubs.path("audit.key");
    let ledger = format!("index: {{ region: us-east-1 }}\nledger: {{}}\naudit: {{ key: {key:?}, log: hub.test }}\n");
    let regions = regions(stage, |_| None);
    let regions: Vec<&str> = regions.lines().filter(|line| is_reached(line)).collect();
    format!("{BEA}{ledger}{}\n", regions.join("\n"))
}

/// A hub with a ledger that reaches all regions, and a sidecar that reports to it.
pub(super) async fn bed() -> (Bed, Hub, Process) {
    let mut hubs = HubStage::new("");
    let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    fs::write(hubs.path("audit.key"), pair.serialize_pem()).unwrap();
    fs::write(hubs.path("audit.pub"), pair.public_key_pem()).unwrap();
    let section = hubs.section("one").replace("hub: {", "hub: { report_jobs: true, ledger: metadata,");
    let stage = Setup::default().yaml(&section).stage().await;
    hubs.client("bea", "spiffe://test/ops/bea");
    let more = settings(&hubs, &stage, |_| true);
    hubs.set_more(&more);
    let hub = hubs.run().await;
    let sidecar = Process::run(&stage.config, &INFO).await;
    hubs.follows("one").await;
    (Bed { hubs, stage }, hub, sidecar)
}

/// Enqueues jobs of a tenant, and returns their ids.
pub(super) async fn enqueued(sidecar: &Process, queue: &str, tenant: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for first in (0..count).step_by(AT_ONCE) {
        let job = |number: usize| {
            json!({
                "type": "mail.send", "args": [tenant, number], "meta": { "tenant_id": tenant },
                "options": { "queue": queue, "retry": { "max_attempts": 1 } },
            })
        };
        let jobs: Vec<_> = (first..count.min(first + AT_ONCE)).map(job).collect();
        let made = sidecar.client.post("/ojs/v1/jobs/batch", json!({ "jobs": jobs }).to_string()).await.json();
        ids.extend(made["jobs"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()));
    }
    ids
}

/// A worker takes all jobs of a queue, and says of each that it has failed.
pub(super) async fn all_fail(sidecar: &Process, queue: &str) {
    let fetch = json!({ "queues": [queue], "worker_id": "w1", "count": AT_ONCE }).to_string();
    loop {
        let leased = sidecar.client.post("/ojs/v1/workers/fetch", fetch.clone()).await.json();
        let jobs = leased["jobs"].as_array().unwrap();
        if jobs.is_empty() {
            return;
        }
        let fail = async |job: &Value| {
            let body = json!({ "job_id": job["id"], "worker_id": "w1", "error": { "code": "x", "message": "x" } });
            let answer = sidecar.client.post("/ojs/v1/workers/nack", body.to_string()).await;
            assert_eq!(answer.status, 200, "{answer:?}");
        };
        iter(jobs).map(fail).buffer_unordered(CALLS).collect::<Vec<()>>().await;
    }
}

/// Waits until the ledger lists so many jobs that failed for good, of all tenants.
pub(super) async fn dead_lettered(bed: &Bed, count: usize) {
    rises("the ledger has them as dead-lettered", count, async || {
        let (mut found, mut path) = (0, "/api/jobs?status=dead_lettered&limit=500".to_owned());
        loop {
            let (code, page) = get(&bed.hubs, &path).await;
            assert_eq!(code, 200, "{page}");
            found += page["jobs"].as_array().unwrap().len();
            let Some(next) = page["next"].as_str() else { return found };
            path = format!("/api/jobs?status=dead_lettered&limit=500&cursor={next}");
        }
    })
    .await;
}

pub(super) fn order(filter: &Value, more: &Value) -> Value {
    let mut body =
        json!({ "filter": filter, "backfill_reason": "bad release", "backfill_ticket": "OPS-7", "author": "bea" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn each_of_a_thousand_jobs_of_a_filter_is_run_again_once_over_kills_of_the_hub() {
    const COUNT: usize = 1_000;
    let (bed, mut hub, sidecar) = bed().await;
    let meant = enqueued(&sidecar, "failing", "acme", COUNT).await;
    enqueued(&sidecar, "failing", "other", 20).await;
    all_fail(&sidecar, "failing").await;
    let waiting = enqueued(&sidecar, "waiting", "acme", 5).await;
    dead_lettered(&bed, COUNT + 20).await;
    let filter =
        json!({ "status": "dead_lettered", "tenant": "acme", "jobType": "mail.send", "from": "2020-01-01T00:00:00Z" });
    let body = order(&filter, &json!({ "replay_id": "fix", "per_second": 1000 }));
    let (code, first) = post(&bed.hubs, "bea", "/api/replays", &body).await;
    assert_eq!((code, &first["replay"]["jobs"]), (200, &COUNT.into()), "{first}");
    let shown = r#"{"from":"2020-01-01T00:00:00.000Z","jobType":"mail.send","status":"dead_lettered","tenant":"acme"}"#;
    assert_eq!(first["replay"]["filter"], shown);
    for some in [COUNT / 5, COUNT / 2, COUNT * 4 / 5] {
        rises("more are run again", some, async || bed.replayed().len()).await;
        hub.kill();
        hub = bed.hubs.run().await;
        // The same order under its name is the replay that is under way, whatever the filter finds by now.
        let (code, again) = post(&bed.hubs, "bea", "/api/replays", &body).await;
        assert_eq!((code, &again["replay"]["id"], &again["replay"]["jobs"]), (200, &"fix".into(), &COUNT.into()));
    }
    let end = ended(&bed, "fix").await;
    assert_eq!(end["replay"]["steps"], json!({ "replayed": COUNT }), "{}", end["replay"]);
    let replayed = bed.replayed();
    assert_eq!(replayed.len(), COUNT, "no job of another tenant or status");
    assert!(meant.iter().all(|id| replayed[id].len() == 1) && waiting.iter().all(|id| !replayed.contains_key(id)));
    let rows = bed.rows().await;
    assert!(
        rows.contains(&(
            "replay_ordered".to_owned(),
            format!("replay fix of {COUNT} jobs at 1000 a second, all with {shown}")
        )),
        "{rows:?}"
    );
}

#[tokio::test]
async fn a_filter_is_tried_without_sending_and_one_that_finds_nothing_is_refused() {
    let (bed, _hub, sidecar) = bed().await;
    enqueued(&sidecar, "failing", "acme", 3).await;
    all_fail(&sidecar, "failing").await;
    dead_lettered(&bed, 3).await;
    let sent = bed.counts(&Method::POST);
    let filter = json!({ "status": "dead_lettered", "tenant": "acme" });
    let body = order(&filter, &json!({ "replay_id": "try", "dry_run": true }));
    let (code, tried) = post(&bed.hubs, "bea", "/api/replays?region=us-east-1", &body).await;
    assert_eq!((code, &tried["replay"]["jobs"]), (200, &3.into()), "{tried}");
    let end = ended(&bed, "try").await;
    assert_eq!(end["replay"]["steps"], json!({ "would_replay": 3 }), "{end}");
    for (path, filter) in [
        ("/api/replays?region=eu-west-1", filter),
        ("/api/replays", json!({ "status": "dead_lettered", "tenant": "none" })),
        ("/api/replays", json!({ "status": "dead_lettered", "to": "2020-01-01T00:00:00Z" })),
    ] {
        let (code, refused) = post(&bed.hubs, "bea", path, &order(&filter, &json!({}))).await;
        assert_eq!((code, &refused["error"]["code"]), (404, &"not_found".into()), "{path} {filter}: {refused}");
    }
    assert_eq!(bed.counts(&Method::POST), sent);
}

#[tokio::test]
async fn a_filter_needs_a_ledger_and_the_regions_of_its_jobs() {
    let (bed, hub) = Bed::new().await;
    let body = order(&json!({ "status": "dead_lettered" }), &json!({}));
    let (code, refused) = post(&bed.hubs, "bea", "/api/replays", &body).await;
    assert_eq!((code, &refused["error"]["code"]), (404, &"no_ledger".into()), "{refused}");
    drop(hub);
    let (mut bed, hub, sidecar) = self::bed().await;
    enqueued(&sidecar, "failing", "acme", 1).await;
    all_fail(&sidecar, "failing").await;
    dead_lettered(&bed, 1).await;
    drop(hub);
    // The region of the job is no longer among those of the hub.
    let more = settings(&bed.hubs, &bed.stage, |line| !line.contains("id: us-east-1,"));
    bed.hubs.set_more(&more);
    let _hub = bed.hubs.run().await;
    let (code, refused) = post(&bed.hubs, "bea", "/api/replays", &body).await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(code == 400 && message.contains("is in us-east-1, which is not among"), "{refused}");
}

#[tokio::test]
async fn a_job_with_copies_in_several_regions_is_run_again_where_the_order_names_one() {
    let (bed, _hub, sidecar) = bed().await;
    let id = super::id(7);
    for region in ["us-east-1", "eu-west-1"] {
        let job = json!({ "id": id, "type": "t", "args": [1], "meta": { "ojs.federation.region": region } });
        let made = sidecar.client.enqueue(job.to_string()).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
    eventually("the ledger has both", async || {
        let (_, shown) = get(&bed.hubs, &format!("/api/jobs/{id}")).await;
        shown["copies"].as_array().is_some_and(|copies| copies.len() == 2)
    })
    .await;
    let filter = json!({ "status": "enqueued" });
    let (code, refused) =
        post(&bed.hubs, "bea", "/api/replays", &order(&filter, &json!({ "replay_id": "both" }))).await;
    assert_eq!((code, &refused["replay"]["jobs"]), (200, &2.into()), "{refused}");
    let end = ended(&bed, "both").await;
    assert_eq!(end["replay"]["refused"], json!({ "ambiguous": 2 }), "{end}");
    let body = order(&filter, &json!({ "replay_id": "one" }));
    let (code, begun) = post(&bed.hubs, "bea", "/api/replays?region=us-east-1", &body).await;
    assert_eq!(code, 200, "{begun}");
    let end = ended(&bed, "one").await;
    assert_eq!(end["replay"]["steps"], json!({ "replayed": 1 }), "{end}");
    let replayed = bed.replayed();
    assert!(replayed[&id].len() == 1 && replayed[&id][0].0 == 0, "{replayed:?}");
}

#[tokio::test]
async fn an_order_that_is_repeated_brings_a_cancellation_into_the_ledger_whose_answer_was_lost() {
    let (bed, _hub, sidecar) = bed().await;
    let id = enqueued(&sidecar, "waiting", "acme", 1).await.remove(0);
    recorded(&bed.hubs, &id, "enqueued").await;
    let faults = bed.stage.regions[0].faults();
    faults.add(When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1), Fault::CutAfterRequest { store: true });
    let answer = FaultAnswer::error_document(StatusCode::INTERNAL_SERVER_ERROR, "backend_error");
    faults.add(When::lookup().after(1).next(1), Fault::Answer { answer, store: false });
    let cancel = format!("/api/jobs/{id}/cancel?region=us-east-1");
    let (code, unknown) = post(&bed.hubs, "ann", &cancel, &why(json!({}))).await;
    assert_eq!((code, &unknown["error"]["code"]), (503, &"outcome_unknown".into()), "{unknown}");
    let (code, before) = post(&bed.hubs, "ann", &cancel, &why(json!({}))).await;
    assert_eq!((code, &before["error"]["code"]), (409, &"cancel_refused".into()), "{before}");
    assert!(before["error"]["message"].as_str().unwrap().contains("the job is cancelled there"), "{before}");
    recorded(&bed.hubs, &id, "canceled").await;
}
