//! Heartbeats: each region hears of its own jobs, and the worker gets one answer.

use std::time::Duration;

use ojs_testbed::{Directive, Fault, FaultAnswer, JobState, When};
use serde_json::json;

use super::sdk::Sdk;
use super::{BEAT, FETCH, claimed, fetch, queued};
use crate::support::{Federation, Setup, Sidecar, eventually, pinned};

/// A worker `w` with one job in each region, claimed beside it; the first sidecar knows nothing of that.
async fn busy(setup: Setup) -> (Federation, Vec<Sidecar>, Vec<String>) {
    let federation = setup.start().await;
    let (mut sidecars, mut ids) = (Vec::new(), Vec::new());
    for place in 0..3 {
        let beside = federation.beside(place).await;
        ids.push(claimed(&federation, &beside, place, "a").await);
        sidecars.push(beside);
    }
    // Another pod's sidecar, without a memory of what the pin has said.
    let cold = federation.beside(0).await;
    sidecars.push(cold);
    (federation, sidecars, ids)
}

fn sorted(value: &serde_json::Value) -> Vec<String> {
    let mut ids: Vec<String> = serde_json::from_value(value.clone()).unwrap();
    ids.sort();
    ids
}

#[tokio::test]
async fn every_dialect_extends_the_leases_in_all_regions() {
    for sdk in Sdk::ALL {
        let (federation, sidecars, ids) = busy(Setup::default().steered().steered_leases()).await;
        let client = sidecars[3].client;
        for _ in 0..4 {
            federation.advance(Duration::from_secs(20));
            let answer = client.post(BEAT, sdk.heartbeat("w", &ids)).await;
            assert_eq!((answer.status.as_u16(), answer.region()), (200, "us-east-1"), "{sdk:?} {answer:?}");
            assert_eq!(sorted(&answer.json()["jobs_extended"]), sorted(&json!(ids)), "{sdk:?}");
        }
        for (place, id) in ids.iter().enumerate() {
            assert_eq!(federation.state(place, id), JobState::Active, "{sdk:?} in {place}");
        }
        federation.advance(Duration::from_secs(31));
        let lapsed = (0..3).all(|place| federation.state(place, &ids[place]) != JobState::Active);
        assert!(lapsed, "without heartbeats leases end");
    }
}

#[tokio::test]
async fn a_job_that_nothing_is_known_of_is_named_everywhere_once_and_then_to_its_own_region_only() {
    let (federation, sidecars, ids) = busy(Setup::default().yaml("routing: { id_hint: false }")).await;
    let client = sidecars[3].client;
    let nobodys = "019461a8-0000-7000-8000-000000000000".to_owned();
    let all: Vec<String> = ids.iter().cloned().chain([nobodys.clone()]).collect();
    let body = Sdk::Rust.heartbeat("w", &all);
    assert_eq!(client.post(BEAT, body.clone()).await.status, 200);
    assert_eq!(federation.calls(BEAT), [1, 1, 1]);
    for place in 0..3 {
        assert_eq!(federation.last(place, BEAT)["active_jobs"], json!(all));
    }
    assert_eq!(client.post(BEAT, body).await.status, 200);
    assert_eq!(federation.calls(BEAT), [2, 2, 2]);
    assert_eq!(federation.last(0, BEAT), json!({ "worker_id": "w", "active_jobs": [ids[0], nobodys] }));
    for (place, id) in ids.iter().enumerate().skip(1) {
        assert_eq!(federation.last(place, BEAT), json!({ "worker_id": "w", "active_jobs": [id] }));
    }
    // Nobody was asked about jobs one by one.
    assert_eq!(federation.calls("/ojs/v1/jobs/"), [0, 0, 0]);
    // That the local region hears of it makes it no owner.
    assert_eq!(client.post(super::ACK, Sdk::Rust.ack(&nobodys)).await.status, 404);
    assert_eq!(federation.calls(super::ACK), [0, 0, 0]);
}

