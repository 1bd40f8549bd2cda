//! Many jobs are run again: each once, also over a kill of the hub.

use http::Method;
use ojs_testbed::{Fault, Gate, When};
use serde_json::{Value, json};

use super::{Bed, id, job, sha256};
use crate::hub::postgres::Postgres;
use crate::hub::stage::{Hub, HubStage, post, status};
use crate::support::{eventually, rises};

async fn ordered(bed: &Bed, numbers: impl Iterator<Item = usize>, more: Value) -> String {
    let jobs: Vec<String> = numbers.map(id).collect();
    let mut body =
        json!({ "jobs": jobs, "backfill_reason": "bad release", "backfill_ticket": "OPS-7", "author": "ana" });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (code, document) = post(&bed.hubs, "bea", "/api/replays", &body).await;
    assert_eq!(code, 200, "{document}");
    document["replay"]["id"].as_str().unwrap().to_owned()
}

async fn shown(bed: &Bed, name: &str, query: &str) -> Value {
    status(&bed.hubs, "eve", &Method::GET, &format!("/api/replays/{name}{query}")).await.1
}

async fn done(bed: &Bed, name: &str) -> Value {
    let mut document = Value::Null;
    eventually("the replay is done", async || {
        document = shown(bed, name, "").await;
        document["replay"]["done"] == true
    })
    .await;
    document
}

/// Jobs in turn in the three regions.
fn fill(bed: &Bed, count: usize) {
    for number in 0..count {
        bed.stage.regions[number % 3].put(&job(number, &format!("[{number} , 1e400]"), "null"), 1);
    }
}

