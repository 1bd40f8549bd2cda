//! Creating calls while the local region fails: nothing is sent twice, nothing is sent elsewhere, nothing is called stored.

use http::StatusCode;
use ojs_sidecar::demo::{Fault, FaultAnswer, When};

use super::{CALLS, CANARY, SHAPES, body, call};
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
async fn the_local_regions_own_word_is_passed_on() {
    let federation = Federation::start().await;
    for status in [StatusCode::CONFLICT, StatusCode::UNPROCESSABLE_ENTITY, StatusCode::SERVICE_UNAVAILABLE] {
        let answer = FaultAnswer::error_document(status, "scripted").header("retry-after", "7");
        federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
        let answer = call(&federation, "POST", BATCH, &flexible()).await;
        assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (status, Some("scripted")));
        assert_eq!(answer.header("retry-after"), Some("7"));
        assert_eq!(federation.seen(CANARY), [0]);
    }
}

#[tokio::test]
async fn creating_calls_are_refused_while_the_local_region_is_down() {
    let federation = Setup::default().yaml("circuit_breaker: { failure_threshold: 3 }").steered().start().await;
    federation.regions[0].stop().await;
    let mut breakers = Vec::new();
    for (method, path) in CALLS {
        breakers.push(federation.breaker(0));
        let answer = call(&federation, method, path, &flexible()).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "owner_unavailable"), "{answer:?}");
        assert!(answer.header("retry-after").is_some_and(|wait| wait.parse::<u64>().unwrap() >= 1), "{answer:?}");
    }
    assert!(breakers.starts_with(&["closed"]) && breakers.ends_with(&["open"]), "{breakers:?}");
    assert_eq!(federation.seen(CANARY), [0; 0]);

    federation.regions[0].resume().await.unwrap();
    federation.advance(std::time::Duration::from_secs(60));
    eventually("the local region is back", async || federation.breaker(0) == "closed").await;
    assert_eq!(call(&federation, "POST", BATCH, &flexible()).await.status, 201);
}