#[tokio::test]
async fn an_idle_worker_is_the_local_regions_only() {
    let federation = Federation::start().await;
    for sdk in Sdk::ALL {
        let answer = federation.client.post(BEAT, sdk.heartbeat("w", &[])).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["jobs_extended"]), (200, &json!([])), "{sdk:?} {answer:?}");
    }
    // The first one in a form that the region refuses was sent twice.
    assert_eq!(federation.calls(BEAT), [6, 0, 0]);
    let answer = federation.client.post("/ojs/v1/workers/beat", Sdk::Rust.heartbeat("w", &[])).await;
    assert_eq!(answer.region(), "us-east-1");
}

#[tokio::test]
async fn a_worker_is_seen_by_every_region_that_it_fetched_from_even_without_jobs() {
    let federation = Setup::default().yaml("workers: { remote_fetch: [shared] }").start().await;
    federation.fill(1, "shared", 1);
    let taken = fetch(federation.client, Sdk::Go.fetch(&["shared"], 1, "w")).await;
    assert_eq!(federation.client.post(super::ACK, Sdk::Go.ack(&taken[0])).await.status, 200);
    federation.client.post(BEAT, Sdk::Rust.heartbeat("w", &[])).await;
    assert_eq!(federation.calls(BEAT), [1, 1, 0]);
    federation.client.post(BEAT, Sdk::Rust.heartbeat("v", &[])).await;
    assert_eq!(federation.calls(BEAT), [2, 1, 0]);
}

#[tokio::test]
async fn an_order_of_the_local_region_is_passed_on_and_one_of_another_only_ends_fetching_there() {
    let federation = Setup::default().yaml("workers: { remote_fetch: [shared] }").start().await;
    for place in [1, 2] {
        federation.fill(place, "shared", 1);
    }
    let taken = fetch(federation.client, Sdk::Rust.fetch(&["shared"], 2, "w")).await;
    assert_eq!((taken.len(), federation.calls(FETCH)), (2, vec![1, 1, 1]));
    federation.regions[1].direct("w", Directive::Terminate);
    let answer = federation.client.post(BEAT, Sdk::Rust.heartbeat("w", &taken)).await;
    assert_eq!((&answer.json()["directive"], answer.region()), (&"continue".into(), "us-east-1"), "{answer:?}");
    assert_eq!(sorted(&answer.json()["jobs_extended"]), sorted(&json!(taken)));
    federation.fill(1, "shared", 1);
    federation.fill(2, "shared", 1);
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["shared"], 9, "w")).await.len(), 1);
    assert_eq!(federation.calls(FETCH), [2, 1, 2]);
    federation.regions[1].direct("w", Directive::Continue);
    federation.client.post(BEAT, Sdk::Rust.heartbeat("w", &[])).await;
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["shared"], 9, "w")).await.len(), 1);
    federation.regions[0].direct("w", Directive::Quiet);
    let answer = federation.client.post(BEAT, Sdk::Rust.heartbeat("w", &[])).await;
    let said = answer.json();
    assert_eq!((&said["directive"], &said["state"]), (&"quiet".into(), &"quiet".into()), "SDKs read the state only");
}

#[tokio::test]
async fn a_region_that_does_not_answer_fails_no_heartbeat() {
    let (federation, sidecars, ids) = busy(Setup::default().yaml("limits: { call_timeout: 2s }")).await;
    let client = sidecars[3].client;
    let body = Sdk::Python.heartbeat("w", &ids);
    assert_eq!(client.post(BEAT, body.clone()).await.status, 200);
    federation.regions[1].faults().add(When::path(BEAT), Fault::HangBeforeBody);
    federation.regions[2].stop().await;
    let answer = client.post(BEAT, body.clone()).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (200, "us-east-1"), "{answer:?}");
    assert_eq!(answer.json()["jobs_extended"], json!([ids[0]]));
}

