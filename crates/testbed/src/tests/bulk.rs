//! One operation on many jobs.

use serde_json::json;

use super::client::{Answered, Client, plain};
use crate::{DemoRegion, Dialect, JobState, RegionOptions};

fn id(number: usize) -> String {
    format!("019461a8-0000-7000-8000-{number:012}")
}

/// Jobs `…1` to `…count`, in the queue of that name.
async fn put(client: &mut Client, queue: &str, from: usize, count: usize) {
    for number in from..from + count {
        let options = format!(r#"{{"queue":"{queue}","retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}}}"#);
        let job = format!(r#"{{"type":"a","args":[],"id":"{}","options":{options}}}"#, id(number));
        assert_eq!(client.post("/ojs/v1/jobs", &job).await.status, 201);
    }
}

/// Takes jobs of a queue and lets them fail for good.
async fn kill(client: &mut Client, queue: &str, count: usize) {
    let fetch = json!({ "queues": [queue], "count": count }).to_string();
    for job in client.post("/ojs/v1/workers/fetch", &fetch).await.json()["jobs"].as_array().unwrap() {
        let nack = json!({ "job_id": job["id"], "error": { "message": "m" } }).to_string();
        client.post("/ojs/v1/workers/nack", &nack).await;
    }
}

async fn delete(client: &mut Client, path: &str, body: &str) -> Answered {
    client.send(http::Method::DELETE, path, body).await.unwrap()
}

fn state(region: &DemoRegion, number: usize) -> Option<JobState> {
    region.jobs().job(&id(number)).map(|job| job.state)
}

#[tokio::test]
async fn named_jobs_are_cancelled_in_the_order_given_and_those_that_cannot_be_are_skipped() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    put(&mut client, "default", 1, 3).await;
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await;
    let body = json!({ "job_ids": [id(3), "none", id(1)] }).to_string();
    let answer = client.post("/ojs/v1/jobs/bulk/cancel", &body).await;
    let expected = json!({
        "total_matched": 3, "cancelled": 1, "skipped": 2,
        "items": [
            { "index": 0, "job_id": id(3), "status": "cancelled" },
            { "index": 1, "job_id": "none", "status": "skipped", "reason": "there is no job none" },
            { "index": 2, "job_id": id(1), "status": "skipped", "reason": "the job is active" },
        ]
    });
    assert_eq!((answer.status.as_u16(), answer.json()), (200, expected));
    assert_eq!(
        [1, 2, 3].map(|number| state(&region, number).unwrap()),
        [JobState::Active, JobState::Available, JobState::Cancelled]
    );
}

#[tokio::test]
async fn a_filter_means_only_what_it_says_and_must_be_confirmed() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    put(&mut client, "mail", 1, 2).await;
    put(&mut client, "other", 3, 1).await;
    let both = format!(r#"{{"job_ids":["{}"],"filter":{{}},"confirm":true}}"#, id(1));
    for body in [r#"{"filter":{"queue":"mail"}}"#, r#"{"filter":{"state":"odd"},"confirm":true}"#, "{}", &both] {
        for path in ["/ojs/v1/jobs/bulk/cancel", "/ojs/v1/admin/jobs/bulk/cancel"] {
            assert_eq!(client.post(path, body).await.status, 400, "{body}");
        }
    }
    let many = json!({ "job_ids": vec!["x"; 1_001] }).to_string();
    assert_eq!(client.post("/ojs/v1/jobs/bulk/delete", &many).await.status, 413);
    assert_eq!(region.jobs().count_in(JobState::Available), 3);
    let cancel = r#"{"filter":{"queue":"mail","state":["available"],"type":"a"},"confirm":true}"#;
    let answer = client.post("/ojs/v1/admin/jobs/bulk/cancel", cancel).await.json();
    assert_eq!((&answer["total_matched"], &answer["cancelled"], &answer["skipped"]), (&2.into(), &2.into(), &0.into()));
    let delete = r#"{"filter":{"state":"cancelled"},"confirm":true}"#;
    assert_eq!(client.post("/ojs/v1/jobs/bulk/delete", delete).await.json()["deleted"], 2);
    assert_eq!((region.jobs().len(), state(&region, 3)), (1, Some(JobState::Available)));
}

#[tokio::test]
async fn discarded_jobs_are_retried_and_only_finished_ones_are_deleted() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    put(&mut client, "default", 1, 2).await;
    kill(&mut client, "default", 1).await;
    let both = json!({ "job_ids": [id(1), id(2)] }).to_string();
    let retried = client.post("/ojs/v1/jobs/bulk/retry", &both).await.json();
    assert_eq!((&retried["retried"], &retried["skipped"]), (&1.into(), &1.into()));
    assert_eq!(state(&region, 1), Some(JobState::Available));
    assert_eq!(client.post("/ojs/v1/jobs/bulk/delete", &both).await.json()["skipped"], 2);
    assert_eq!(client.post("/ojs/v1/jobs/bulk/explode", &both).await.status, 404);
}

#[tokio::test]
async fn dead_letters_are_retried_and_deleted_by_filter() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    put(&mut client, "mail", 1, 2).await;
    put(&mut client, "other", 3, 1).await;
    kill(&mut client, "mail", 2).await;
    kill(&mut client, "other", 1).await;
    assert_eq!(client.post("/ojs/v1/dead-letter/retry", r#"{"filter":{}}"#).await.status, 400);
    assert_eq!(delete(&mut client, "/ojs/v1/dead-letter", r#"{"filter":{}}"#).await.status, 400);
    let filter = r#"{"filter":{"queue":"mail"},"confirm":true}"#;
    let retried = client.post("/ojs/v1/dead-letter/retry", filter).await.json();
    assert_eq!((&retried["retried"], &retried["items"][1]["job_id"]), (&2.into(), &json!(id(2))));
    assert_eq!(delete(&mut client, "/ojs/v1/dead-letter", filter).await.json()["deleted"], 0);
    let deleted = delete(&mut client, "/ojs/v1/admin/dead-letter", r#"{"queue":"other","confirm":true}"#).await;
    assert_eq!((deleted.json()["deleted"].as_u64(), state(&region, 3)), (Some(1), None));
    assert_eq!(region.jobs().count_in(JobState::Available), 2);
}

#[tokio::test]
async fn servers_in_go_retry_every_dead_letter_whatever_the_filter_says() {
    let options = RegionOptions { dialect: Dialect::Reference, ..RegionOptions::new("eu-west-1") };
    let region = DemoRegion::start(options).await.unwrap();
    let mut client = Client::plain(&region).await;
    put(&mut client, "mail", 1, 2).await;
    kill(&mut client, "mail", 2).await;
    let path = "/ojs/v1/admin/jobs/bulk/retry";
    assert_eq!(client.post(path, &json!({ "job_ids": [id(1)] }).to_string()).await.status, 400);
    let answer = client.post(path, r#"{"filter":{"queue":"other"},"confirm":true}"#).await.json();
    assert_eq!(answer, json!({"action": "retry", "matched": 2, "succeeded": 2, "failed": 0}));
    for path in ["/ojs/v1/jobs/bulk/retry", "/ojs/v1/admin/jobs/bulk/cancel"] {
        assert_eq!(client.post(path, "{}").await.status, 404, "{path}");
    }
}
