//! Acknowledgements: to the owner and nowhere else, and not lost with an answer.

use bytes::Bytes;
use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, JobState, When};

use super::sdk::Sdk;
use super::{ACK, NACK, claimed};
use crate::support::{Federation, Setup, eventually};

/// A federation, and a job that a worker beside `ap-south-1` has claimed there; the sidecar under test knows nothing of that.
async fn remote_job(setup: Setup) -> (Federation, String) {
    let federation = setup.start().await;
    let beside = federation.beside(2).await;
    let id = claimed(&federation, &beside, 2, "a").await;
    (federation, id)
}

fn patient() -> Setup {
    Setup::default().yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
}

#[tokio::test]
async fn an_acknowledgement_reaches_the_owner_byte_for_byte_and_no_other_region() {
    for sdk in Sdk::ALL {
        let (federation, id) = remote_job(Setup::default()).await;
        let body = sdk.ack(&id);
        let answer = federation.client.post(ACK, body.clone()).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "ap-south-1"), "{answer:?}");
        assert_eq!(answer.json()["acknowledged"], true);
        assert_eq!((federation.calls(ACK), federation.state(2, &id)), (vec![0, 0, 1], JobState::Completed));
        assert_eq!(federation.heard(2, ACK)[0].body, Bytes::from(body));
    }
}

#[tokio::test]
async fn a_failure_reaches_the_owner_and_no_other_region() {
    let (federation, id) = remote_job(Setup::default()).await;
    let answer = federation.client.post(NACK, Sdk::Python.nack(&id)).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["state"]), (200, &"retryable".into()), "{answer:?}");
    assert_eq!((federation.calls(NACK), federation.state(2, &id)), (vec![0, 0, 1], JobState::Retryable));
}

#[tokio::test]
async fn progress_and_the_paths_of_adapters_reach_the_owner_too() {
    let (federation, id) = remote_job(Setup::default()).await;
    federation.client.post("/ojs/v1/workers/progress", format!(r#"{{"job_id":"{id}","percentage":5}}"#)).await;
    federation.client.post(&format!("/ojs/v1/jobs/{id}/ack"), "{}").await;
    federation.client.post(&format!("/ojs/v1/jobs/{id}/nack"), "{}").await;
    for path in
        ["/ojs/v1/workers/progress".to_owned(), format!("/ojs/v1/jobs/{id}/ack"), format!("/ojs/v1/jobs/{id}/nack")]
    {
        assert_eq!(federation.calls(&path), [0, 0, 1], "{path}");
    }
}

#[tokio::test]
async fn an_acknowledgement_whose_answer_is_lost_is_told_as_the_success_that_it_was() {
    let (federation, id) = remote_job(patient()).await;
    // The second one finds the job completed already; an earlier try of the same call may be why.
    for fault in [Fault::CutAfterRequest { store: true }, Fault::CutMidResponse { after_bytes: 5 }] {
        federation.regions[2].faults().add(When::path(ACK).next(1), fault);
        federation.regions[2].record().clear();
        let answer = federation.client.post(ACK, Sdk::Rust.ack(&id)).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "ap-south-1"), "{answer:?}");
        let said = answer.json();
        assert_eq!((said["job_id"].as_str(), said["state"].as_str()), (Some(&*id), Some("completed")), "{said}");
        assert_eq!((&said["acknowledged"], federation.calls(ACK)), (&true.into(), vec![0, 0, 2]));
    }
    assert_eq!(federation.state(2, &id), JobState::Completed);
    let again = federation.client.post(ACK, Sdk::Rust.ack(&id)).await;
    assert_eq!(again.status, 409, "nothing of this call explains it: {again:?}");
}

#[tokio::test]
async fn a_failure_whose_answer_is_lost_is_told_twice_and_the_conflict_is_passed_on() {
    let (federation, id) = remote_job(patient()).await;
    federation.regions[2].faults().add(When::path(NACK).next(1), Fault::CutAfterRequest { store: true });
    let answer = federation.client.post(NACK, Sdk::Go.nack(&id)).await;
    assert_eq!((answer.status.as_u16(), federation.calls(NACK)), (409, vec![0, 0, 2]), "{answer:?}");
    assert_eq!(federation.state(2, &id), JobState::Retryable);
}

#[tokio::test]
async fn what_settles_nothing_is_repeated_in_the_same_region_three_times_at_most() {
    let answers = [500, 502, 503, 504].map(|status| StatusCode::from_u16(status).unwrap());
    for path in [ACK, NACK] {
        for status in answers {
            let (federation, id) = remote_job(patient()).await;
            let answer = FaultAnswer::error_document(status, "backend_error");
            let fault = Fault::Answer { answer, store: false };
            federation.regions[2].faults().add(When::path(path).next(2), fault.clone());
            let body = if path == ACK { Sdk::Rust.ack(&id) } else { Sdk::Rust.nack(&id) };
            let answer = federation.client.post(path, body.clone()).await;
            assert_eq!((answer.status.as_u16(), federation.calls(path)), (200, vec![0, 0, 3]), "{path} {status}");
            federation.regions[2].faults().add(When::path(path), fault);
            let answer = federation.client.post(path, body).await;
            assert_eq!((answer.status, federation.calls(path)), (status, vec![0, 0, 6]), "{path} {status}");
        }
    }
}

