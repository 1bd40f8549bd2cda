//! Pools of workers: which queues a FETCH reaches, judged by the calls that the region has received.

use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use ojs_testbed::JobState;
use serde_json::{Value, json};

use super::fence::is_on_disk;
use super::{ACK, BEAT, FETCH, NACK, fetch};
use crate::support::{Federation, Process, Setup, eventually};

const POOLS: &str = "pools: [{ name: pay, queues: [payments, 'refunds-*'], isolated: true }, { name: general, queues: [default, email] }]";

async fn federation(section: &str, queues: &[(&str, usize)]) -> Federation {
    let federation = Setup::default().yaml(&format!("scheduling: {{ {section} }}")).start().await;
    for (queue, jobs) in queues {
        federation.fill(0, queue, *jobs);
    }
    federation
}

fn asked(queues: &[&str], more: &str) -> String {
    format!(r#"{{"queues":{},"count":1,"worker_id":"w"{more}}}"#, json!(queues))
}

#[tokio::test]
async fn queues_of_an_isolated_pool_are_cut_out_of_the_calls_of_other_workers() {
    let federation = federation(POOLS, &[("payments", 9), ("default", 9), ("refunds-eu", 9)]).await;
    for (queues, more, heard) in [
        // No pool has all of these queues, so the worker belongs to none.
        (&["payments", "default", "other"][..], "", json!(["default", "other"])),
        (&["refunds-eu", "default", "email"], r#","pool":"general""#, json!(["default", "email"])),
        (&["payments"], r#","pool":"pay""#, json!(["payments"])),
        (&["payments"], "", json!(["payments"])),
    ] {
        assert_eq!(fetch(federation.client, asked(queues, more)).await.len(), 1, "{queues:?}");
        let body = federation.last(0, FETCH);
        let mut came: Vec<&str> = body["queues"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        came.sort_unstable();
        assert_eq!((json!(came), &body["pool"]), (heard, &Value::Null), "{queues:?}");
    }
}

#[tokio::test]
async fn a_call_for_isolated_queues_alone_is_refused_and_reaches_no_region() {
    let federation = federation(&format!("pool: general, {POOLS}"), &[("payments", 9), ("default", 9)]).await;
    let answer = federation.client.post(FETCH, asked(&["payments", "refunds-eu"], "")).await;
    answer.check_error(403, "forbidden", "pool_isolated");
    assert_eq!(federation.calls(FETCH), [0, 0, 0]);
    assert_eq!(fetch(federation.client, asked(&["payments", "default"], "")).await.len(), 1);
    assert_eq!(federation.last(0, FETCH)["queues"], json!(["default"]));
}

#[tokio::test]
async fn a_worker_of_another_pool_than_its_sidecar_s_or_of_none_that_there_is_is_refused() {
    let own = federation(&format!("pool: general, {POOLS}"), &[("default", 9)]).await;
    let error = own.client.post(FETCH, asked(&["default"], r#","pool":"pay""#)).await;
    assert_eq!(error.check_error(409, "conflict", "pool_mismatch")["details"]["pool"], "general");
    assert_eq!(fetch(own.client, asked(&["default"], r#","pool":"general""#)).await.len(), 1);
    let open = federation(POOLS, &[("default", 9)]).await;
    let error = open.client.post(FETCH, asked(&["default"], r#","pool":"pya""#)).await;
    let error = error.check_error(400, "invalid_request", "pool_unknown");
    assert_eq!(error["details"]["known_pools"], json!(["pay", "general"]));
    for (body, reason) in [
        (r#"{"queues":["default"],"pool":7}"#, "pool_unclear"),
        (r#"{"queues":["default"],"pool":"pay","Pool":"general"}"#, "ambiguous_member"),
        (r#"{"queues":["default"],"Queues":["payments"]}"#, "ambiguous_member"),
        (r#"{"queues":"payments"}"#, "pool_unclear"),
        ("{}", "pool_unclear"),
    ] {
        open.client.post(FETCH, body).await.check_error(400, "invalid_request", reason);
    }
    assert_eq!((own.calls(FETCH), open.calls(FETCH)), (vec![1, 0, 0], vec![0, 0, 0]));
}

#[tokio::test]
async fn all_else_of_a_call_arrives_byte_for_byte() {
    let section = format!("{}, {{ name: one, queues: [single], strategy: strict }}]", POOLS.trim_end_matches(']'));
    let federation = federation(&section, &[]).await;
    for (body, heard) in [
        (r#"{ "queues" : ["payments" , "x"] ,"count": 1,"y":1E400 }"#, r#"{ "queues" : ["x"] ,"count": 1,"y":1E400 }"#),
        (r#"{ "pool" : "one" ,"queues" : [ "single" ],"y":1E400 }"#, r#"{ "queues" : [ "single" ],"y":1E400 }"#),
        (
            r#"{ "queues" : [ "single", "x" ],"strategy":"lifo","y":1E400 }"#,
            r#"{ "queues" : [ "single", "x" ],"strategy":"lifo","y":1E400 }"#,
        ),
    ] {
        assert!(fetch(federation.client, body.to_owned()).await.is_empty());
        assert_eq!(std::str::from_utf8(&federation.heard(0, FETCH).last().unwrap().body), Ok(heard));
    }
    // Without pools the word for one is another server's to read.
    let none = Setup::default().start().await;
    let body = r#"{ "queues" : ["x"], "pool":"general" }"#;
    assert!(fetch(none.client, body.to_owned()).await.is_empty());
    assert_eq!(&*none.heard(0, FETCH)[0].body, body.as_bytes());
}

#[tokio::test]
async fn each_pool_has_weights_of_its_own_and_takes_turns_by_itself() {
    let section = "strategy: strict, pools: [{ name: a, queues: [x, y], strategy: weighted, weights: { x: 5, y: 1 } }, \
                   { name: b, queues: [x, y], strategy: weighted, weights: { x: 1, y: 5 } }, { name: c, queues: [x, y] }]";
    let federation = federation(section, &[("x", 900), ("y", 900)]).await;
    let share = async |more: &str| {
        let mut came = 0;
        for _ in 0..60 {
            let answer = federation.client.post(FETCH, asked(&["x", "y"], more)).await;
            came += usize::from(answer.json()["jobs"][0]["queue"] == "x");
        }
        came
    };
    assert!(share(r#","pool":"a""#).await.abs_diff(50) <= 2);
    assert!(share(r#","pool":"b""#).await.abs_diff(10) <= 2);
    assert!(share(r#","pool":"c""#).await.abs_diff(30) <= 1, "round-robin is the default of a pool");
    let own = r#","pool":"c","strategy":"weighted","weights":{"x":5}"#;
    assert!(share(own).await.abs_diff(50) <= 2, "a pool without a strategy leaves it to the worker");
    assert_eq!(share("").await, 60, "workers of no pool keep to the strategy of the sidecar");
}

const BOUNDED: &str = "pools: [{ name: pay, queues: [payments, 'refunds-*'], concurrency: 3 }]";

fn several(count: usize) -> String {
    format!(r#"{{"queues":["payments"],"count":{count},"worker_id":"w"}}"#)
}

fn word(path: &str, id: &str) -> String {
    let error = if path == NACK { r#","error":{"code":"x","message":"y"}"# } else { "" };
    format!(r#"{{"job_id":"{id}"{error}}}"#)
}

/// The jobs that the calls of FETCHes have asked a region for.
fn asked_for(federation: &Federation) -> u64 {
    let calls = federation.heard(0, FETCH);
    calls.iter().map(|call| serde_json::from_slice::<Value>(&call.body).unwrap()["count"].as_u64().unwrap()).sum()
}

fn active(federation: &Federation) -> usize {
    federation.regions[0].jobs().count_in(JobState::Active)
}

#[tokio::test]
async fn workers_that_fetch_at_once_never_hold_more_jobs_than_their_pool_may() {
    let federation = federation(BOUNDED, &[("payments", 200)]).await;
    let all = join_all((0..8).map(|_| fetch(federation.client, several(2)))).await;
    assert_eq!((all.concat().len(), active(&federation), asked_for(&federation)), (3, 3, 3));
    let calls = federation.calls(FETCH);
    assert_eq!(fetch(federation.client, several(5)).await, [""; 0]);
    assert_eq!(federation.calls(FETCH), calls, "no region is asked where no place is left");
    for id in all.concat() {
        assert_eq!(federation.client.post(ACK, word(ACK, &id)).await.status, 200);
    }
    // Workers that fetch and acknowledge all the time.
    let worker = async || {
        for _ in 0..15 {
            let ids = fetch(federation.client, several(2)).await;
            assert!(active(&federation) <= 3, "{}", active(&federation));
            for id in ids {
                assert_eq!(federation.client.post(ACK, word(ACK, &id)).await.status, 200);
            }
        }
    };
    join_all((0..6).map(|_| worker())).await;
    assert_eq!(active(&federation), 0);
    assert_eq!(fetch(federation.client, several(5)).await.len(), 3);
}

#[tokio::test]
async fn a_job_that_ends_in_whatever_way_gives_its_place_back() {
    let setup = Setup::default().yaml(&format!("scheduling: {{ {BOUNDED} }}")).steered().steered_leases();
    let federation = setup.start().await;
    federation.fill(0, "payments", 50);
    let mut ids = fetch(federation.client, several(9)).await;
    assert_eq!(ids.len(), 3);
    let next = async |ids: &mut Vec<String>, expected: usize, why: &str| {
        let came = fetch(federation.client, several(9)).await;
        assert_eq!(came.len(), expected, "{why}");
        assert!(active(&federation) <= 3, "{why}");
        ids.extend(came);
    };
    next(&mut ids, 0, "all places are taken").await;
    for path in [ACK, NACK] {
        assert_eq!(federation.client.post(path, word(path, &ids.remove(0))).await.status, 200);
        next(&mut ids, 1, path).await;
    }
    let cancelled = format!("/ojs/v1/jobs/{}", ids.remove(0));
    assert_eq!(federation.client.call(Method::DELETE, &cancelled, "").await.status, 200);
    next(&mut ids, 1, "cancelled").await;
    // Two are extended, and the lease of the third one ends.
    federation.advance(Duration::from_secs(20));
    let beat = json!({ "worker_id": "w", "active_jobs": &ids[1..] }).to_string();
    assert_eq!(federation.client.post(BEAT, beat).await.status, 200);
    federation.advance(Duration::from_secs(11));
    next(&mut ids, 1, "its lease is over").await;
    next(&mut ids, 0, "the others are extended").await;
}

#[tokio::test]
async fn other_regions_and_other_pools_are_counted_as_they_should() {
    let section = format!("{}, {{ name: mail, queues: [email] }}]", BOUNDED.trim_end_matches(']'));
    let yaml = format!("scheduling: {{ {section} }}\nworkers: {{ remote_fetch: [payments] }}");
    let federation = Setup::default().yaml(&yaml).start().await;
    for (place, queue, jobs) in [(0, "payments", 1), (1, "payments", 9), (2, "payments", 9), (0, "email", 9)] {
        federation.fill(place, queue, jobs);
    }
    assert_eq!(fetch(federation.client, several(9)).await.len(), 3);
    let active: usize = federation.regions.iter().map(|region| region.jobs().count_in(JobState::Active)).sum();
    assert_eq!((active, fetch(federation.client, several(1)).await.len()), (3, 0));
    // A pool without a bound, and workers of no pool.
    assert_eq!(fetch(federation.client, asked(&["email"], "")).await.len(), 1);
    federation.fill(0, "payments", 9);
    assert_eq!(fetch(federation.client, asked(&["payments", "email"], "")).await.len(), 1);
}

#[tokio::test]
async fn places_are_taken_after_a_kill_as_before_it() {
    let stage = Setup::default().yaml(&format!("scheduling: {{ {BOUNDED} }}")).stage().await;
    let journal = format!("journal.path={}", stage.files.path().join("journal").display());
    let run = async || Process::run(&stage.config, &["--set", "log.level=info", "--set", &journal]).await;
    stage.regions[0].fill("payments", 50);
    let first = run().await;
    let ids = fetch(first.client, several(2)).await;
    assert_eq!(ids.len(), 2);
    // Places are written with their leases.
    eventually("the leases are on disk", async || ids.iter().all(|id| is_on_disk(&stage, id))).await;
    // kill -9.
    drop(first);
    let second = run().await;
    let calls = || stage.regions[0].record().requests_to(FETCH);
    assert_eq!(fetch(second.client, several(5)).await.len(), 1, "two of three places are taken");
    assert_eq!(serde_json::from_slice::<Value>(&calls().last().unwrap().body).unwrap()["count"], 1);
    assert_eq!((fetch(second.client, several(5)).await.len(), calls().len()), (0, 2));
    assert_eq!(second.client.post(ACK, word(ACK, &ids[0])).await.status, 200);
    assert_eq!(second.client.post(NACK, word(NACK, &ids[1])).await.status, 200);
    assert_eq!(fetch(second.client, several(5)).await.len(), 2);
    assert_eq!(stage.regions[0].jobs().count_in(JobState::Active), 3);
}
