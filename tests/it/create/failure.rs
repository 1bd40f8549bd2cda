//! Creating calls while a region fails: nothing is sent twice, nothing pinned is sent elsewhere, nothing is called stored.

use std::time::Duration;

use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::json;

use super::{CALLS, CANARY, RECREATING, SHAPES, body, call};
use crate::support::{Federation, Setup, eventually};

const BATCH: &str = "/ojs/v1/jobs/batch";

fn flexible() -> String {
    body(&SHAPES[0].replace(",\"meta\":{@}", ""), "")
}

async fn check_unknown(federation: &Federation, fault: Fault) {
    let local = &federation.regions[0];
    local.faults().add(When::path("/ojs/v1/").method(http::Method::POST).next(1), fault.clone());
    let answer = call(federation, "POST", BATCH, &flexible()).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{fault:?}");
    assert_eq!(answer.json()["error"]["retryable"], false);
    assert_eq!(answer.json()["error"]["details"]["region"], "us-east-1");
    assert_eq!(
        local.record().requests_to(BATCH).len(),
        1,
        "{fault:?}: it may have been received, so it is not repeated"
    );
    assert_eq!(federation.seen(CANARY), [0]);
    local.record().clear();
}

#[tokio::test]
async fn a_creating_call_that_may_have_been_received_is_answered_unknown_and_never_repeated() {
    let federation = Setup::default()
        .yaml("limits: { call_timeout: 400ms }")
        .yaml("circuit_breaker: { failure_threshold: 100 }")
        .start()
        .await;
    for fault in [
        Fault::CutAfterRequest { store: true },
        Fault::CutMidResponse { after_bytes: 5 },
        Fault::HangAfterBody { store: false },
        Fault::Answer { answer: FaultAnswer::balancer(StatusCode::BAD_GATEWAY), store: true },
        Fault::Answer { answer: FaultAnswer::balancer(StatusCode::SERVICE_UNAVAILABLE), store: false },
        Fault::Answer { answer: FaultAnswer::balancer(StatusCode::GATEWAY_TIMEOUT), store: false },
    ] {
        check_unknown(&federation, fault).await;
    }
}

#[tokio::test]
async fn a_regions_own_word_is_passed_on() {
    let federation = Setup::default().steered().start().await;
    for status in [StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY, StatusCode::TOO_MANY_REQUESTS] {
        check_passed_on(&federation, &flexible(), status, 0).await;
        // For a while it is heeded that the region has asked for less.
        federation.advance(Duration::from_secs(60));
    }
    let pinned = body(SHAPES[0], r#""ojs.federation.region":"eu-west-1""#);
    check_passed_on(&federation, &pinned, StatusCode::SERVICE_UNAVAILABLE, 1).await;
}

async fn check_passed_on(federation: &Federation, body: &str, status: StatusCode, place: usize) {
    let answer = FaultAnswer::error_document(status, "scripted").header("retry-after", "7");
    federation.regions[place].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
    let answer = call(federation, "POST", BATCH, body).await;
    assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (status, Some("scripted")));
    assert_eq!(answer.header("retry-after"), Some("7"));
    assert_eq!(federation.seen(CANARY), [place]);
    federation.regions[place].record().clear();
}

#[tokio::test]
async fn what_is_flexible_fails_over_whole_and_what_lives_somewhere_does_not() {
    let federation = Setup::default().yaml("circuit_breaker: { failure_threshold: 1000 }").steered().start().await;
    federation.regions[0].stop().await;
    for path in [BATCH, "/ojs/v1/jobs/bulk", "/ojs/v1/workflows"] {
        let answer = call(&federation, "POST", path, &flexible()).await;
        let seen = federation.seen(CANARY);
        assert_eq!(seen.len(), 1, "{path}: {answer:?}");
        assert_eq!(answer.region(), federation.regions[seen[0]].id());
        assert_eq!(answer.header("ojs-federation-attempts"), Some("2"));
        federation.regions[seen[0]].record().clear();
    }
    // A cron job is to live in the local region, and a retry belongs to whoever holds the job.
    let (cron, retry) = (body(SHAPES[2], r#""tenant":"t""#), flexible());
    for (method, path, body) in [
        ("POST", "/ojs/v1/cron", &cron),
        ("PUT", "/ojs/v1/cron/nightly", &cron),
        ("PATCH", "/ojs/v1/workflows/wf_1", &retry),
        ("POST", RECREATING[0].1, &retry),
        ("POST", RECREATING[1].1, &retry),
    ] {
        let answer = call(&federation, method, path, body).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "owner_unavailable"), "{path} {answer:?}");
        assert!(answer.header("retry-after").is_some_and(|wait| wait.parse::<u64>().unwrap() >= 1), "{answer:?}");
    }
    assert_eq!(federation.seen(CANARY), [0; 0]);
}

#[tokio::test]
async fn pinned_creating_calls_are_refused_while_their_region_is_down() {
    let federation = Setup::default().yaml("circuit_breaker: { failure_threshold: 3 }").steered().start().await;
    federation.regions[1].stop().await;
    let mut breakers = Vec::new();
    for (method, path) in CALLS {
        breakers.push(federation.breaker(1));
        let pinned = body(SHAPES[0], r#""ojs.federation.region":"eu-west-1""#);
        let answer = call(&federation, method, path, &pinned).await;
        let unavailable = ["region_unavailable", "owner_unavailable"].contains(&answer.reason().as_str());
        assert!(answer.status == 503 && unavailable, "{method} {path}: {answer:?}");
        assert!(answer.header("retry-after").is_some_and(|wait| wait.parse::<u64>().unwrap() >= 1), "{answer:?}");
    }
    assert!(breakers.starts_with(&["closed"]) && breakers.ends_with(&["open"]), "{breakers:?}");
    assert_eq!(federation.seen(CANARY), [0; 0]);

    federation.regions[1].resume().await.unwrap();
    federation.advance(std::time::Duration::from_secs(60));
    eventually("the region is back", async || federation.breaker(1) == "closed").await;
    let pinned = body(SHAPES[0], r#""ojs.federation.region":"eu-west-1""#);
    assert_eq!(call(&federation, "POST", BATCH, &pinned).await.status, 201);
}

#[tokio::test]
async fn a_retried_dead_letter_that_was_remembered_wrongly_is_looked_for_again() {
    let federation = Setup::default().by_the_documents().start().await;
    let dead = json!({
        "type": "a", "args": [], "meta": { "ojs.federation.region": "eu-west-1" },
        "options": { "retry": { "max_attempts": 1, "on_exhaustion": "dead_letter" } },
    });
    let id = federation.client.enqueue(dead.to_string()).await.job_id();
    let beside = federation.sidecar_in("eu-west-1", &[]).await;
    let worker = beside.client;
    worker.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#).await;
    let failed = json!({ "job_id": id, "error": { "code": "x", "message": "x", "retryable": false } });
    assert_eq!(worker.post("/ojs/v1/workers/nack", failed.to_string()).await.status, 200);
    let wrong = federation.shared.registry.view().regions[2].id.clone();
    let path = format!("/ojs/v1/dead-letter/{id}/retry");
    federation.shared.owners.learn(&id, &wrong);
    federation.regions[1].stop().await;
    federation.client.post(&path, "").await.check_error(503, "backend_error", "owner_unavailable");
    federation.regions[1].resume().await.unwrap();
    federation.shared.owners.learn(&id, &wrong);
    let retried = federation.client.post(&path, "").await;
    assert!(retried.status.is_success() && retried.region() == "eu-west-1", "{retried:?}");
}
