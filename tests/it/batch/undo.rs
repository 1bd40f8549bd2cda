//! Undoing what was stored: what can be cancelled, what may not be, and what the client is told where it fails.

use std::time::Duration;

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::json;

use super::{BATCH, alive, cancelled, check_fates, job, mixed, post, quiet};
use crate::outcomes::{advance_until, newest_in, outcomes};
use crate::support::Setup;

#[tokio::test]
async fn what_could_not_be_cancelled_is_told_of_and_not_to_be_sent_again() {
    let federation = quiet().start().await;
    federation.regions[1].stop().await;
    let broken = FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "scripted");
    let deletes = When::path("/ojs/v1/jobs/").method(Method::DELETE);
    federation.regions[2].faults().add(deletes, Fault::Answer { answer: broken, store: false });
    let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1), Some(2)])).await;
    let error = answer.check_error(500, "backend_error", "partly_created");
    check_fates(&answer, &[2], &[1], &[0], &[]);
    let left = &error["details"]["jobs"][0];
    assert_eq!((&left["index"], &left["region"]), (&2.into(), &"ap-south-1".into()));
    assert_eq!(federation.stored(left["id"].as_str().unwrap()), [(2, 1)]);
    assert_eq!(alive(&federation), [vec![], vec![], vec!["t.c"]]);
}

#[tokio::test]
async fn a_job_whose_cancellation_may_have_come_through_is_not_told_to_be_there() {
    let lost = |store| Fault::CutAfterRequest { store };
    let answered = |answer, store| Fault::Answer { answer, store };
    let page = || FaultAnswer::balancer(StatusCode::BAD_GATEWAY);
    // As of another sidecar, whose region did not answer.
    let document = || FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    for (fault, is_cancelled) in
        [(lost(true), true), (answered(page(), true), true), (answered(document(), true), true), (lost(false), false)]
    {
        let federation = quiet().start().await;
        federation.regions[1].stop().await;
        federation.regions[0].faults().add(When::path("/ojs/v1/jobs/").method(Method::DELETE).next(2), fault);
        federation.mute(0);
        let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1)])).await;
        let error = answer.check_error(500, "backend_error", "outcome_unknown");
        check_fates(&answer, &[], &[1], &[], &[0]);
        let left = &error["details"]["jobs"][0];
        assert_eq!((&left["index"], &left["region"]), (&0.into(), &"us-east-1".into()));
        // The resolver asks, and says what it heard; a job that is there may be cancelled yet, until nothing can come any more.
        federation.regions[0].faults().clear();
        if !is_cancelled {
            federation.advance(Duration::from_secs(60));
            assert_eq!(newest_in(&federation.client, "unknown").await["cancelled_in"], json!(null));
            federation.advance(Duration::from_secs(15 * 60));
        }
        let state = if is_cancelled { "absent" } else { "stored" };
        let is_known = async || outcomes(&federation.client).await["outcomes"][0]["state"] == state;
        advance_until(&federation, "it is known", is_known).await;
        let shown = newest_in(&federation.client, state).await;
        assert_eq!((&shown["job_id"], &shown["region"]), (&left["id"], &left["region"]));
        let cancelled_in = if is_cancelled { json!("us-east-1") } else { json!(null) };
        assert_eq!(shown["cancelled_in"], cancelled_in);
        let copies = if is_cancelled { cancelled(&federation) } else { alive(&federation) };
        assert_eq!(copies, [vec!["t.a"], vec![], vec![]]);
    }
}

#[tokio::test]
async fn a_cancellation_counts_where_the_region_shows_it() {
    let over = || FaultAnswer::error_document(StatusCode::CONFLICT, "conflict");
    let busy = FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    let lost = |store| Fault::CutAfterRequest { store };
    let answered = |answer| Fault::Answer { answer, store: false };
    let cases = [
        // Both answers lost, and the region shows a cancelled job.
        (lost(true), lost(true), "batch_failed", [vec![], vec![0], vec![]]),
        // "It is over", after a try that may have come through; but the job that is shown is not.
        (lost(false), answered(over()), "outcome_unknown", [vec![], vec![], vec![0]]),
        // The same after one that did not.
        (answered(busy), answered(over()), "partly_created", [vec![0], vec![], vec![]]),
    ];
    for (first, second, reason, [created, cancelled, unknown]) in cases {
        let federation = quiet().start().await;
        federation.regions[1].stop().await;
        for fault in [first, second] {
            let deletes = When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1);
            federation.regions[0].faults().add(deletes, fault);
        }
        let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1)])).await;
        assert_eq!(answer.reason(), reason, "{answer:?}");
        check_fates(&answer, &created, &[1], &cancelled, &unknown);
    }
}

