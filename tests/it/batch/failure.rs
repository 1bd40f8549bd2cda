//! Regions that cannot take their part.

use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::json;

use super::{BATCH, alive, cancelled, check_fates, mixed, post, quiet};
use crate::support::{Federation, Setup, eventually};

#[tokio::test]
async fn a_pinned_job_whose_region_is_down_fails_the_whole_batch_with_nothing_sent() {
    let federation =
        Setup::default().by_the_documents().yaml("circuit_breaker: { failure_threshold: 1 }").steered().start().await;
    federation.regions[1].stop().await;
    assert_eq!(post(&federation, BATCH, &mixed(&[Some(1)])).await.status, 503);
    eventually("the breaker is open", async || federation.breaker(1) == "open").await;
    federation.regions.iter().for_each(|region| region.record().clear());
    for regions in [&[Some(0), Some(1), None][..], &[None, None, Some(1)], &[Some(2), Some(0), Some(1)]] {
        let answer = post(&federation, BATCH, &mixed(regions)).await;
        let error = answer.check_error(503, "backend_error", "region_unavailable");
        assert_eq!(error["details"]["region"], "eu-west-1");
    }
    assert_eq!(alive(&federation), [[""; 0]; 3]);
    assert_eq!(federation.seen("t.a"), [0; 0], "nothing was sent anywhere");
    assert!(federation.regions.iter().all(|region| region.record().requests_to("/ojs/v1/jobs").is_empty()));
}

#[tokio::test]
async fn an_unhealthy_target_fails_the_whole_batch_with_nothing_sent() {
    let federation = quiet().start().await;
    federation.regions[2].stop().await;
    federation.advance_until_health(2, "unhealthy").await;
    let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(2)])).await;
    answer.check_error(503, "backend_error", "region_unavailable");
    assert_eq!(federation.seen("t.a"), [0; 0]);
}

#[tokio::test]
async fn what_other_regions_stored_is_cancelled_when_a_region_turns_out_to_be_down() {
    let federation = quiet().start().await;
    federation.regions[1].stop().await;
    let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1), None, Some(2)])).await;
    let error = answer.check_error(503, "backend_error", "batch_failed");
    check_fates(&answer, &[], &[1], &[0, 2, 3], &[]);
    assert_eq!((&error["details"]["cause"]["region"], &error["details"]["jobs"]), (&"eu-west-1".into(), &json!([])));
    assert_eq!(alive(&federation), [[""; 0]; 3]);
    assert_eq!(cancelled(&federation), [vec!["t.a", "t.c"], vec![], vec!["t.d"]]);
    // What the client was told it may do, it may.
    federation.regions[1].resume().await.unwrap();
    assert_eq!(post(&federation, BATCH, &mixed(&[Some(0), Some(1), None, Some(2)])).await.status, 201);
    assert_eq!(alive(&federation), [vec!["t.a", "t.c"], vec!["t.b"], vec!["t.d"]]);
}

async fn check_refused(federation: &Federation, status: StatusCode, expected: u16) {
    let answer = FaultAnswer::error_document(status, "scripted");
    federation.regions[1].faults().add(When::path(BATCH).next(1), Fault::Answer { answer, store: false });
    let answer = post(federation, BATCH, &mixed(&[Some(0), Some(1)])).await;
    assert_eq!(answer.status.as_u16(), expected, "{status}: {answer:?}");
    check_fates(&answer, &[], &[1], &[0], &[]);
    let cause = &answer.json()["error"]["details"]["cause"];
    assert_eq!(cause, &json!({ "region": "eu-west-1", "status": status.as_u16(), "code": "scripted" }));
    assert_eq!(alive(federation), [[""; 0]; 3], "{status}");
}

#[tokio::test]
async fn a_region_that_refuses_its_part_gives_the_failure_its_class() {
    let federation = quiet().start().await;
    for status in [400, 403, 409, 413, 422, 429, 500, 503] {
        check_refused(&federation, StatusCode::from_u16(status).unwrap(), status).await;
    }
}

#[tokio::test]
async fn a_part_whose_outcome_is_unknown_is_told_of_and_undoes_nothing() {
    let federation = quiet().start().await;
    for (round, store) in [(1, true), (2, false)] {
        federation.regions[1].faults().add(When::path(BATCH).next(1), Fault::CutAfterRequest { store });
        let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1), Some(1), None])).await;
        let error = answer.check_error(500, "backend_error", "outcome_unknown");
        check_fates(&answer, &[0, 3], &[], &[], &[1, 2]);
        // Everything that is stored or may be can be looked up.
        let jobs = error["details"]["jobs"].as_array().unwrap();
        assert_eq!(jobs.iter().map(|job| job["index"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3]);
        for job in jobs {
            let place = federation.regions.iter().position(|region| region.id() == job["region"]).unwrap();
            let is_there = federation.stored(job["id"].as_str().unwrap()) == [(place, 1)];
            assert_eq!(is_there, place == 0 || store, "{job}");
        }
        assert_eq!(alive(&federation)[0].len(), 2 * round, "what is known to be stored stays");
        assert_eq!(federation.regions[1].record().requests_to(BATCH).len(), round, "it is not sent again");
    }
}

#[tokio::test]
async fn a_part_that_failed_beside_an_unknown_one_undoes_what_is_known_to_be_stored() {
    let federation = quiet().start().await;
    let refusal = FaultAnswer::error_document(StatusCode::UNPROCESSABLE_ENTITY, "scripted");
    federation.regions[1].faults().add(When::path(BATCH), Fault::CutAfterRequest { store: true });
    federation.regions[2].faults().add(When::path(BATCH), Fault::Answer { answer: refusal, store: false });
    let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1), Some(2)])).await;
    answer.check_error(500, "backend_error", "outcome_unknown");
    check_fates(&answer, &[], &[2], &[0], &[1]);
    assert_eq!(alive(&federation), [vec![], vec!["t.b"], vec![]]);
}

#[tokio::test]
async fn a_balancers_word_for_a_part_is_no_gateway_error_for_the_client() {
    let federation = quiet().start().await;
    for status in [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT] {
        let answer = FaultAnswer::balancer(status);
        federation.regions[1].faults().add(When::path(BATCH).next(1), Fault::Answer { answer, store: true });
        let answer = post(&federation, BATCH, &mixed(&[Some(0), Some(1)])).await;
        answer.check_error(500, "backend_error", "outcome_unknown");
        check_fates(&answer, &[0], &[], &[], &[1]);
    }
}

#[tokio::test]
async fn a_batch_that_a_region_answers_503_goes_to_no_other_because_some_of_it_may_be_stored() {
    let federation = quiet().start().await;
    let fails = |store| {
        let answer = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "scripted");
        federation.regions[0].faults().add(When::path("/ojs/v1/jobs/").next(1), Fault::Answer { answer, store });
    };
    for path in [BATCH, super::BULK] {
        fails(true);
        let answer = post(&federation, path, &mixed(&[None, None])).await;
        assert!(!answer.json().to_string().contains("outcome_unknown"), "{answer:?}");
        assert!(answer.status == 503 || answer.status == 207, "{path}: {answer:?}");
    }
    assert_eq!(alive(&federation)[1..], [vec![""; 0], vec![]]);
    // One job is refused whole.
    fails(false);
    let answer = post(&federation, BATCH, &mixed(&[None])).await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-attempts")), (201, Some("2")), "{answer:?}");
}
