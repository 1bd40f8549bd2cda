//! A sidecar that knows nothing: just started, or in another pod than the one that placed the job.

use futures_util::StreamExt as _;
use futures_util::stream;

use ojs_testbed::{Fault, FaultAnswer, When};

use crate::support::{Federation, Setup};

const PINNED: &str = r#"{"type":"a","args":[],"meta":{"ojs.federation.region":"ap-south-1"}}"#;

/// Lookups of ids that nobody knows; `LOOKUPS=10000` for more of them.
fn lookups() -> usize {
    std::env::var_os("LOOKUPS").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(600)
}

#[tokio::test]
async fn another_sidecar_finds_and_cancels_what_the_first_one_placed() {
    let federation = Setup::default().by_the_documents().start().await;
    let other = federation.sidecar_in("eu-west-1", &[]).await;
    assert!(other.current.load().owners.is_empty());
    // With ids of ours, which carry a hint, and with a client's own, which carry none.
    for body in [PINNED.to_owned(), PINNED.replace("{\"type\"", "{\"id\":\"own-1\",\"type\"")] {
        let id = federation.client.enqueue(body).await.job_id();
        let path = format!("/ojs/v1/jobs/{id}");
        let found = other.client.get(&path).await;
        assert_eq!((found.status.as_u16(), found.region(), found.job_id()), (200, "ap-south-1", id.clone()));
        let cancelled = other.client.call(http::Method::DELETE, &path, "").await;
        assert_eq!((cancelled.status.as_u16(), cancelled.region()), (200, "ap-south-1"));
        assert_eq!(federation.regions[2].jobs().job(&id).unwrap().state.as_str(), "cancelled");
    }
}

#[tokio::test]
async fn a_job_whose_id_hints_at_its_region_is_remembered_once_somebody_asks_for_it() {
    let federation = Setup::default().by_the_documents().start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    assert!(federation.shared.owners.is_empty(), "its id is enough");
    let path = format!("/ojs/v1/jobs/{id}");
    for (requests, why) in [(2, "a question, and then the call"), (1, "known from now on")] {
        federation.regions[2].record().clear();
        let found = federation.client.get(&path).await;
        assert_eq!((found.status.as_u16(), found.region()), (200, "ap-south-1"));
        assert_eq!(federation.regions[2].record().requests_to(&path).len(), requests, "{why}");
    }
    federation.regions[2].record().clear();
    assert!(federation.seen(&id).is_empty(), "no other region heard of it");
}

#[tokio::test]
async fn an_id_that_its_job_keeps_wherever_it_goes_is_remembered_at_once() {
    let federation = Setup::default().by_the_documents().start().await;
    let batch = federation.client.post("/ojs/v1/jobs/batch", format!(r#"{{"jobs":[{PINNED}]}}"#)).await;
    let batch = batch.json()["jobs"][0]["id"].as_str().unwrap().to_owned();
    let known = federation.shared.owners.region_of(&batch);
    assert_eq!(known.as_ref().map(|region| region.as_str()), Some("ap-south-1"), "{batch}");
}

#[tokio::test]
async fn a_job_that_moved_is_asked_for_where_it_went() {
    let federation = Setup::default().by_the_documents().start().await;
    federation.regions[0].stop().await;
    let id = federation.client.enqueue(r#"{"type":"a","args":[]}"#).await.job_id();
    let holder = (1..3).find(|place| federation.regions[*place].jobs().job(&id).is_some()).unwrap();
    federation.regions[holder].record().clear();
    let other = federation.sidecar_in("eu-west-1", &[]).await;
    for client in [&federation.client, &other.client] {
        assert_eq!(client.get(&format!("/ojs/v1/jobs/{id}")).await.status, 200);
    }
    assert_eq!(federation.seen(&id), [holder], "no other region was asked");
}

#[tokio::test]
async fn who_may_not_read_reaches_a_job_where_its_id_hints_at() {
    let federation = Setup::default().by_the_documents().start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    let answer = FaultAnswer::error_document(http::StatusCode::FORBIDDEN, "forbidden");
    let look_ups = When::path("/ojs/v1/jobs/").method(http::Method::GET);
    federation.regions[2].faults().add(look_ups, Fault::Answer { answer, store: false });
    let cancelled = federation.client.call(http::Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await;
    assert_eq!((cancelled.status.as_u16(), cancelled.region()), (200, "ap-south-1"), "{cancelled:?}");
    assert_eq!(federation.regions[2].jobs().job(&id).unwrap().state.as_str(), "cancelled");
}

#[tokio::test]
async fn no_stream_is_asked_for_of_a_job_that_cannot_be_judged() {
    let federation = Setup::default().by_the_documents().yaml("residency: { read: deny }").start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    let answer = FaultAnswer::error_document(http::StatusCode::FORBIDDEN, "forbidden");
    let look_ups = When::path("/ojs/v1/jobs/").method(http::Method::GET);
    federation.regions[2].faults().add(look_ups, Fault::Answer { answer, store: false });
    let path = format!("/ojs/v1/jobs/{id}/events");
    assert_eq!(federation.client.get(&path).await.status, 403);
    assert!(federation.regions[2].record().requests_to(&path).is_empty(), "its region would not be judged");
}

#[tokio::test]
async fn while_the_owner_is_down_the_answer_is_503_and_never_404() {
    let federation = Setup::default().by_the_documents().start().await;
    let id = federation.client.enqueue(PINNED).await.job_id();
    let other = federation.sidecar_in("eu-west-1", &[]).await;
    federation.regions[2].stop().await;
    let path = format!("/ojs/v1/jobs/{id}");
    for client in [federation.client, other.client] {
        for method in [http::Method::GET, http::Method::DELETE] {
            let answer = client.call(method, &path, "").await;
            answer.check_error(503, "backend_error", "owner_unavailable");
            assert_eq!(answer.region(), "ap-south-1");
        }
    }
}

#[tokio::test]
async fn many_lookups_of_ids_that_nobody_knows_become_no_storm() {
    let federation = Setup::default().yaml("limits: { lookups: 4 }").start().await;
    let paths = (0..lookups()).map(|number| format!("/ojs/v1/jobs/019461a8-0000-7000-8000-{number:012x}"));
    let client = federation.client;
    let asked = paths.map(|path| async move { client.get(&path).await.status.as_u16() });
    let answers: Vec<u16> = stream::iter(asked).buffer_unordered(100).collect().await;
    assert!(answers.iter().all(|status| *status == 404), "{answers:?}");
    for region in &federation.regions {
        // Four searches at a time on each of two threads' connections, and those of probes and polls.
        let connections = region.record().connections().len();
        assert!(connections <= 2 * 4 + 4, "{}: {connections}", region.id());
    }
    assert!(federation.shared.owners.is_empty(), "nothing is remembered of ids that nobody knows");
}

#[tokio::test]
async fn knowledge_outlives_a_reload() {
    let federation = Federation::start().await;
    let id = federation.client.enqueue(PINNED.replace("{\"type\"", "{\"id\":\"own-1\",\"type\"")).await.job_id();
    let text = std::fs::read_to_string(&federation.config).unwrap();
    std::fs::write(&federation.config, text.replace("level: warn", "level: error")).unwrap();
    crate::support::eventually("the reload", async || federation.current.load().config.log.level == "error").await;
    let known = federation.current.load().owners.region_of(&id);
    assert_eq!(known.map(|region| region.to_string()).as_deref(), Some("ap-south-1"));
}