#[tokio::test]
async fn an_acknowledgement_waits_for_its_owner_and_goes_to_no_other_region() {
    let (federation, id) = remote_job(Setup::default().yaml("circuit_breaker: { failure_threshold: 1 }")).await;
    // Known from now on.
    assert_eq!(federation.client.get(&format!("/ojs/v1/jobs/{id}")).await.status, 200);
    federation.regions[2].stop().await;
    let answer = federation.client.post(ACK, Sdk::Ruby.ack(&id)).await;
    answer.check_error(503, "backend_error", "owner_unavailable");
    eventually("the owner's breaker is open", async || federation.breaker(2) == "open").await;
    assert_eq!(federation.calls(ACK), [0, 0, 0]);
    federation.regions[2].resume().await.unwrap();
    // An open breaker keeps out what may wait; without this word the job would run again.
    let answer = federation.client.post(ACK, Sdk::Ruby.ack(&id)).await;
    assert_eq!((answer.status.as_u16(), federation.calls(ACK)), (200, vec![0, 0, 1]), "{answer:?}");
}

#[tokio::test]
async fn nobody_acknowledges_a_job_that_may_be_in_a_region_that_is_down() {
    let (federation, id) = remote_job(Setup::default()).await;
    federation.regions[2].stop().await;
    let answer = federation.client.post(ACK, Sdk::Rust.ack(&id)).await;
    answer.check_error(503, "backend_error", "owner_unavailable");
    assert_eq!(federation.calls(ACK), [0, 0, 0]);
}

#[tokio::test]
async fn a_job_that_no_region_has_is_acknowledged_nowhere() {
    let federation = Federation::start().await;
    let answer = federation.client.post(ACK, Sdk::Rust.ack("019461a8-0000-7000-8000-000000000000")).await;
    assert_eq!((answer.status.as_u16(), federation.calls(ACK)), (404, vec![0, 0, 0]), "{answer:?}");
    // What names no job is the local region's to judge.
    let answer = federation.client.post(ACK, "{}").await;
    assert_eq!((answer.status.as_u16(), federation.calls(ACK)), (400, vec![1, 0, 0]), "{answer:?}");
}

#[tokio::test]
async fn an_acknowledgement_that_could_mean_two_jobs_is_refused() {
    let federation = Federation::start().await;
    let answer = federation.client.post(ACK, r#"{"job_id":"a","Job_ID":"b"}"#).await;
    answer.check_error(400, "invalid_request", "ambiguous_member");
    assert_eq!(federation.calls(ACK), [0, 0, 0]);
}

#[tokio::test]
async fn what_was_remembered_wrongly_of_a_job_costs_a_question_and_no_acknowledgement() {
    let (federation, id) = remote_job(Setup::default()).await;
    let wrong = federation.shared.registry.view().regions[1].id.clone();
    federation.shared.owners.learn(&id, &wrong);
    let answer = federation.client.post(ACK, Sdk::Rust.ack(&id)).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (200, "ap-south-1"), "{answer:?}");
    assert_eq!(federation.state(2, &id), JobState::Completed);
}

#[tokio::test]
async fn a_region_that_does_not_tell_gets_no_acknowledgement_while_the_owner_may_be_another() {
    let (federation, id) = remote_job(patient()).await;
    federation.shared.owners.forget(&id);
    let answer = FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    let look_ups = When::path("/ojs/v1/jobs/").method(http::Method::GET);
    federation.regions[0].faults().add(look_ups, Fault::Answer { answer, store: false });
    federation.regions[2].stop().await;
    for path in [ACK, NACK] {
        let answer = federation.client.post(path, Sdk::Rust.ack(&id)).await;
        answer.check_error(503, "backend_error", "owner_unavailable");
        assert_eq!(federation.calls(path), [0, 0, 0]);
    }
    federation.regions[2].resume().await.unwrap();
    let answer = federation.client.post(ACK, Sdk::Rust.ack(&id)).await;
    assert_eq!((answer.status.as_u16(), federation.calls(ACK)), (200, vec![0, 0, 1]), "{answer:?}");
}

#[tokio::test]
async fn what_only_the_local_region_can_have_leased_is_acknowledged_there_by_who_may_not_read() {
    let federation = Federation::start().await;
    federation.fill(0, "a", 1);
    let id = super::fetch(federation.client, Sdk::Rust.fetch(&["a"], 1, "w")).await.remove(0);
    federation.shared.owners.forget(&id);
    let answer = FaultAnswer::error_document(StatusCode::FORBIDDEN, "forbidden");
    let look_ups = When::path("/ojs/v1/jobs/").method(http::Method::GET);
    federation.regions[0].faults().add(look_ups, Fault::Answer { answer, store: false });
    let answer = federation.client.post(ACK, Sdk::Rust.ack(&id)).await;
    assert_eq!((answer.status.as_u16(), federation.calls(ACK)), (200, vec![1, 0, 0]), "{answer:?}");
}

#[tokio::test]
async fn a_balancers_404_to_an_acknowledgement_is_not_the_owners_word() {
    let (federation, id) = remote_job(patient()).await;
    let page = || Fault::Answer { answer: FaultAnswer::balancer(StatusCode::NOT_FOUND), store: false };
    // To the acknowledgement, and to everything about the job.
    for path in [ACK, "/ojs/v1/"] {
        federation.regions[2].faults().add(When::path(path), page());
        let answer = federation.client.post(ACK, Sdk::Rust.ack(&id)).await;
        answer.check_error(503, "backend_error", "owner_unavailable");
        federation.regions[2].faults().clear();
    }
    assert_eq!((federation.calls(ACK)[..2].to_vec(), federation.state(2, &id)), (vec![0, 0], JobState::Active));
    assert_eq!(federation.client.post(ACK, Sdk::Rust.ack(&id)).await.status, 200);
}
