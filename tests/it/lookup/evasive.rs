//! Regions that say neither yes nor no: they refuse the question, or a balancer answers in their place.

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};

use crate::support::{Answer, Federation, Setup};

const JOBS: &str = "/ojs/v1/jobs/";
/// Without a hint of ours, so that all regions are asked at once.
const OWN: &str = "own-1";

fn own(region: &str) -> String {
    format!(r#"{{"id":"{OWN}","type":"a","args":[],"meta":{{"ojs.federation.region":"{region}"}}}}"#)
}

fn quiet() -> Setup {
    Setup::default().by_the_documents().yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
}

/// A federation with a job in one region, and nothing known of it.
async fn with_job_in(region: &str) -> Federation {
    let federation = quiet().start().await;
    assert_eq!(federation.client.enqueue(own(region)).await.status, 201);
    federation.shared.owners.forget(OWN);
    federation
}

fn refuses(federation: &Federation, place: usize, status: StatusCode) {
    let answer = FaultAnswer::error_document(status, "scripted");
    let when = When::path(JOBS).method(Method::GET);
    federation.regions[place].faults().add(when, Fault::Answer { answer, store: false });
}

fn behind_a_page(federation: &Federation, place: usize, when: When) {
    let answer = FaultAnswer::balancer(StatusCode::NOT_FOUND);
    federation.regions[place].faults().add(when, Fault::Answer { answer, store: false });
}

async fn about_job(federation: &Federation, method: Method) -> Answer {
    federation.client.call(method, &format!("{JOBS}{OWN}"), "").await
}

/// How many calls other than questions a region has received about the job.
fn changes(federation: &Federation, place: usize) -> usize {
    let calls = federation.regions[place].record().requests_to(JOBS);
    calls.iter().filter(|call| call.method != Method::GET).count()
}

#[tokio::test]
async fn a_region_that_does_not_tell_is_not_the_owner_while_another_is_silent() {
    for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS] {
        let federation = with_job_in("ap-south-1").await;
        refuses(&federation, 0, status);
        federation.regions[2].stop().await;
        for method in [Method::GET, Method::DELETE] {
            about_job(&federation, method).await.check_error(503, "backend_error", "owner_unavailable");
        }
        assert_eq!(changes(&federation, 0), 0, "{status}: nothing is done where the job is not");
        // Where the owner answers, it is found all the same.
        federation.regions[2].resume().await.unwrap();
        let found = about_job(&federation, Method::GET).await;
        assert_eq!((found.status.as_u16(), found.region()), (200, "ap-south-1"), "{found:?}");
    }
}

#[tokio::test]
async fn what_only_the_local_region_can_have_is_the_local_regions_to_answer() {
    let federation = with_job_in("us-east-1").await;
    refuses(&federation, 0, StatusCode::FORBIDDEN);
    let refused = about_job(&federation, Method::GET).await;
    assert_eq!((refused.status.as_u16(), refused.region()), (403, "us-east-1"), "{refused:?}");
    // Who may not read may well cancel.
    let cancelled = about_job(&federation, Method::DELETE).await;
    assert_eq!((cancelled.status.as_u16(), cancelled.region()), (200, "us-east-1"), "{cancelled:?}");
    // Another region that does not tell may have it as well.
    refuses(&federation, 1, StatusCode::FORBIDDEN);
    for method in [Method::GET, Method::DELETE] {
        about_job(&federation, method).await.check_error(503, "backend_error", "owner_unavailable");
    }
}

#[tokio::test]
async fn what_every_region_refuses_alike_is_refused_and_sent_to_none() {
    let federation = with_job_in("us-east-1").await;
    (0..3).for_each(|place| refuses(&federation, place, StatusCode::BAD_REQUEST));
    for method in [Method::GET, Method::DELETE] {
        let refused = about_job(&federation, method).await;
        assert_eq!((refused.status.as_u16(), refused.region()), (400, "us-east-1"), "{refused:?}");
        assert_eq!(refused.json()["error"]["code"], "scripted");
    }
    assert_eq!([0, 1, 2].map(|place| changes(&federation, place)), [0; 3]);
}

#[tokio::test]
async fn a_balancers_404_is_no_word_of_a_region() {
    let federation = with_job_in("ap-south-1").await;
    behind_a_page(&federation, 2, When::path(JOBS));
    // Searched for, and where it is known to be.
    for known in [false, true] {
        if known {
            federation.regions[2].faults().clear();
            assert_eq!(about_job(&federation, Method::GET).await.status, 200);
            behind_a_page(&federation, 2, When::path(JOBS));
        }
        for method in [Method::GET, Method::DELETE] {
            about_job(&federation, method).await.check_error(503, "backend_error", "owner_unavailable");
        }
    }
    federation.regions[2].faults().clear();
    let found = about_job(&federation, Method::GET).await;
    assert_eq!((found.status.as_u16(), found.region()), (200, "ap-south-1"), "{found:?}");
}

#[tokio::test]
async fn a_page_that_comes_once_is_asked_about_again() {
    let federation = with_job_in("ap-south-1").await;
    assert_eq!(about_job(&federation, Method::GET).await.status, 200);
    for method in [Method::GET, Method::DELETE] {
        behind_a_page(&federation, 2, When::path(JOBS).next(1));
        let answer = about_job(&federation, method).await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "ap-south-1"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_page_that_comes_as_a_success_shows_no_job() {
    let federation = with_job_in("ap-south-1").await;
    let answer = FaultAnswer::balancer(StatusCode::OK);
    federation.regions[0].faults().add(When::path(JOBS), Fault::Answer { answer, store: false });
    let found = about_job(&federation, Method::DELETE).await;
    assert_eq!((found.status.as_u16(), found.region()), (200, "ap-south-1"), "{found:?}");
    assert_eq!(changes(&federation, 0), 0);
}

#[tokio::test]
async fn what_was_remembered_wrongly_is_no_404_to_any_call_about_the_job() {
    let federation = with_job_in("ap-south-1").await;
    let wrong = federation.shared.registry.view().regions[1].id.clone();
    let misled = || federation.shared.owners.learn(OWN, &wrong);
    for (method, rest) in [("GET", ""), ("GET", "/result"), ("GET", "?x=1")] {
        misled();
        let answer = federation.client.call(method.parse().unwrap(), &format!("{JOBS}{OWN}{rest}"), "").await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "ap-south-1"), "{method} {rest}: {answer:?}");
    }
    // A body has gone to the wrong region; the next time it goes to the right one.
    misled();
    let save = async || federation.client.post(&format!("{JOBS}{OWN}/checkpoint"), r#"{"state":{"at":1}}"#).await;
    save().await.check_error(503, "backend_error", "owner_unavailable");
    assert_eq!(save().await.region(), "ap-south-1");
    misled();
    federation.regions[2].stop().await;
    let answer = federation.client.get(&format!("{JOBS}{OWN}/result")).await;
    answer.check_error(503, "backend_error", "owner_unavailable");
}

#[tokio::test]
async fn what_a_job_does_not_have_is_not_found_and_asks_no_other_region() {
    let federation = with_job_in("ap-south-1").await;
    assert_eq!(about_job(&federation, Method::GET).await.status, 200);
    federation.regions.iter().for_each(|region| region.record().clear());
    let answer = federation.client.get(&format!("{JOBS}{OWN}/checkpoint")).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (404, "ap-south-1"), "{answer:?}");
    assert_eq!(federation.job_requests(), [0, 0, 2], "the call, and the question whether the job is there");
}
