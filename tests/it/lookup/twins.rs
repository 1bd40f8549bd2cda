//! One id in two regions, of which one copy was cancelled before it began: the other one is the job.

use http::Method;
use ojs_testbed::{Fault, Gate, JobState, When};

use crate::support::{Federation, Setup, eventually};

const OWN: &str = "01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f";
const PATH: &str = "/ojs/v1/jobs/01975c4e-6f0b-7cc1-9e11-3a5b6c7d8e9f";

fn own(meta: &str) -> String {
    format!(r#"{{"id":"{OWN}","type":"a","args":[],"meta":{{{meta}}}}}"#)
}

fn state(federation: &Federation, place: usize) -> Option<JobState> {
    federation.regions[place].jobs().job(OWN).map(|job| job.state)
}

/// What is asked of the id, and done to it, concerns the copy in the second region.
async fn lives_in_the_second(federation: &Federation) {
    let found = federation.client.get(PATH).await;
    assert_eq!((found.status.as_u16(), found.region()), (200, "eu-west-1"), "{found:?}");
    assert_eq!(found.json()["job"]["state"], "available");
}

#[tokio::test]
async fn after_a_late_copy_is_cancelled_its_id_means_the_one_that_stays() {
    let federation = Setup::default()
        .regions(2)
        .steered()
        .yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
        .yaml("failover: { late_write_grace: 50ms, retry_budget: { floor: 1000 } }")
        .start()
        .await;
    let (gate, region, client) = (Gate::new(), &federation.regions[0], federation.client);
    region.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let answer = tokio::spawn(async move { client.enqueue(own("")).await });
    let arrived = |record: &ojs_testbed::Record| {
        record.requests_to("/ojs/v1/jobs").iter().any(|it| it.method == Method::POST && it.complete)
    };
    region.record().wait_for(arrived).await;
    region.cut_connections().await;
    let answer = answer.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
    gate.open();
    eventually("the late write", async || state(&federation, 0).is_some()).await;
    eventually("the late copy is cleared up", async || {
        let cleared = client.get("/v1/federation/outcomes").await.json()["outcomes"][0]["state"] == "stored";
        if !cleared {
            federation.advance(std::time::Duration::from_secs(1));
        }
        cleared
    })
    .await;
    assert_eq!(state(&federation, 0), Some(JobState::Cancelled));
    lives_in_the_second(&federation).await;
    let cancelled = client.call(Method::DELETE, PATH, "").await;
    assert_eq!((cancelled.status.as_u16(), cancelled.region()), (200, "eu-west-1"), "{cancelled:?}");
}

#[tokio::test]
async fn neither_a_list_nor_a_search_takes_a_cancelled_twin_for_the_job() {
    let federation = Setup::default().by_the_documents().start().await;
    let pinned = |region: &str| own(&format!(r#""ojs.federation.region":"{region}""#));
    assert_eq!(federation.client.enqueue(pinned("us-east-1")).await.status, 201);
    assert_eq!(federation.client.call(Method::DELETE, PATH, "").await.status, 200);
    assert_eq!(federation.client.enqueue(pinned("eu-west-1")).await.status, 201);
    // Its own region speaks last, and is waited for.
    for known in [true, false] {
        if !known {
            federation.shared.owners.forget(OWN);
        }
        assert_eq!(federation.client.get("/ojs/v1/jobs?region=us-east-1").await.status, 200);
        assert_eq!(federation.client.get("/ojs/v1/jobs").await.status, 200);
        lives_in_the_second(&federation).await;
    }
    federation.shared.owners.forget(OWN);
    federation.regions.iter().for_each(|region| region.record().clear());
    let gate = Gate::new();
    let held = When::path(PATH).next(1);
    federation.regions[1].faults().add(held, Fault::Hold { gate: gate.clone() });
    let client = federation.client;
    let found = tokio::spawn(async move { client.get(PATH).await });
    for region in &federation.regions {
        region.record().wait_for(|record| !record.requests_to(PATH).is_empty()).await;
    }
    gate.open();
    let found = found.await.unwrap();
    assert_eq!((found.status.as_u16(), found.region()), (200, "eu-west-1"), "{found:?}");
}

#[tokio::test]
async fn a_job_that_is_cancelled_is_found_and_remembered_like_any_other() {
    let federation = Setup::default().start().await;
    assert_eq!(federation.client.enqueue(own(r#""ojs.federation.region":"ap-south-1""#)).await.status, 201);
    assert_eq!(federation.client.call(Method::DELETE, PATH, "").await.status, 200);
    federation.shared.owners.forget(OWN);
    for _ in 0..2 {
        let found = federation.client.get(PATH).await;
        assert_eq!((found.status.as_u16(), found.region()), (200, "ap-south-1"), "{found:?}");
    }
    let questions = |place: usize| federation.regions[place].record().requests_to(PATH).len();
    assert_eq!((questions(0), questions(1)), (1, 1));
}

#[tokio::test]
async fn a_cancelled_job_is_shown_while_a_region_is_down_and_takes_no_acknowledgement() {
    let federation = Setup::default().by_the_documents().start().await;
    assert_eq!(federation.client.enqueue(own(r#""ojs.federation.region":"us-east-1""#)).await.status, 201);
    assert_eq!(federation.client.call(Method::DELETE, PATH, "").await.status, 200);
    federation.shared.owners.forget(OWN);
    federation.regions[1].stop().await;
    let found = federation.client.get(PATH).await;
    assert_eq!((found.status.as_u16(), &found.json()["job"]["state"]), (200, &"cancelled".into()), "{found:?}");
    // Whoever has a lease has it elsewhere.
    let ack = federation.client.post("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{OWN}"}}"#)).await;
    ack.check_error(503, "backend_error", "owner_unavailable");
}
