//! FETCH: the local region first, and others for what is missing where the operator permits it.

use ojs_testbed::{Fault, FaultAnswer, Gate, JobState, When};
use serde_json::json;

use super::sdk::Sdk;
use super::{FETCH, fetch, ids, pinned_in, queued};
use crate::support::{Federation, Setup, eventually};

const SHARED: &str = "workers: { remote_fetch: [shared, other] }";
const LEFT: &str = r#"remote_fetch_jobs_total{region="eu-west-1",result="left"}"#;
const GIVEN: &str = r#"remote_fetch_jobs_total{region="eu-west-1",result="given"}"#;

async fn sharing() -> Federation {
    Setup::default().yaml(SHARED).start().await
}

/// Takes the other regions but one out of the way, so that the nearest one is known.
async fn only_with(federation: &Federation, place: usize) {
    let other = 3 - place;
    federation.regions[other].faults().add(
        When::path(FETCH),
        Fault::Answer {
            answer: FaultAnswer::error_document(http::StatusCode::NOT_IMPLEMENTED, "unsupported"),
            store: false,
        },
    );
}

#[tokio::test]
async fn jobs_of_other_regions_stay_there_unless_their_queue_is_shared() {
    let federation = Federation::start().await;
    federation.fill(1, "shared", 3);
    for sdk in Sdk::ALL {
        assert!(fetch(federation.client, sdk.fetch(&["shared"], 3, "w")).await.is_empty());
    }
    assert_eq!(federation.calls(FETCH), [5, 0, 0]);
}

#[tokio::test]
async fn others_are_asked_for_what_is_missing_and_for_shared_queues_only() {
    for sdk in Sdk::ALL {
        let federation = sharing().await;
        only_with(&federation, 1).await;
        federation.fill(0, "own", 1);
        federation.fill(1, "own", 5);
        federation.fill(1, "shared", 5);
        let asked = sdk.fetch(&["own", "shared", "other"], 4, "w");
        let taken = fetch(federation.client, asked.clone()).await;
        assert_eq!((taken.len(), &*federation.heard(0, FETCH)[0].body), (4, asked.as_bytes()), "{sdk:?}");
        let remote = federation.last(1, FETCH);
        assert_eq!(remote["queues"], json!(["shared", "other"]), "{sdk:?}");
        let count = if sdk == Sdk::Ruby { &remote["batch_size"] } else { &remote["count"] };
        assert_eq!(
            (count, remote.as_object().unwrap().len()),
            (&json!(3), serde_json::from_str::<serde_json::Value>(&asked).unwrap().as_object().unwrap().len())
        );
        let jobs = federation.regions[1].jobs();
        assert_eq!((jobs.count_in(JobState::Active), jobs.count_in(JobState::Available)), (3, 7), "{sdk:?}");
        assert_eq!(federation.metric(GIVEN).await, 3.0);
        for id in &taken {
            assert_eq!(federation.client.post(super::ACK, sdk.ack(id)).await.status, 200, "{sdk:?}");
        }
        assert_eq!(federation.calls(super::ACK), [1, 3, 0], "{sdk:?}");
    }
}

#[tokio::test]
async fn nobody_else_is_asked_when_the_local_region_has_enough() {
    let federation = sharing().await;
    for place in 0..3 {
        federation.fill(place, "shared", 2);
    }
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["shared"], 2, "w")).await.len(), 2);
    assert_eq!(federation.calls(FETCH), [1, 0, 0]);
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["shared"], 3, "w")).await.len(), 3);
    let asked: usize = federation.calls(FETCH).iter().sum();
    assert_eq!(asked, 4, "one after the other, until there is enough: {:?}", federation.calls(FETCH));
}

#[tokio::test]
async fn jobs_of_several_regions_are_passed_on_as_each_wrote_them_the_first_one_twice() {
    let federation = sharing().await;
    only_with(&federation, 1).await;
    for (place, args) in [(0, "local"), (1, "remote")] {
        let pinned = queued("shared", args).replace("\"args\":", "\"n\":1E2,\"args\":");
        federation.beside(place).await.client.enqueue(pinned).await;
    }
    let answer = federation.client.post(FETCH, Sdk::Rust.fetch(&["shared"], 2, "w")).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert_eq!((text.matches("1E2").count(), answer.json()["jobs"][0] == answer.json()["job"]), (3, true), "{text}");
    assert_eq!(answer.region(), "us-east-1");
    let stored = federation.regions[1].jobs()[0].id.clone();
    assert_eq!(ids(&answer.json()["jobs"])[1], stored);
}

