//! `GET /ojs/v1/jobs/{id}`: a job is found wherever routing has put it.

mod cold;
mod evasive;
mod several;
mod twins;

use ojs_testbed::{Fault, When};

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
    unsure.check_retry_after(1);
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

#[tokio::test]
async fn every_call_about_one_job_reaches_the_region_that_holds_it_and_no_other() {
    let federation = Setup::default().by_the_documents().start().await;
    let id = federation.client.enqueue(PINNED.replace("{\"type\"", "{\"id\":\"own-1\",\"type\"")).await.job_id();
    for (method, path, status) in [
        ("GET", format!("/ojs/v1/jobs/{id}"), 200),
        ("GET", format!("/ojs/v1/jobs/{id}/result"), 200),
        ("GET", format!("/ojs/v1/jobs/{id}?x=1"), 200),
        ("DELETE", format!("/ojs/v1/jobs/{id}"), 200),
        ("DELETE", format!("/ojs/v1/jobs/{id}"), 409),
    ] {
        let answer = federation.client.call(method.parse().unwrap(), &path, "").await;
        assert_eq!((answer.status.as_u16(), answer.region()), (status, "ap-south-1"), "{method} {path}: {answer:?}");
        assert_eq!(federation.regions[2].record().requests_to(&path).len(), 1, "{method} {path}");
        federation.regions[2].record().clear();
    }
    assert_eq!(federation.seen(&id), [2; 0], "the record of the owner was cleared, and nobody else has any");
}

#[tokio::test]
async fn a_sidecar_that_knows_nothing_asks_first_where_the_id_hints_at() {
    let federation = Setup::default().by_the_documents().start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    let found = federation.client.get(&format!("/ojs/v1/jobs/{id}")).await;
    assert_eq!((found.status.as_u16(), found.region()), (200, "ap-south-1"));
    assert_eq!(federation.seen(&id), [2]);
    // Without a hint all are asked at once, and the first one that has it is taken.
    let id = federation.client.enqueue(PINNED.replace("{\"type\"", "{\"id\":\"kept-1\",\"type\"")).await.job_id();
    federation.shared.owners.forget(&id);
    let found = federation.client.get(&format!("/ojs/v1/jobs/{id}")).await;
    assert_eq!((found.status.as_u16(), found.region()), (200, "ap-south-1"));
}

#[tokio::test]
async fn a_call_that_names_its_region_goes_there_alone_and_never_changes_where_a_job_goes() {
    let federation = Setup::default().by_the_documents().start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    let path = format!("/ojs/v1/jobs/{id}");
    let named = |region: &str| http::Request::get(&path).header("ojs-federation-region", region);
    let there = federation.client.send(named("ap-south-1"), "").await;
    assert_eq!((there.status.as_u16(), there.region()), (200, "ap-south-1"));
    let elsewhere = federation.client.send(named("eu-west-1"), "").await;
    assert_eq!((elsewhere.status.as_u16(), elsewhere.region()), (404, "eu-west-1"));
    let by_query = federation.client.get("/ojs/v1/queues?region=eu-west-1&limit=3").await;
    assert_eq!((by_query.status.as_u16(), by_query.region()), (200, "eu-west-1"));
    assert_eq!(federation.regions[1].record().requests_to("/ojs/v1/queues")[0].path, "/ojs/v1/queues?limit=3");
    federation.client.send(named("mars-1"), "").await.check_error(400, "invalid_request", "region_unknown");
    let two = http::Request::get("/ojs/v1/queues?region=eu-west-1").header("ojs-federation-region", "us-east-1");
    federation.client.send(two, "").await.check_error(400, "invalid_request", "address_unclear");
    let twice = named("eu-west-1").header("ojs-federation-region", "us-east-1");
    federation.client.send(twice, "").await.check_error(400, "invalid_request", "address_unclear");
    for path in ["/ojs/v1/jobs", "/ojs/v1/jobs/batch", "/ojs/v1/workers/ack", "/ojs/v1/workers/fetch", "/ojs/v1/cron"] {
        let request = http::Request::post(path).header("ojs-federation-region", "eu-west-1");
        let refused = federation.client.send(request, r#"{"type":"canary-1","args":[]}"#).await;
        refused.check_error(400, "invalid_request", "not_addressable");
    }
    assert!(federation.seen("canary-1").is_empty());
}
