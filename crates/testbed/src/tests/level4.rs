//! What a server of level 4 adds: unique jobs and many jobs in one request.

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use super::client::{Answered, Client, plain};
use crate::{DemoRegion, Dialect, RegionOptions};

const ONE: &str = "019461a8-0000-7000-8000-000000000001";

fn unique(on_conflict: &str) -> String {
    format!(r#"{{"type":"u","args":[],"options":{{"unique":{{"on_conflict":"{on_conflict}"}}}}}}"#)
}

fn bulk(members: &str, jobs: &[&str]) -> String {
    format!(r#"{{{members}"jobs":[{}]}}"#, jobs.join(","))
}

const GOOD: &str = r#"{"type":"a","args":[],"queue":"top"}"#;
const BAD: &str = r#"{"type":"a"}"#;

fn statuses(answer: &Value) -> Vec<&str> {
    answer["items"].as_array().unwrap().iter().map(|item| item["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_duplicate_is_refused_by_the_id_of_the_job_that_is_there_or_answered_with_it() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let first = client.post("/ojs/v1/jobs", &unique("reject")).await.json();
    let id = &first["job"]["id"];
    let refused = client.post("/ojs/v1/jobs", &unique("reject")).await;
    let error = &refused.json()["error"];
    assert_eq!((refused.status.as_u16(), &error["code"]), (409, &json!("duplicate")));
    assert_eq!((&error["details"]["existing_job_id"], &error["retryable"]), (id, &json!(false)));
    let same = client.post("/ojs/v1/jobs", &unique("ignore")).await;
    assert_eq!(
        (same.status.as_u16(), &same.json()["job"]["id"], &same.json()["deduplicated"]),
        (200, id, &json!(true))
    );
    let other = client.post("/ojs/v1/jobs", &unique("replace")).await;
    assert_eq!(other.status, 201);
    let old = client.get(&format!("/ojs/v1/jobs/{}", id.as_str().unwrap())).await.json();
    assert_eq!((&old["job"]["state"], region.jobs().len()), (&json!("cancelled"), 2));
    assert_eq!(client.post("/ojs/v1/jobs", &unique("explode")).await.status, 400);
}

#[tokio::test]
async fn a_batch_with_a_duplicate_is_stored_not_at_all_or_at_servers_in_go_up_to_it() {
    for (dialect, status, stored) in [(Dialect::Spec, 409, 1), (Dialect::Reference, 500, 2)] {
        let region = DemoRegion::start(RegionOptions { dialect, ..RegionOptions::new("eu-west-1") }).await.unwrap();
        let mut client = Client::plain(&region).await;
        client.post("/ojs/v1/jobs", &unique("reject")).await;
        let answer = client.post("/ojs/v1/jobs/batch", &bulk("", &[GOOD, &unique("reject"), GOOD])).await;
        assert_eq!((answer.status.as_u16(), region.jobs().len()), (status, stored), "{dialect:?}");
    }
}

#[tokio::test]
async fn a_bulk_enqueue_tells_of_each_job() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let repeated = format!(r#"{{"type":"a","args":[],"id":"{ONE}"}}"#);
    for (jobs, status, expected) in [
        (vec![GOOD, GOOD], 201, vec!["created", "created"]),
        (vec![BAD, &repeated, &repeated], 207, vec!["failed", "created", "failed"]),
        (vec![BAD, &repeated], 422, vec!["failed", "failed"]),
    ] {
        let answer = client.post("/ojs/v1/jobs/bulk", &bulk("", &jobs)).await;
        let (text, body) = (answer.text(), answer.json());
        assert_eq!((answer.status.as_u16(), statuses(&body)), (status, expected), "{text}");
        assert_eq!(body["total"], jobs.len());
        assert_eq!(answer.headers["x-ojs-batch-size"], jobs.len().to_string());
        assert!(body["items"].as_array().unwrap().iter().enumerate().all(|(index, item)| item["index"] == index));
    }
    assert_eq!((region.jobs().len(), region.jobs()[0].queue.as_str()), (3, "top"));
    let both =
        client.post("/ojs/v1/jobs/bulk", &bulk("", &[&unique("ignore"), &unique("ignore"), &unique("reject")])).await;
    assert_eq!((both.status.as_u16(), statuses(&both.json())), (207, vec!["created", "duplicate", "failed"]));
    let id = &both.json()["items"][0]["job"]["id"];
    assert_eq!(&both.json()["items"][2]["error"]["details"]["existing_job_id"], id);
    for (body, status) in
        [(bulk(r#""atomicity":"maybe","#, &[GOOD]), 400), (bulk("", &[]), 400), (bulk("", &[GOOD; 1_001]), 413)]
    {
        assert_eq!(client.post("/ojs/v1/jobs/bulk", &body).await.status, status);
    }
}

#[tokio::test]
async fn an_atomic_bulk_enqueue_stores_all_jobs_or_none_and_names_those_that_are_to_blame() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let atomic = r#""atomicity":"atomic","#;
    let twin = unique("reject");
    let answer = client.post("/ojs/v1/jobs/bulk", &bulk(atomic, &[GOOD, BAD, &twin, &twin])).await;
    let body = answer.json();
    assert_eq!((answer.status.as_u16(), &body["succeeded"], &body["failed"]), (422, &json!(0), &json!(4)));
    let codes: Vec<_> = body["items"].as_array().unwrap().iter().map(|item| item["error"]["code"].clone()).collect();
    assert_eq!(codes, ["conflict", "invalid_request", "conflict", "duplicate"]);
    let twins = client.post("/ojs/v1/jobs/bulk", &bulk(atomic, &[GOOD, &twin, &twin])).await;
    assert_eq!((twins.status.as_u16(), twins.json()["items"][2]["error"]["code"].as_str()), (422, Some("duplicate")));
    assert!(region.jobs().is_empty());
    let answer = client.post("/ojs/v1/jobs/bulk", &bulk(atomic, &[GOOD, &twin])).await;
    assert_eq!((answer.status.as_u16(), region.jobs().len()), (201, 2));
}

async fn keyed(client: &mut Client, key: &str, body: &str) -> Answered {
    let request = Request::post("/ojs/v1/jobs/bulk").header("host", "a").header("idempotency-key", key);
    client.call(request.body(Full::from(body.to_owned())).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_bulk_enqueue_under_the_same_key_is_answered_again_and_stored_once() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let body = bulk(r#""idempotency_key":"inner","#, &[GOOD, BAD]);
    let first = client.post("/ojs/v1/jobs/bulk", &body).await;
    let again = keyed(&mut client, "inner", &body).await;
    assert_eq!((again.status.as_u16(), &again.body), (207, &first.body));
    let other = client.post("/ojs/v1/jobs/bulk", &bulk(r#""idempotency_key":"inner","#, &[GOOD])).await;
    assert_eq!((other.status.as_u16(), &other.json()["error"]["code"]), (409, &json!("conflict")));
    assert_eq!(region.jobs().len(), 1);
    assert_eq!(keyed(&mut client, "outer", &body).await.status, 207);
    assert_eq!(region.jobs().len(), 2);
    assert_eq!(keyed(&mut client, &"k".repeat(257), &body).await.status, 400);
}

#[tokio::test]
async fn servers_in_go_have_no_bulk_enqueue() {
    let options = RegionOptions { dialect: Dialect::Reference, ..RegionOptions::new("eu-west-1") };
    let region = DemoRegion::start(options).await.unwrap();
    let mut client = Client::plain(&region).await;
    assert_eq!(client.post("/ojs/v1/jobs/bulk", &bulk("", &[GOOD])).await.status, 405);
    assert!(region.jobs().is_empty());
}
