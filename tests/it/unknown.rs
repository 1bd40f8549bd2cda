//! What may have been received is never sent a second time while nobody can say what became of it; what a region says for
//! itself is passed on. What follows where it can be said is in `outcomes`.

use bytes::Bytes;
use std::time::Duration;

use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, Gate, When};
use tokio::task::JoinSet;

use crate::support::{Answer, Federation, Setup, eventually, job, pinned};

/// The local region and one other; breakers never open, so that each case stands for itself.
fn quiet(http2: bool) -> Setup {
    let setup =
        Setup::default().steered().regions(2).yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }");
    if http2 { setup.http2() } else { setup }
}

/// Sends a flexible and a pinned job into one fault each: both end as unknown, in that region and nowhere else.
async fn check(federation: &Federation, name: &str, fault: &Fault) {
    let counted = r#"unknown_outcomes_total{region="us-east-1"}"#;
    for body in [job(&format!("{name}-flexible")), pinned("us-east-1", &format!("{name}-pinned"))] {
        let (before, unknown) = (federation.enqueues(0), federation.metric(counted).await);
        federation.regions[0].faults().add(When::enqueue().next(1), fault.clone());
        check_unknown(&federation.client.enqueue(body).await);
        assert_eq!(federation.enqueues(0), before + 1, "{name}: sent once to its region");
        assert_eq!(federation.metric(counted).await, unknown + 1.0);
    }
    assert_eq!(federation.enqueues(1), 0, "{name}: no other region saw anything");
    assert!(!federation.seen(name).contains(&1), "{name}");
}

fn check_unknown(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    let error = &answer.json()["error"];
    assert_eq!((&error["code"], &error["retryable"]), (&"backend_error".into(), &false.into()));
    assert_eq!(error["details"]["region"], "us-east-1");
    assert_eq!(error["details"]["job_id"].as_str().map(str::len), Some(36), "the id that the job was sent with");
    assert_eq!(answer.header("ojs-federation-region"), Some("us-east-1"));
    assert_eq!(answer.header("ojs-federation-attempts"), Some("1"));
    assert_eq!(answer.header("retry-after"), None, "nobody may be invited to send it again");
}

#[tokio::test]
async fn a_connection_cut_after_bytes_were_written_is_unknown_and_never_sent_again() {
    for http2 in [false, true] {
        let federation = quiet(http2).start().await;
        federation.mute(0);
        check(&federation, "before-body", &Fault::CutBeforeBody).await;
        check(&federation, "cut-unstored", &Fault::CutAfterRequest { store: false }).await;
        check(&federation, "cut-stored", &Fault::CutAfterRequest { store: true }).await;
        check(&federation, "mid-head", &Fault::CutMidResponse { after_bytes: 0 }).await;
        check(&federation, "mid-body", &Fault::CutMidResponse { after_bytes: 1_000_000 }).await;
        // Each fault struck two jobs, and three of the five faults store.
        assert!(federation.regions[0].jobs().iter().all(|job| job.stored == 1));
        assert_eq!(federation.regions[0].jobs().len(), 6);
    }
}

#[tokio::test]
async fn the_id_in_the_answer_is_the_one_that_the_region_stored() {
    let federation = quiet(false).start().await;
    federation.mute(0);
    federation.regions[0].faults().add(When::enqueue(), Fault::CutAfterRequest { store: true });
    let answer = federation.client.enqueue(job("a")).await;
    let id = answer.json()["error"]["details"]["job_id"].as_str().unwrap().to_owned();
    assert_eq!(federation.stored(&id), [(0, 1)]);
    let own = r#"{"id":"01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f","type":"a.b","args":[]}"#;
    let answer = federation.client.enqueue(own).await;
    assert_eq!(answer.json()["error"]["details"]["job_id"], "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f");
}

/// Two jobs fall into every way of keeping silent, until the deadline of their calls.
async fn check_silence(http2: bool) {
    let federation = quiet(http2).yaml("limits: { call_timeout: 2s }").start().await;
    federation.mute(0);
    let gate = Gate::new();
    for fault in [
        Fault::HangBeforeBody,
        Fault::HangAfterBody { store: false },
        Fault::HangAfterBody { store: true },
        Fault::Hold { gate: gate.clone() },
    ] {
        federation.regions[0].faults().add(When::enqueue().next(2), fault);
    }
    let client = federation.client;
    let bodies =
        (0..4).flat_map(|call| [job(&format!("silent-{call}")), pinned("us-east-1", &format!("silent-{call}"))]);
    let calls: JoinSet<_> = bodies.map(|body| async move { client.enqueue(body).await }).collect();
    calls.join_all().await.iter().for_each(check_unknown);
    assert_eq!(federation.regions[0].jobs().len(), 2);
    gate.open();
    eventually("the held jobs are stored late", async || federation.regions[0].jobs().len() == 4).await;
    assert_eq!((federation.enqueues(0), federation.enqueues(1)), (8, 0), "each was sent once");
    assert_eq!(federation.seen("silent-"), [0]);
}