#[tokio::test]
async fn while_the_local_region_is_down_the_worker_goes_on_with_the_jobs_of_others() {
    let (federation, sidecars, ids) = busy(Setup::default()).await;
    let client = sidecars[3].client;
    let body = Sdk::JavaScript.heartbeat("w", &ids);
    assert_eq!(client.post(BEAT, body.clone()).await.status, 200);
    for down in [true, false] {
        if down {
            federation.regions[0].stop().await;
        } else {
            federation.regions[0].resume().await.unwrap();
            let answer = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "backend_error");
            federation.regions[0].faults().add(When::path(BEAT), Fault::Answer { answer, store: false });
        }
        federation.regions[1].direct("w", Directive::Terminate);
        let answer = client.post(BEAT, body.clone()).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["directive"]), (200, &"continue".into()), "{answer:?}");
        assert_eq!(sorted(&answer.json()["jobs_extended"]), sorted(&json!(ids[1..])));
    }
    let idle = client.post(BEAT, Sdk::Rust.heartbeat("v", &[])).await;
    assert_eq!(idle.status, 503, "nobody else knows that worker: {idle:?}");
}

#[tokio::test]
async fn heartbeats_are_told_again_to_a_region_that_gave_no_answer() {
    let federation = Federation::start().await;
    federation.regions[0].faults().add(When::path(BEAT).next(2), Fault::CutAfterRequest { store: false });
    let answer = federation.client.post(BEAT, Sdk::Rust.heartbeat("w", &[])).await;
    assert_eq!((answer.status.as_u16(), federation.calls(BEAT)), (200, vec![3, 0, 0]), "{answer:?}");
}

#[tokio::test]
async fn without_the_switches_a_heartbeat_and_its_answer_stay_as_they_were_written() {
    let federation = Setup::default().yaml("compat: { heartbeat_ids: false, directive: false }").start().await;
    let body = Sdk::JavaScript.heartbeat("w", &[]);
    let answer = federation.client.post(BEAT, body.clone()).await;
    assert_eq!((answer.status.as_u16(), &*federation.heard(0, BEAT)[0].body), (400, body.as_bytes()), "{answer:?}");
    federation.regions[0].direct("w", Directive::Quiet);
    let answer = federation.client.post(BEAT, Sdk::Rust.heartbeat("w", &[])).await;
    assert_eq!((&answer.json()["directive"], &answer.json()["state"]), (&"quiet".into(), &"active".into()));
}

#[tokio::test]
async fn a_heartbeat_goes_as_it_was_sent_to_a_region_that_accepts_it() {
    let federation = Setup::default().by_the_documents().start().await;
    let drain = r#"{"worker_id":"w","state":"drain","active_jobs":2}"#.to_owned();
    for body in [drain, Sdk::JavaScript.heartbeat("w", &[]), Sdk::Go.heartbeat("w", &["a".to_owned()])] {
        federation.regions.iter().for_each(|region| region.record().clear());
        let answer = federation.client.post(BEAT, body.clone()).await;
        let heard = federation.heard(0, BEAT);
        assert_eq!((answer.status.as_u16(), heard.len(), &*heard[0].body), (200, 1, body.as_bytes()), "{answer:?}");
    }
}

#[tokio::test]
async fn a_region_that_refuses_a_heartbeat_gets_it_translated_and_is_remembered() {
    // Of three regions, one follows the documents and takes what the worker wrote.
    let setup = Setup::default().demo(|options| {
        if options.id == "eu-west-1" {
            options.dialect = ojs_testbed::Dialect::Spec;
        }
    });
    let (federation, sidecars, ids) = busy(setup).await;
    let client = sidecars[3].client;
    let body = Sdk::Go.heartbeat("w", &ids);
    for round in 1..=3 {
        let answer = client.post(BEAT, body.clone()).await;
        assert_eq!(sorted(&answer.json()["jobs_extended"]), sorted(&json!(ids)), "{answer:?}");
        assert_eq!(federation.calls(BEAT), [round + 1, round, round + 1]);
    }
    assert_eq!(federation.last(0, BEAT)["active_jobs"], json!([ids[0]]));
    assert_eq!(
        (federation.last(1, BEAT)["active_jobs"].clone(), federation.last(2, BEAT)["active_jobs"].clone()),
        (json!(1), json!([ids[2]]))
    );
    assert_eq!(federation.last(1, BEAT)["active_job_ids"], json!([ids[1]]));
    // What is wrong in either form is told in the region's words about what the worker wrote.
    let wrong = r#"{"worker_id":7,"active_jobs":1}"#;
    assert_eq!(client.post(BEAT, wrong).await.status, 400);
    assert_eq!(federation.heard(0, BEAT).last().unwrap().body, wrong);
}