#[tokio::test]
async fn a_job_that_is_pinned_elsewhere_is_never_handed_out_and_ends_the_sharing_of_its_queue() {
    let federation = sharing().await;
    only_with(&federation, 1).await;
    let id = federation.client.enqueue(pinned_in("shared", "eu-west-1", "secret-of-eu")).await.job_id();
    federation.fill(1, "shared", 1);
    let answer = federation.client.post(FETCH, Sdk::Rust.fetch(&["shared", "other"], 2, "w")).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(!text.contains("secret-of-eu") && !text.contains(&id), "{text}");
    assert_eq!(ids(&answer.json()["jobs"]).len(), 1, "the other job is no less welcome");
    assert_eq!((federation.metric(LEFT).await, federation.metric(GIVEN).await), (1.0, 1.0));
    // Left to its lease, and nothing is said about it.
    assert_eq!(federation.state(1, &id), JobState::Active);
    assert_eq!((federation.calls(super::NACK), federation.calls(super::ACK)), (vec![0; 3], vec![0; 3]));
    // The declaration was wrong: the queue is the local region's only, another one is shared as before.
    federation.fill(1, "shared", 1);
    federation.fill(1, "other", 1);
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["shared", "other"], 2, "w")).await.len(), 1);
    assert_eq!(federation.last(1, FETCH)["queues"], json!(["other"]));
    let asked = federation.calls(FETCH)[1];
    assert!(fetch(federation.client, Sdk::Rust.fetch(&["shared"], 2, "w")).await.is_empty());
    assert_eq!(federation.calls(FETCH)[1], asked);
    assert!(federation.seen("secret-of-eu").iter().all(|place| *place == 1));
}

#[tokio::test]
async fn a_rule_that_binds_a_job_to_its_region_is_heeded_like_a_pin() {
    let rules = "routing: { rules: [{ match: { job_type: \"eu.*\" }, target: { regions: [eu-west-1] } }] }";
    let federation = Setup::default().yaml(SHARED).yaml(rules).start().await;
    only_with(&federation, 1).await;
    let bound = queued("shared", "a").replace("email.send", "eu.send");
    assert_eq!(federation.client.enqueue(bound).await.region(), "eu-west-1");
    assert!(fetch(federation.client, Sdk::Rust.fetch(&["shared"], 1, "w")).await.is_empty());
    assert_eq!(federation.metric(LEFT).await, 1.0);
}

#[tokio::test]
async fn a_job_that_is_pinned_to_this_region_comes_home() {
    let federation = sharing().await;
    only_with(&federation, 1).await;
    let pin = pinned_in("shared", "us-east-1", "a");
    // Where somebody has put it who knows no federation.
    federation.regions[1].put(&pin, 1);
    assert_eq!(fetch(federation.client, Sdk::Rust.fetch(&["shared"], 1, "w")).await.len(), 1);
}

#[tokio::test]
async fn while_the_local_region_is_down_shared_queues_are_served_and_others_are_told_to_wait() {
    let federation = Setup::default().yaml(SHARED).yaml("circuit_breaker: { failure_threshold: 1 }").start().await;
    only_with(&federation, 1).await;
    federation.fill(1, "shared", 3);
    federation.regions[0].stop().await;
    for _ in 0..2 {
        let answer = federation.client.post(FETCH, Sdk::Rust.fetch(&["own", "shared"], 1, "w")).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "eu-west-1"), "{answer:?}");
        assert_eq!(ids(&answer.json()["jobs"]).len(), 1);
        let answer = federation.client.post(FETCH, Sdk::Rust.fetch(&["own"], 1, "w")).await;
        answer.check_error(503, "backend_error", "owner_unavailable");
        eventually("the breaker of the local region is open", async || federation.breaker(0) == "open").await;
    }
}

#[tokio::test]
async fn a_region_that_is_down_or_drained_or_refuses_is_passed_over() {
    let federation = Setup::default().yaml(SHARED).region(1, "weight: 0").start().await;
    federation.fill(1, "shared", 1);
    federation.regions[2].faults().add(When::path(FETCH), Fault::CutAfterRequest { store: false });
    let answer = federation.client.post(FETCH, Sdk::Rust.fetch(&["shared"], 1, "w")).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (200, "us-east-1"), "{answer:?}");
    assert_eq!(federation.calls(FETCH), [1, 0, 1], "what may have claimed jobs is not asked again");
}

#[tokio::test]
async fn a_call_that_the_local_region_refuses_is_refused() {
    let federation = sharing().await;
    federation.fill(1, "shared", 1);
    let answer = federation.client.post(FETCH, r#"{"queues":["shared"],"count":"one"}"#).await;
    assert_eq!((answer.status.as_u16(), federation.calls(FETCH)), (400, vec![1, 0, 0]), "{answer:?}");
}

#[tokio::test]
async fn one_fetch_of_a_worker_is_under_way_in_another_region_and_others_are_not_held_up() {
    let federation = sharing().await;
    only_with(&federation, 1).await;
    let gate = Gate::new();
    federation.regions[1].faults().add(When::path(FETCH).next(1), Fault::Hold { gate: gate.clone() });
    federation.fill(1, "shared", 2);
    let client = federation.client;
    let held = tokio::spawn(fetch(client, Sdk::Rust.fetch(&["shared"], 1, "w")));
    federation.regions[1].record().wait_for(|record| record.requests_to(FETCH).len() == 1).await;
    assert!(fetch(client, Sdk::Rust.fetch(&["shared"], 1, "w")).await.is_empty());
    assert_eq!(federation.calls(FETCH)[1], 1);
    assert_eq!(fetch(client, Sdk::Rust.fetch(&["shared"], 1, "v")).await.len(), 1);
    gate.open();
    assert_eq!(held.await.unwrap().len(), 1);
    federation.fill(1, "shared", 1);
    assert_eq!(fetch(client, Sdk::Rust.fetch(&["shared"], 1, "w")).await.len(), 1);
}
