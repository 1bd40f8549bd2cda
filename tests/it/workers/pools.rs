//! Pools of workers: which queues a FETCH reaches, judged by the calls that the region has received.

use serde_json::{Value, json};

use super::{FETCH, fetch};
use crate::support::{Federation, Setup};

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
        // Of no pool: no pool has all of its queues.
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