#[tokio::test]
async fn jobs_whose_region_is_known_are_named_to_no_other() {
    for yaml in ["routing: { id_hint: true }", "routing: { id_hint: false }"] {
        let federation = Setup::default().yaml(yaml).start().await;
        let mut ids = Vec::new();
        for (job, place) in [(pinned("eu-west-1", "e"), 1), (crate::support::job("l"), 0)] {
            let answer = federation.client.enqueue(job).await;
            assert_eq!(answer.region(), crate::support::IDS[place]);
            ids.push(answer.job_id());
        }
        federation.client.post(BEAT, Sdk::Rust.heartbeat("w1", &ids)).await;
        assert_eq!(federation.seen(&format!("\"active_jobs\":[\"{}", ids[0])), [1], "{yaml}");
        assert_eq!(federation.calls(BEAT), [1, 1, 0], "{yaml}");
        assert_eq!(federation.last(0, BEAT)["active_jobs"], json!([ids[1]]));
        assert_eq!(federation.last(1, BEAT)["active_jobs"], json!([ids[0]]));
    }
}

#[tokio::test]
async fn a_job_that_is_not_where_its_id_hints_is_found_by_its_heartbeat() {
    let (federation, sidecars, _) = busy(Setup::default()).await;
    let client = sidecars[3].client;
    let moved = federation.client.enqueue(pinned("eu-west-1", "moved")).await.job_id();
    // Its id names a region that does not have it any more, and another one has leased it to a worker.
    let answer = FaultAnswer::error_document(http::StatusCode::NOT_FOUND, "not_found");
    let look_ups = When::path("/ojs/v1/jobs/").method(http::Method::GET);
    federation.regions[1].faults().add(look_ups, Fault::Answer { answer, store: false });
    let copy = format!(r#"{{"id":"{moved}","type":"email.send","args":[],"options":{{"queue":"moved"}}}}"#);
    federation.regions[2].put(&copy, 1);
    let taken = fetch(sidecars[2].client, Sdk::Rust.fetch(&["moved"], 1, "w2")).await;
    assert_eq!(taken, std::slice::from_ref(&moved));
    federation.regions.iter().for_each(|region| region.record().clear());
    for calls in [[1, 1, 1], [2, 1, 2]] {
        let answer = client.post(BEAT, Sdk::Rust.heartbeat("w2", &taken)).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["jobs_extended"]), (200, &json!([moved])), "{answer:?}");
        assert_eq!(federation.calls(BEAT), calls);
    }
    assert_eq!(federation.last(2, BEAT)["active_jobs"], json!([moved]));
}

#[tokio::test]
async fn a_heartbeat_that_could_mean_two_lists_is_refused() {
    let federation = Federation::start().await;
    let answer = federation.client.post(BEAT, r#"{"active_jobs":[],"Active_jobs":["a"]}"#).await;
    answer.check_error(400, "invalid_request", "ambiguous_member");
    assert_eq!(federation.calls(BEAT), [0, 0, 0]);
}

#[tokio::test]
async fn a_job_that_was_enqueued_here_is_known_without_a_question() {
    let federation = Setup::default().yaml("workers: { remote_fetch: [shared] }").start().await;
    let id = federation.client.enqueue(queued("shared", "a")).await.job_id();
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["shared"], 1, "w")).await, std::slice::from_ref(&id));
    federation.client.post(BEAT, Sdk::Rust.heartbeat("w", &[id])).await;
    eventually("one region was told", async || federation.calls(BEAT) == [1, 0, 0]).await;
}