#[tokio::test]
async fn a_region_that_does_not_answer_in_time_is_unknown_and_never_sent_again() {
    check_silence(false).await;
}

#[tokio::test]
async fn an_http2_region_that_does_not_answer_in_time_is_unknown_and_never_sent_again() {
    check_silence(true).await;
}

#[tokio::test]
async fn a_balancers_word_is_unknown_and_never_a_gateway_error_for_the_client() {
    for http2 in [false, true] {
        let federation = quiet(http2).start().await;
        federation.mute(0);
        for status in [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT] {
            for store in [false, true] {
                let answer = FaultAnswer::balancer(status);
                check(&federation, &format!("balancer-{}-{store}", status.as_u16()), &Fault::Answer { answer, store })
                    .await;
            }
        }
        // An error document does not make a gateway's status the region's word.
        for status in [StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT] {
            let answer = FaultAnswer::error_document(status, "backend_error");
            check(&federation, &format!("document-{}", status.as_u16()), &Fault::Answer { answer, store: false }).await;
        }
        let answer = FaultAnswer { body: Bytes::new(), ..FaultAnswer::balancer(StatusCode::SERVICE_UNAVAILABLE) };
        check(&federation, "empty", &Fault::Answer { answer, store: false }).await;
    }
}

/// The region's answer reaches the client as it is, and no other region is tried.
async fn check_passed_on(federation: &Federation, body: String, answer: FaultAnswer) {
    let region = &federation.regions[0];
    region.faults().add(When::enqueue().next(1), Fault::Answer { answer: answer.clone(), store: false });
    let seen = federation.client.enqueue(body).await;
    assert_eq!((seen.status, &seen.body), (answer.status, &answer.body));
    for (name, value) in &answer.headers {
        assert_eq!(seen.header(name), Some(value.as_str()), "{}", answer.status);
    }
    assert_eq!(seen.header("ojs-federation-region"), Some("us-east-1"));
    assert_eq!(seen.header("ojs-federation-attempts"), Some("1"));
    assert_eq!(federation.enqueues(1), 0);
    assert_eq!(federation.breaker(0), "closed");
}

#[tokio::test]
async fn a_regions_own_503_is_passed_on_for_a_pinned_job() {
    let federation = Setup::default().steered().regions(2).start().await;
    let answer =
        FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error").header("retry-after", "7");
    check_passed_on(&federation, pinned("us-east-1", "a"), answer).await;
    assert!(federation.regions[0].jobs().is_empty());
}

#[tokio::test]
async fn a_503_for_one_queue_is_passed_on_and_says_nothing_against_the_region() {
    let federation = Setup::default().steered().regions(2).start().await;
    for round in 0..30 {
        // A flexible job would look elsewhere after the first one.
        let body = pinned("us-east-1", &format!("a{round}"));
        check_passed_on(&federation, body, FaultAnswer::queue_unavailable()).await;
    }
}

#[tokio::test]
async fn client_errors_backpressure_and_a_few_500s_are_passed_on_and_open_no_breaker() {
    let federation = Setup::default().steered().regions(2).start().await;
    for status in [500, 501, 400, 401, 404, 409, 413, 422, 429] {
        let status = StatusCode::from_u16(status).unwrap();
        for body in [job("a"), pinned("us-east-1", "b")] {
            for _ in 0..3 {
                let answer = FaultAnswer::error_document(status, "scripted").header("retry-after", "3");
                // Long enough for flexible jobs to come back: for a while they heed that the region asked for less.
                federation.advance(Duration::from_secs(60));
                check_passed_on(&federation, body.clone(), answer).await;
            }
        }
    }
    federation.advance(Duration::from_secs(60));
    let answer = FaultAnswer::balancer(StatusCode::INTERNAL_SERVER_ERROR);
    check_passed_on(&federation, job("c"), answer).await;
}