#[tokio::test]
async fn a_cancellation_whose_answer_was_lost_is_asked_for_again() {
    let federation = quiet().start().await;
    federation.regions[1].stop().await;
    let deletes = When::path("/ojs/v1/jobs/").method(Method::DELETE).next(1);
    federation.regions[0].faults().add(deletes, Fault::CutAfterRequest { store: true });
    let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1)])).await;
    answer.check_error(503, "backend_error", "batch_failed");
    check_fates(&answer, &[], &[1], &[0], &[]);
    assert_eq!(alive(&federation), [[""; 0]; 3]);
}

#[tokio::test]
async fn a_job_that_was_there_before_is_never_cancelled() {
    let federation = quiet().start().await;
    let mut unique = job("t.u", Some(0));
    unique["options"] = json!({ "unique": { "keys": ["type"], "on_conflict": "ignore" } });
    let before = post(&federation, "/ojs/v1/jobs", &unique).await.job_id();
    federation.regions[1].stop().await;
    let answer = post(&federation, BATCH, &json!({ "jobs": [unique, job("t.b", Some(1)), job("t.c", Some(0))] })).await;
    check_fates(&answer, &[0], &[1], &[2], &[]);
    assert_eq!(federation.stored(&before), [(0, 1)]);
    assert_eq!(alive(&federation), [vec!["t.u"], vec![], vec![]]);
}

#[tokio::test]
async fn what_a_server_left_of_a_part_that_it_refused_is_cancelled_too() {
    // Servers in Go store one job after the other, and leave those before the one that failed.
    let federation =
        Setup::default().steered().yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }").start().await;
    let mut unique = job("t.u", Some(1));
    unique["options"] = json!({ "unique": { "keys": ["type"], "on_conflict": "reject" } });
    assert_eq!(post(&federation, "/ojs/v1/jobs", &unique).await.status, 201);
    let jobs = json!({ "jobs": [job("t.a", Some(0)), job("t.b", Some(1)), unique, job("t.d", Some(1))] });
    let answer = post(&federation, BATCH, &jobs).await;
    answer.check_error(500, "backend_error", "batch_failed");
    check_fates(&answer, &[], &[2, 3], &[0, 1], &[]);
    assert_eq!(alive(&federation), [vec![], vec!["t.u"], vec![]]);
    assert_eq!(cancelled(&federation), [vec!["t.a"], vec!["t.b"], vec![]]);
}

#[tokio::test]
async fn what_a_server_left_of_a_part_that_it_answered_503_is_cancelled_too() {
    let federation = quiet().start().await;
    let answer = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "scripted");
    federation.regions[1].faults().add(When::path(BATCH).next(1), Fault::Answer { answer, store: true });
    let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1), Some(1)])).await;
    check_fates(&answer, &[], &[], &[0, 1, 2], &[]);
    assert_eq!(alive(&federation), [[""; 0]; 3]);
    assert_eq!(cancelled(&federation), [vec!["t.a"], vec!["t.b", "t.c"], vec![]]);
}

#[tokio::test]
async fn a_breaker_that_opens_meanwhile_lets_no_cancellation_through() {
    let federation =
        Setup::default().steered().by_the_documents().yaml("circuit_breaker: { failure_threshold: 1 }").start().await;
    let refusal = FaultAnswer::error_document(StatusCode::UNPROCESSABLE_ENTITY, "scripted");
    federation.regions[1].faults().add(When::path(BATCH), Fault::Answer { answer: refusal, store: false });
    let deletes = When::path("/ojs/v1/jobs/").method(Method::DELETE);
    federation.regions[0].faults().add(deletes, Fault::CutAfterRequest { store: false });
    let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1)])).await;
    answer.check_error(500, "backend_error", "outcome_unknown");
    check_fates(&answer, &[], &[1], &[], &[0]);
    let calls = federation.regions[0].record().requests_to("/ojs/v1/jobs/");
    assert_eq!(calls.iter().filter(|call| call.method == Method::DELETE).count(), 1);
}
