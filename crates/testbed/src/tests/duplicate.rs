//! What a region does with an id that is taken, in every dialect, and how it says so.

use http::Method;
use serde_json::{Value, json};

use super::client::Client;
use crate::{DemoRegion, Dialect, DuplicateIds, JobState, RegionOptions};

const ONE: &str = "019461a8-0000-7000-8000-000000000001";

async fn region(dialect: Dialect, duplicate_ids: Option<DuplicateIds>) -> DemoRegion {
    DemoRegion::start(RegionOptions { dialect, duplicate_ids, ..RegionOptions::new("eu-west-1") }).await.unwrap()
}

fn job(args: &str) -> String {
    format!(r#"{{"type":"a","args":[{args}],"id":"{ONE}"}}"#)
}

#[tokio::test]
async fn a_taken_id_is_refused_answered_with_the_first_job_or_overwritten_as_is_asked_for() {
    for dialect in Dialect::ALL {
        for (duplicate_ids, status, kept) in [
            (DuplicateIds::Refuse, 409, "[1]"),
            (DuplicateIds::Same, 200, "[1]"),
            (DuplicateIds::Overwrite, 201, "[2]"),
        ] {
            let region = region(dialect, Some(duplicate_ids)).await;
            let mut client = Client::plain(&region).await;
            assert_eq!(client.post("/ojs/v1/jobs", &job("1")).await.status, 201);
            let again = client.post("/ojs/v1/jobs", &job("2")).await;
            let jobs = region.jobs();
            let seen = (again.status.as_u16(), jobs[0].args.as_str(), jobs.len(), jobs[0].stored);
            assert_eq!(seen, (status, kept, 1, 2), "{dialect:?} {duplicate_ids:?}");
            let told = again.json();
            match duplicate_ids {
                DuplicateIds::Refuse => {
                    let error = &told["error"];
                    assert_eq!((&error["code"], &error["retryable"]), (&json!("duplicate"), &json!(false)));
                    assert_eq!(error["details"]["existing_job_id"], ONE);
                }
                _ => assert_eq!((&told["job"]["id"], told["job"]["args"].to_string().as_str()), (&json!(ONE), kept)),
            }
        }
    }
}

#[tokio::test]
async fn an_id_stays_taken_by_a_job_that_is_over() {
    for (duplicate_ids, status) in [(DuplicateIds::Refuse, 409), (DuplicateIds::Same, 200)] {
        let region = region(Dialect::Reference, Some(duplicate_ids)).await;
        let mut client = Client::plain(&region).await;
        client.post("/ojs/v1/jobs", &job("1")).await;
        assert_eq!(client.send(Method::DELETE, &format!("/ojs/v1/jobs/{ONE}"), "").await.unwrap().status, 200);
        assert_eq!(client.post("/ojs/v1/jobs", &job("2")).await.status, status);
        assert_eq!(region.jobs()[0].state, JobState::Cancelled, "{duplicate_ids:?}");
    }
}

#[tokio::test]
async fn a_job_that_overwrites_one_that_a_worker_had_is_a_second_run() {
    let region = region(Dialect::Reference, None).await;
    let mut client = Client::plain(&region).await;
    for runs in 1..=2 {
        client.post("/ojs/v1/jobs", &job("1")).await;
        assert_eq!(region.jobs()[0].runs, runs - 1);
        client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await;
        client.post("/ojs/v1/workers/ack", &format!(r#"{{"job_id":"{ONE}"}}"#)).await;
        assert_eq!(region.jobs()[0].runs, runs);
    }
}

#[tokio::test]
async fn the_manifest_says_what_is_done_where_that_was_chosen_and_is_silent_otherwise() {
    let extensions = async |dialect, duplicate_ids| -> Value {
        let region = region(dialect, duplicate_ids).await;
        Client::plain(&region).await.get("/ojs/manifest").await.json()["extensions"].clone()
    };
    let same = Some(DuplicateIds::Same);
    let uri = "urn:ojs:ext:experimental:duplicate-ids-same";
    assert_eq!(extensions(Dialect::Spec, same).await, json!([uri]));
    let entry = json!({ "name": "duplicate-ids-same", "uri": uri, "version": "1.0" });
    assert_eq!(extensions(Dialect::Reference, same).await, json!({ "official": [], "experimental": [entry] }));
    assert_eq!(extensions(Dialect::Spec, None).await, json!([]));
    assert_eq!(extensions(Dialect::Redis, None).await, json!({ "official": [] }));
}