/// The id of the new job that the second region holds back.
fn held_back(bed: &Bed) -> String {
    let jobs = bed.stage.regions[1].jobs();
    let sent = bed.asked(1, &Method::POST).into_iter();
    // No reader of numbers takes the arguments.
    let mut ids = sent.filter_map(|it| {
        let body = String::from_utf8(it.body.to_vec()).unwrap();
        Some(body.strip_prefix(r#"{"id":""#)?.split_once('"')?.0.to_owned())
    });
    ids.find(|id| jobs.job(id).is_none()).unwrap()
}

/// Runs the jobs of all regions again while answers are lost, and until one region holds one back; then the hub is killed. `again`: runs a hub, and lets the held one go.
async fn is_resumed(bed: &Bed, count: usize, mut hub: Hub, again: impl AsyncFnOnce(&Gate, String) -> Hub) {
    fill(bed, count);
    let gate = Gate::new();
    bed.stage.regions[0].faults().add(When::enqueue().after(5).next(2), Fault::CutAfterRequest { store: true });
    bed.stage.regions[1]
        .faults()
        .add(When::enqueue().after(count as u64 / 9).next(1), Fault::Hold { gate: gate.clone() });
    let name = ordered(bed, 0..count, json!({ "per_second": 1000 })).await;
    eventually("an answer is held back", async || bed.stage.regions[1].faults().struck() == 1).await;
    let held = held_back(bed);
    hub.kill();
    assert!(bed.replayed().len() < count, "it was killed among them");
    let _hub = again(&gate, held).await;
    rises("more are run again", count, async || bed.replayed().len()).await;
    let end = done(bed, &name).await;
    assert_eq!(end["replay"]["steps"], json!({ "replayed": count }), "{}", end["replay"]);
    let replayed = bed.replayed();
    for number in 0..count {
        let new = &replayed[&id(number)];
        assert!(new.len() == 1 && new[0].0 == number % 3, "{number}: {new:?}");
        let jobs = bed.stage.regions[number % 3].jobs();
        assert_eq!(jobs.job(&new[0].1).unwrap().args, format!("[{number} , 1e400]"));
        assert_eq!(end["jobs"][number]["new_id"], new[0].1.as_str());
        assert_eq!(end["jobs"][number]["digest"], sha256(&format!("[{number} , 1e400]")).as_str());
    }
    let rows: Vec<_> = bed.rows().await.into_iter().map(|it| it.0).collect();
    assert_eq!(rows, ["replay_ordered", "replay_ended"]);
}

#[tokio::test]
async fn each_of_some_hundred_jobs_is_run_again_once_over_a_kill_of_the_hub() {
    let (bed, hub) = Bed::new().await;
    is_resumed(&bed, 300, hub, async |gate, held| {
        let hub = bed.hubs.run().await;
        // Its region does not have the new job yet, whose write is on its way: the hub has to wait for it, and not to send it again.
        eventually("the hub asks for it again and again", async || {
            bed.asked(1, &Method::GET).iter().filter(|it| it.path.ends_with(&held)).count() > 2
        })
        .await;
        gate.open();
        hub
    })
    .await;
}

#[tokio::test]
async fn another_hub_on_the_same_database_goes_on_with_a_replay() {
    let stage = HubStage::new("");
    let Some(server) = Postgres::start(&stage.authority).await else { return };
    let record = Postgres::section(&[&server], &stage.path(""), &stage.path("hub.ca.pem"));
    let bed = Bed::on(stage.on_record(record)).await;
    let (first, _second) = (bed.hubs.again(0).await, bed.hubs.again(1).await);
    // Requests go to the address of the first one, which comes back once the turn of its earlier process is over. That takes as long as a
    // write may be on its way.
    is_resumed(&bed, 60, first, async |gate, _| {
        gate.open();
        rises("the other hub goes on", 60, async || bed.replayed().len()).await;
        bed.hubs.again(0).await
    })
    .await;
}

#[tokio::test]
async fn a_dry_run_says_for_each_job_what_would_be_done_and_sends_nothing() {
    let (bed, _hub) = Bed::new().await;
    fill(&bed, 3);
    bed.stage.regions[2].put(&job(0, "[0]", "null"), 1);
    let name = ordered(&bed, [0, 1, 2, 9].into_iter(), json!({ "dry_run": true, "per_second": 100 })).await;
    let end = done(&bed, &name).await;
    let rows: Vec<_> =
        end["jobs"].as_array().unwrap().iter().map(|it| (&it["step"], &it["why"], &it["region"])).collect();
    let would = Value::from("would_replay");
    let (refused, ambiguous, absent) = (Value::from("refused"), Value::from("ambiguous"), Value::from("not_found"));
    let (eu, ap) = (Value::from("eu-west-1"), Value::from("ap-south-1"));
    assert_eq!(
        rows,
        [
            (&refused, &ambiguous, &Value::Null),
            (&would, &Value::Null, &eu),
            (&would, &Value::Null, &ap),
            (&refused, &absent, &Value::Null)
        ]
    );
    assert_eq!(end["replay"]["refused"], json!({ "ambiguous": 1, "not_found": 1 }));
    assert_eq!(bed.counts(&Method::POST), [0; 3]);
    let (_, list) = status(&bed.hubs, "eve", &Method::GET, "/api/replays").await;
    assert_eq!(
        (&list["replays"][0]["id"], &list["replays"][0]["steps"]["refused"]),
        (&name.as_str().into(), &2.into())
    );
}

#[tokio::test]
async fn a_region_that_is_away_holds_up_its_own_jobs_alone_and_a_stopped_replay_sends_nothing_more() {
    let (bed, _hub) = Bed::new().await;
    fill(&bed, 30);
    bed.stage.regions[0].stop().await;
    // While the region is away, the hub knows the region of a job only where the order names it.
    let jobs: Vec<String> = (0..30).map(id).collect();
    let body =
        json!({ "jobs": jobs, "backfill_reason": "r", "backfill_ticket": "T-1", "author": "ana", "per_second": 1000 });
    let (code, away) = post(&bed.hubs, "bea", "/api/replays?region=us-east-1", &body).await;
    assert_eq!(code, 200, "{away}");
    let (code, there) = post(&bed.hubs, "bea", "/api/replays?region=eu-west-1", &body).await;
    assert_eq!(code, 200, "{there}");
    let end = done(&bed, there["replay"]["id"].as_str().unwrap()).await;
    assert_eq!(end["replay"]["steps"], json!({ "replayed": 10, "refused": 20 }), "{end}");
    let away = away["replay"]["id"].as_str().unwrap();
    eventually("it says why it does not go on", async || {
        let trouble = &shown(&bed, away, "").await["replay"]["trouble"];
        trouble.as_str().is_some_and(|it| it.contains("us-east-1"))
    })
    .await;
    let path = format!("/api/replays/{away}");
    assert_eq!(status(&bed.hubs, "ann", &Method::DELETE, &path).await.0, 403);
    let (code, stopped) = status(&bed.hubs, "bea", &Method::DELETE, &path).await;
    assert_eq!((code, &stopped["replay"]["stopped"]), (200, &true.into()), "{stopped}");
    let end = done(&bed, away).await;
    assert_eq!(end["replay"]["steps"], json!({ "stopped": 30 }), "{end}");
    bed.stage.regions[0].resume().await.unwrap();
    assert_eq!(shown(&bed, away, "?step=stopped").await["jobs"].as_array().unwrap().len(), 30);
    assert_eq!(shown(&bed, away, "?step=replayed").await["jobs"], json!([]));
    for query in ["?step=gone", "?cursor=x", "?page=2"] {
        assert_eq!(status(&bed.hubs, "eve", &Method::GET, &format!("{path}{query}")).await.0, 400, "{query}");
    }
    assert_eq!(bed.counts(&Method::POST), [0, 10, 0]);
    let rows: Vec<_> = bed.rows().await.into_iter().map(|it| it.0).collect();
    assert_eq!(rows.iter().filter(|it| *it == "replay_stopped").count(), 1, "{rows:?}");
}

#[tokio::test]
async fn a_replay_that_is_stopped_sends_no_job_that_it_has_not_begun() {
    let (bed, _hub) = Bed::new().await;
    (0..60).for_each(|number| bed.stage.regions[0].put(&job(number, "[]", "null"), 1));
    let (gate, faults) = (Gate::new(), bed.stage.regions[0].faults());
    faults.add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let name = ordered(&bed, 0..60, json!({ "per_second": 1000 })).await;
    eventually("eight are on their way", async || faults.struck() == 8).await;
    let (code, stopped) = status(&bed.hubs, "bea", &Method::DELETE, &format!("/api/replays/{name}")).await;
    assert_eq!(code, 200, "{stopped}");
    gate.open();
    let end = done(&bed, &name).await;
    assert_eq!(end["replay"]["steps"], json!({ "replayed": 8, "stopped": 52 }), "{end}");
    assert_eq!(bed.counts(&Method::POST), [8, 0, 0]);
}
