//! What a server of level 1 adds: dead letters, results, events, directives, paused queues.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::client::{Client, plain};
use crate::{DemoRegion, Directive, JobState, RegionOptions};
use ojs_handles::{Clock, SteeredTime};

const ONE: &str = "019461a8-0000-7000-8000-000000000001";
const TWO: &str = "019461a8-0000-7000-8000-000000000002";

fn job(id: &str, options: &str) -> String {
    format!(r#"{{"type":"a","args":[],"id":"{id}","options":{options}}}"#)
}

#[tokio::test]
async fn a_dead_letter_is_listed_read_retried_and_deleted() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let options = r#"{"retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}}"#;
    for id in [ONE, TWO] {
        client.post("/ojs/v1/jobs", &job(id, options)).await;
        client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await;
        let nack = format!(r#"{{"job_id":"{id}","error":{{"code":"handler_error","message":"m"}}}}"#);
        let nacked = client.post("/ojs/v1/workers/nack", &nack).await.json();
        assert_eq!((&nacked["state"], &nacked["id"], &nacked["job_id"]), (&json!("discarded"), &json!(id), &json!(id)));
        assert_eq!(nacked["completed_at"], nacked["discarded_at"]);
    }
    let page = client.get("/ojs/v1/dead-letter?queue=default&limit=1&offset=0").await.json();
    assert_eq!((&page["jobs"][0]["id"], page["jobs"].as_array().unwrap().len()), (&json!(ONE), 1));
    assert_eq!(page["pagination"], json!({"total": 2, "limit": 1, "offset": 0, "has_more": true}));
    assert_eq!(client.get("/ojs/v1/dead-letter?limit=many").await.status, 400);
    let letter = client.get(&format!("/ojs/v1/dead-letter/{ONE}")).await.json();
    assert_eq!((&letter["job"]["errors"][0]["attempt"], &letter["job"]["error"]["message"]), (&json!(1), &json!("m")));
    let retry = format!("/ojs/v1/dead-letter/{ONE}/retry");
    assert_eq!(client.post(&retry, r#"{"override":{"queue":"other"}}"#).await.status, 422);
    let retried = client.post(&retry, "").await.json();
    assert_eq!((&retried["job"]["state"], &retried["job"]["attempt"]), (&json!("available"), &json!(0)));
    assert_eq!(client.post(&retry, "{}").await.status, 404);
    let gone = client.send(Method::DELETE, &format!("/ojs/v1/dead-letter/{TWO}"), "").await.unwrap();
    assert_eq!(gone.json(), json!({"deleted": true, "job_id": TWO}));
    assert_eq!(client.get(&format!("/ojs/v1/jobs/{TWO}")).await.status, 404);
    assert_eq!(client.get("/ojs/v1/dead-letter").await.json()["jobs"], json!([]));
}

#[tokio::test]
async fn a_result_can_be_waited_for_and_read_with_others() {
    let region = plain().await;
    let (mut client, mut waiter) = (Client::plain(&region).await, Client::plain(&region).await);
    client.post("/ojs/v1/jobs", &job(ONE, "{}")).await;
    let path = format!("/ojs/v1/jobs/{ONE}/result");
    assert_eq!(client.get(&path).await.json(), json!({"job_id": ONE, "state": "available", "result": null}));
    let late = client.get(&format!("{path}?wait=true&timeout=0")).await;
    assert_eq!((late.status.as_u16(), &late.json()["error"]["retryable"]), (408, &json!(true)));
    let waiting = format!("{path}?wait=true");
    let (result, ()) = tokio::join!(waiter.get(&waiting), async {
        region.record().wait_for(|record| !record.requests_to(&path).is_empty()).await;
        client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await;
        client.post("/ojs/v1/workers/ack", &format!(r#"{{"job_id":"{ONE}","result":{{"n":1}}}}"#)).await;
    });
    assert_eq!(result.json(), json!({"job_id": ONE, "state": "completed", "result": {"n": 1}}));
    let results = client.post("/ojs/v1/jobs/results", &format!(r#"{{"ids":["{ONE}","none"]}}"#)).await.json();
    assert_eq!(results, json!({"results": {ONE: {"state": "completed", "result": {"n": 1}}}}));
    assert_eq!(client.get("/ojs/v1/jobs/none/result?wait=true").await.status, 404);
}

#[tokio::test]
async fn events_can_be_polled_and_a_queues_events_are_streamed() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    client.post("/ojs/v1/jobs", &job(ONE, r#"{"queue":"mail"}"#)).await;
    client.post("/ojs/v1/jobs", &job(TWO, r#"{"queue":"other"}"#)).await;
    let polled = client.get("/ojs/v1/events?types=job.enqueued,job.started&queues=mail&limit=5").await.json();
    assert_eq!(polled["events"].as_array().unwrap().len(), 1);
    let event = &polled["events"][0];
    assert_eq!((&event["type"], &event["subject"]), (&json!("job.enqueued"), &json!(ONE)));
    assert_eq!(event["data"], json!({"job_type": "a", "queue": "mail", "priority": 0}));
    assert_eq!((&polled["cursor"], &polled["has_more"]), (&event["id"], &json!(false)));
    let cursor = event["id"].as_str().unwrap();
    let after = client.get(&format!("/ojs/v1/events?after={cursor}&limit=1")).await.json();
    assert_eq!((&after["events"][0]["subject"], &after["has_more"]), (&json!(TWO), &json!(false)));

    let mut reader = Client::plain(&region).await;
    let mut stream = reader.open("/ojs/v1/queues/mail/events").await;
    client.send(Method::DELETE, &format!("/ojs/v1/jobs/{TWO}"), "").await.unwrap();
    client.send(Method::DELETE, &format!("/ojs/v1/jobs/{ONE}"), "").await.unwrap();
    let text = stream.until("timestamp").await;
    assert!(text.starts_with("retry: 3000\n\nid: evt_"), "{text}");
    let change =
        format!(r#""job_id":"{ONE}","queue":"mail","type":"a","from":"available","to":"cancelled","timestamp":"#);
    let event = format!("event: job.state_changed\ndata: {{\"event\":\"job.state_changed\",{change}");
    assert!(text.contains(&event) && !text.contains(TWO), "{text}");
}

#[tokio::test]
async fn a_queues_stream_tells_what_only_time_brings_while_nobody_calls() {
    let time = SteeredTime::starting_at(1_800_000_000_000);
    let mut options = RegionOptions::new("us-east-1");
    options.clock = Clock::new(Arc::new(Arc::clone(&time)));
    let region = DemoRegion::start(options).await.unwrap();
    let mut client = Client::plain(&region).await;
    let [mut first, mut second] = [Client::plain(&region).await, Client::plain(&region).await];
    let mut mail = first.open("/ojs/v1/queues/mail/events").await;
    // Nobody keeps up what happens in time for one alone: it goes on when another reader leaves.
    drop(second.open("/ojs/v1/queues/other/events").await);
    let later = r#"{"queue":"mail","delay_until":"2027-01-15T08:01:00Z"}"#;
    client.post("/ojs/v1/jobs", &job(ONE, later)).await;
    assert!(mail.until(r#""to":"scheduled""#).await.contains(r#""queue":"mail""#));
    time.advance(Duration::from_secs(120));
    assert!(mail.until(r#""from":"scheduled","to":"available""#).await.contains(r#""queue":"mail""#));
}

#[tokio::test]
async fn a_heartbeat_speaks_for_jobs_in_every_way_that_clients_write_and_carries_the_directive() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    client.post("/ojs/v1/jobs", &job(ONE, "{}")).await;
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#).await;
    for jobs in [
        format!(r#""active_jobs":["{ONE}"]"#),
        format!(r#""active_jobs":1,"active_job_ids":["{ONE}"]"#),
        format!(r#""job_id":"{ONE}""#),
    ] {
        let beat = client.post("/ojs/v1/workers/heartbeat", &format!(r#"{{"worker_id":"w",{jobs}}}"#)).await.json();
        assert_eq!((&beat["state"], &beat["jobs_extended"]), (&json!("running"), &json!([ONE])), "{jobs}");
    }
    region.direct("w", Directive::Quiet);
    let idle = r#"{"worker_id":"w","active_jobs":0,"active_job_ids":null}"#;
    assert_eq!(client.post("/ojs/v1/workers/heartbeat", idle).await.json()["state"], "quiet");
    assert_eq!(client.post("/ojs/v1/workers/heartbeat", r#"{"active_jobs":"all"}"#).await.status, 400);
}

#[tokio::test]
async fn a_paused_queue_takes_no_jobs_and_a_batch_is_stored_whole_or_not_at_all() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    client.post("/ojs/v1/queues/mail/pause", "").await;
    let refused = client.post("/ojs/v1/jobs", &job(ONE, r#"{"queue":"mail"}"#)).await;
    let error = &refused.json()["error"];
    assert_eq!(
        (refused.status.as_u16(), &error["code"], &error["retryable"]),
        (422, &json!("queue_paused"), &json!(true))
    );
    let good = job(ONE, "{}");
    for (bad, status) in
        [(job(TWO, r#"{"queue":"mail"}"#), 422), (job(ONE, "{}"), 409), (r#"{"type":"a"}"#.to_owned(), 400)]
    {
        let answer = client.post("/ojs/v1/jobs/batch", &format!(r#"{{"jobs":[{good},{bad}]}}"#)).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["error"]["details"]["index"]), (status, &json!(1)), "{bad}");
    }
    assert!(region.jobs().is_empty());
    client.post("/ojs/v1/queues/mail/resume", "").await;
    assert_eq!(client.post("/ojs/v1/jobs", &job(ONE, r#"{"queue":"mail"}"#)).await.status, 201);
}

#[tokio::test]
async fn a_staged_job_is_activated_over_http() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let staged = client.post("/ojs/v1/jobs", &job(ONE, r#"{"pending":true}"#)).await.json();
    assert_eq!(staged["job"]["state"], "pending");
    let path = format!("/ojs/v1/jobs/{ONE}/activate");
    assert_eq!(client.post(&path, "").await.json()["job"]["state"], "available");
    assert_eq!(client.post(&path, "").await.status, 409);
    assert_eq!(region.jobs().job(ONE).unwrap().state, JobState::Available);
}
