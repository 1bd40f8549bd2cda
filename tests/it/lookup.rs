//! `GET /ojs/v1/jobs/{id}`: a job is found wherever routing has put it.

use ojs_sidecar::demo::{Fault, When};

use crate::support::{Federation, Setup, eventually};

const PINNED: &str = r#"{"type":"a","args":[],"meta":{"ojs.federation.region":"ap-south-1"}}"#;
const NOBODYS: &str = "/ojs/v1/jobs/019461a8-0000-7000-8000-000000000000";

#[tokio::test]
async fn a_job_is_found_in_the_region_that_it_was_pinned_to() {
    let federation = Setup::default().by_the_documents().start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    let found = federation.client.get(&format!("/ojs/v1/jobs/{id}")).await;
    assert_eq!((found.status.as_u16(), found.job_id()), (200, id.clone()), "{found:?}");
    assert_eq!(found.header("ojs-federation-region"), Some("ap-south-1"));
    // What is in the local region is asked for nowhere else.
    let local = federation.client.enqueue(r#"{"type":"a","args":[]}"#).await.job_id();
    federation.regions[1].record().clear();
    let found = federation.client.get(&format!("/ojs/v1/jobs/{local}")).await;
    assert_eq!(found.header("ojs-federation-region"), Some("us-east-1"));
    assert!(federation.regions[1].record().requests_to("/ojs/v1/jobs/").is_empty());
}

#[tokio::test]
async fn a_job_is_not_found_only_when_every_region_has_said_so() {
    let federation = Federation::start().await;
    let nowhere = federation.client.get(NOBODYS).await;
    assert_eq!((nowhere.status.as_u16(), &nowhere.json()["error"]["code"]), (404, &"not_found".into()));
    assert_eq!(nowhere.header("ojs-federation-region"), Some("us-east-1"));
    for region in &federation.regions {
        assert_eq!(region.record().requests_to(NOBODYS).len(), 1, "{}", region.id());
    }
    federation.regions[1].stop().await;
    let unsure = federation.client.get(NOBODYS).await;
    assert_eq!((unsure.status.as_u16(), unsure.reason().as_str()), (503, "owner_unavailable"), "{unsure:?}");
    assert_eq!(unsure.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_job_elsewhere_is_found_while_the_local_region_is_down_and_its_breaker_open() {
    let federation = Setup::default().yaml("circuit_breaker: { failure_threshold: 1 }").start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    federation.regions[0].stop().await;
    for _ in 0..2 {
        let found = federation.client.get(&format!("/ojs/v1/jobs/{id}")).await;
        assert_eq!((found.status.as_u16(), found.header("ojs-federation-region")), (200, Some("ap-south-1")));
        eventually("the breaker of the local region is open", async || federation.breaker(0) == "open").await;
    }
}

#[tokio::test]
async fn a_region_that_hangs_does_not_hide_a_job_that_is_elsewhere() {
    let federation = Setup::default().yaml("limits: { call_timeout: 600ms }").start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    federation.regions[0].faults().add(When::path("/ojs/v1/jobs/"), Fault::HangBeforeBody);
    let found = federation.client.get(&format!("/ojs/v1/jobs/{id}")).await;
    assert_eq!((found.status.as_u16(), found.header("ojs-federation-region")), (200, Some("ap-south-1")), "{found:?}");
}
