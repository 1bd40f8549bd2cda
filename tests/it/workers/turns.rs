//! The queues of a FETCH take turns where the configuration or the FETCH says so, judged by what came of each queue.

use std::collections::BTreeMap;

use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::FETCH;
use crate::support::{Federation, Setup};

const WEIGHTED: &str = "scheduling: { strategy: weighted, weights: { critical: 5, default: 3, low: 1 } }";

async fn federation(yaml: &str, queues: &[(&str, usize)]) -> Federation {
    let federation = Setup::default().yaml(yaml).start().await;
    for (queue, jobs) in queues {
        federation.fill(0, queue, *jobs);
    }
    federation
}

/// So many FETCHes; the jobs that came of each queue.
async fn came(federation: &Federation, times: usize, body: &str) -> BTreeMap<String, usize> {
    let mut came = BTreeMap::new();
    for _ in 0..times {
        let answer = federation.client.post(FETCH, body.to_owned()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        for job in answer.json()["jobs"].as_array().unwrap() {
            *came.entry(job["queue"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    came
}

fn asked(count: usize, more: &str) -> String {
    format!(r#"{{"queues":["critical","default","low"],"count":{count},"worker_id":"w"{more}}}"#)
}

#[tokio::test]
async fn jobs_come_in_proportion_to_weights_and_a_job_at_a_time_costs_one_call() {
    let federation = federation(WEIGHTED, &[("critical", 900), ("default", 900), ("low", 900)]).await;
    let came = came(&federation, 900, &asked(1, "")).await;
    for (queue, expected) in [("critical", 500), ("default", 300), ("low", 100)] {
        assert!(came[queue].abs_diff(expected) <= 10, "{came:?}");
    }
    assert_eq!(federation.calls(FETCH), [900, 0, 0]);
    // Whatever is first, the region is asked for all queues: the turn of an empty one costs no call.
    for call in federation.heard(0, FETCH) {
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        let mut queues: Vec<_> = body["queues"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
        queues.sort_unstable();
        assert_eq!((queues, &body["count"]), (vec!["critical", "default", "low"], &json!(1)));
    }
}

#[tokio::test]
async fn many_jobs_at_a_time_are_one_call_and_keep_the_shares() {
    let federation = federation(WEIGHTED, &[("critical", 900), ("default", 900), ("low", 900)]).await;
    let came = came(&federation, 90, &asked(10, "")).await;
    for (queue, expected) in [("critical", 500), ("default", 300), ("low", 100)] {
        assert!(came[queue].abs_diff(expected) <= 18, "{came:?}");
    }
    assert_eq!(came.values().sum::<usize>(), 900, "no FETCH brings more than it asks for, or less than there is");
    assert_eq!(federation.calls(FETCH), [90, 0, 0]);
}

#[tokio::test]
async fn an_empty_queue_leaves_its_turns_to_others() {
    let federation = federation(WEIGHTED, &[("low", 15)]).await;
    assert_eq!(came(&federation, 5, &asked(1, "")).await, BTreeMap::from([("low".to_owned(), 5)]));
    assert_eq!(came(&federation, 1, &asked(10, "")).await, BTreeMap::from([("low".to_owned(), 10)]));
    assert!(came(&federation, 1, &asked(9, "")).await.is_empty());
    assert_eq!(federation.calls(FETCH), [7, 0, 0]);
}

#[tokio::test]
async fn a_list_with_a_repeated_queue_stays_as_its_worker_wrote_it() {
    let federation = federation(WEIGHTED, &[("low", 9), ("critical", 9)]).await;
    let body = r#"{"queues":["low","low","critical"],"weights":{"critical":9},"count":1}"#;
    assert_eq!(came(&federation, 9, body).await, BTreeMap::from([("low".to_owned(), 9)]));
    assert_eq!(&*federation.heard(0, FETCH)[0].body, br#"{"queues":["low","low","critical"],"count":1}"#);
}

#[tokio::test]
async fn a_worker_s_own_strategy_counts_only_where_the_configuration_is_silent_and_is_cut_out() {
    let own = r#","strategy":"round-robin","weights":{"low":9}"#;
    let jobs = [("critical", 90), ("default", 90), ("low", 90)];
    let silent = federation("", &jobs).await;
    let shared = came(&silent, 9, &asked(1, own)).await;
    assert_eq!(shared.into_values().collect::<Vec<_>>(), [3, 3, 3]);
    assert_eq!(came(&silent, 9, &asked(1, "")).await, BTreeMap::from([("critical".to_owned(), 9)]));
    let strict = federation("scheduling: { strategy: strict }", &jobs).await;
    assert_eq!(came(&strict, 9, &asked(1, own)).await, BTreeMap::from([("critical".to_owned(), 9)]));
    for federation in [&silent, &strict] {
        let body = federation.last(0, FETCH);
        assert_eq!((&body["strategy"], &body["weights"]), (&Value::Null, &Value::Null));
    }
}

#[tokio::test]
async fn without_a_word_about_turns_a_fetch_arrives_byte_for_byte() {
    for yaml in ["", "scheduling: { strategy: strict }"] {
        let federation = federation(yaml, &[("low", 1)]).await;
        let body = r#"{ "queues" : ["critical", "low"] ,"x":1E400 }"#;
        assert_eq!(came(&federation, 1, body).await.len(), 1);
        assert_eq!(&*federation.heard(0, FETCH)[0].body, body.as_bytes(), "{yaml}");
    }
    // A strategy that this program does not know reaches the server, which may know it.
    let federation = federation("", &[("low", 1)]).await;
    let body = r#"{"queues":["low"],"strategy":"lifo"}"#;
    came(&federation, 1, body).await;
    assert_eq!(&*federation.heard(0, FETCH)[0].body, body.as_bytes());
}

#[tokio::test]
async fn under_a_strict_flood_every_other_queue_has_its_floor() {
    let floor = "scheduling: { strategy: strict, starvation_prevention: { enabled: true, min_dispatch_ratio: 0.1 } }";
    let federation = federation(floor, &[("critical", 500), ("default", 500), ("low", 500)]).await;
    let came = came(&federation, 300, &asked(1, "")).await;
    assert!(came["default"] >= 30 && came["low"] >= 30 && came["critical"] >= 210, "{came:?}");
}

#[tokio::test]
async fn other_regions_serve_shared_queues_by_turns_too() {
    let shared = format!("{WEIGHTED}\nworkers: {{ remote_fetch: [default, low] }}");
    for queues in [r#"["critical","default","low"]"#, r#"["default","low"]"#] {
        let federation = federation(&shared, &[]).await;
        for queue in ["default", "low"] {
            for place in [1, 2] {
                federation.fill(place, queue, 90);
            }
        }
        let came = came(&federation, 40, &format!(r#"{{"queues":{queues},"count":1}}"#)).await;
        assert!(came["default"].abs_diff(30) <= 3 && came["low"].abs_diff(10) <= 3, "{came:?}");
    }
}

#[tokio::test]
async fn a_server_that_schedules_fairly_itself_gets_the_words_of_workers() {
    let own = asked(1, r#","strategy":"round-robin","weights":{"low":9}"#);
    for (yaml, extension, is_kept) in [
        ("", "urn:ojs:ext:fair-scheduling", true),
        ("", "urn:ojs:ext:cron", false),
        // An order that the operator has configured is in force.
        (WEIGHTED, "urn:ojs:ext:fair-scheduling", false),
        ("scheduling: { tenant_queues: [{ queue: low, shards: 2 }] }", "urn:ojs:ext:fair-scheduling", false),
    ] {
        let federation = federation(yaml, &[("low", 2)]).await;
        let manifest = json!({ "specversion": "1.0", "extensions": [extension] }).to_string();
        let answer = FaultAnswer { status: StatusCode::OK, headers: Vec::new(), body: manifest.into() };
        federation.regions[0].faults().add(When::path("/ojs/manifest"), Fault::Answer { answer, store: false });
        for _ in 0..2 {
            assert_eq!(came(&federation, 1, &own).await["low"], 1);
            let heard = federation.heard(0, FETCH).pop().unwrap();
            assert_eq!(*heard.body == *own.as_bytes(), is_kept, "{yaml} {extension}");
        }
        let looks = federation.regions[0].record().requests_to("/ojs/manifest").len();
        assert_eq!(looks, usize::from(yaml.is_empty()), "the word of a manifest counts for a minute");
    }
}
