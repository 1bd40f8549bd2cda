//! What workers and clients leave beside jobs: progress, checkpoints, another priority, and definitions.

use http::Method;
use serde_json::json;

use super::client::{Client, plain};
use crate::{DemoRegion, Dialect, JobState, RegionOptions};

const ONE: &str = "019461a8-0000-7000-8000-000000000001";
const TWO: &str = "019461a8-0000-7000-8000-000000000002";

async fn put(client: &mut Client, id: &str) {
    client.post("/ojs/v1/jobs", &format!(r#"{{"type":"a","args":[],"id":"{id}"}}"#)).await;
}

#[tokio::test]
async fn progress_is_kept_while_a_job_is_active_and_complete_with_it() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    put(&mut client, ONE).await;
    let path = format!("/ojs/v1/jobs/{ONE}/progress");
    let nothing = json!({"job_id": ONE, "state": "available", "progress": null, "data": null});
    // Too early, or too late: passed over, since it may only have been overtaken.
    assert_eq!(client.send(Method::PUT, &path, r#"{"progress":0.1}"#).await.unwrap().json(), nothing);
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await;
    let body = r#"{"progress":0.25,"data":{"n": 1E400},"checkpoint":{"row":7}}"#;
    assert_eq!(client.send(Method::PUT, &path, body).await.unwrap().status, 200);
    assert!(client.get(&path).await.text().contains(r#""progress":0.25,"data":{"n": 1E400}"#));
    let checkpoint = client.get(&format!("/ojs/v1/jobs/{ONE}/checkpoint")).await.json();
    assert_eq!(checkpoint["checkpoint"]["state"], json!({"row": 7}));
    let by_body = format!(r#"{{"job_id":"{ONE}","percentage":50}}"#);
    assert_eq!(client.post("/ojs/v1/workers/progress", &by_body).await.json()["progress"], 0.5);
    let beyond = client.send(Method::PUT, &path, r#"{"progress":1.5,"message":"far"}"#).await.unwrap().json();
    assert_eq!((&beyond["progress"], &client.get(&path).await.json()["message"]), (&json!(1.0), &json!("far")));
    assert_eq!(client.post(&format!("/ojs/v1/jobs/{ONE}/ack"), "").await.status, 200);
    assert_eq!(client.get(&path).await.json()["progress"], 1.0);
    assert_eq!(client.get("/ojs/v1/jobs/none/progress").await.status, 404);
    assert_eq!(client.post("/ojs/v1/workers/progress", r#"{"job_id":"none","percentage":1}"#).await.status, 404);
}

#[tokio::test]
async fn a_checkpoint_is_saved_by_an_active_job_read_and_deleted() {
    for dialect in Dialect::ALL {
        let options = RegionOptions { dialect, ..RegionOptions::new("eu-west-1") };
        let region = DemoRegion::start(options).await.unwrap();
        let mut client = Client::plain(&region).await;
        put(&mut client, ONE).await;
        let path = format!("/ojs/v1/jobs/{ONE}/checkpoint");
        assert_eq!(client.post(&path, r#"{"state":1}"#).await.status, 409);
        assert_eq!(client.get(&path).await.status, 404);
        client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await;
        assert_eq!(client.post(&path, "{}").await.status, 400);
        client.post(&path, r#"{"state":1}"#).await;
        let saved = client.post(&path, r#"{"state":{"row":2}}"#).await.json();
        assert_eq!((&saved["checkpoint"]["sequence"], saved["checkpoint"].get("state")), (&json!(2), None));
        assert_eq!(client.get(&path).await.json()["checkpoint"]["state"], json!({"row": 2}));
        let deleted = client.send(Method::DELETE, &path, "").await.unwrap();
        assert_eq!(deleted.json(), json!({"deleted": true, "job_id": ONE}));
        assert_eq!(client.send(Method::DELETE, &path, "").await.unwrap().status, 404);
        let by_put = client.send(Method::PUT, &path, r#"{"state":3}"#).await.unwrap().status.as_u16();
        assert_eq!(by_put, if dialect == Dialect::Spec { 200 } else { 405 });
        client.post(&path, r#"{"state":4}"#).await;
        client.post("/ojs/v1/workers/ack", &json!({ "job_id": ONE }).to_string()).await;
        assert_eq!(client.get(&path).await.status, 404, "a job that is over is not taken up again");
        assert_eq!(client.post(&path, r#"{"state":5}"#).await.status, 409);
    }
}

#[tokio::test]
async fn another_priority_lets_a_waiting_job_pass_others() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    put(&mut client, ONE).await;
    put(&mut client, TWO).await;
    let path = format!("/ojs/v1/jobs/{TWO}");
    let answer = client.send(Method::PATCH, &path, r#"{"priority":9}"#).await.unwrap().json();
    assert_eq!((&answer["previous_priority"], &answer["job"]["priority"]), (&json!(0), &json!(9)));
    for body in ["{}", r#"{"priority":101}"#, r#"{"priority":"high"}"#] {
        assert_eq!(client.send(Method::PATCH, &path, body).await.unwrap().status, 400, "{body}");
    }
    let fetched = client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await.json();
    assert_eq!(fetched["job"]["id"], TWO);
    assert_eq!(client.send(Method::PATCH, &path, r#"{"priority":1}"#).await.unwrap().status, 409);
}

#[tokio::test]
async fn a_job_is_acknowledged_and_refused_with_its_id_in_the_path() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    put(&mut client, ONE).await;
    put(&mut client, TWO).await;
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"count":2}"#).await;
    let acked = client.post(&format!("/ojs/v1/jobs/{ONE}/ack"), r#"{"result":{"n":1}}"#).await.json();
    assert_eq!((&acked["state"], &acked["job"]["result"]), (&json!("completed"), &json!({"n": 1})));
    let error = r#"{"error":{"message":"m","retryable":false}}"#;
    assert_eq!(client.post(&format!("/ojs/v1/jobs/{TWO}/nack"), error).await.json()["state"], "discarded");
    assert_eq!(region.jobs().count_in(JobState::Completed), 1);
}

#[tokio::test]
async fn schemas_are_known_by_their_uri_however_it_is_written() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let uri = "urn:ojs:schema:a/b:v1";
    let schema = format!(r#"{{"uri":"{uri}","type":"a","version":1,"schema":{{"type" : "array"}}}}"#);
    let registered = client.post("/ojs/v1/schemas", &schema).await;
    assert_eq!((registered.status.as_u16(), registered.json()["schema"].get("schema")), (201, None));
    assert_eq!(client.post("/ojs/v1/schemas", r#"{"uri":"x"}"#).await.status, 400);
    for path in [uri.to_owned(), uri.replace(':', "%3A").replace('/', "%2F")] {
        let shown = client.get(&format!("/ojs/v1/schemas/{path}")).await;
        assert!(shown.text().contains(r#""schema":{"type" : "array"}"#), "{}", shown.text());
    }
    let listed = client.get("/ojs/v1/schemas").await.json();
    assert_eq!((&listed["schemas"][0]["uri"], &listed["pagination"]["total"]), (&json!(uri), &json!(1)));
    let deleted = client.send(Method::DELETE, &format!("/ojs/v1/schemas/{uri}"), "").await.unwrap();
    assert_eq!(deleted.json(), json!({"deleted": true, "uri": uri}));
    assert_eq!(client.get(&format!("/ojs/v1/schemas/{uri}")).await.status, 404);
}

#[tokio::test]
async fn servers_in_go_know_schemas_by_type_and_version() {
    let options = RegionOptions { dialect: Dialect::Reference, ..RegionOptions::new("eu-west-1") };
    let region = DemoRegion::start(options).await.unwrap();
    let mut client = Client::plain(&region).await;
    for version in ["1", "2"] {
        let schema = json!({ "job_type": "a.b", "version": version, "schema": {} }).to_string();
        assert_eq!(client.post("/ojs/v1/schemas", &schema).await.status, 201);
    }
    assert_eq!(client.get("/ojs/v1/schemas/a.b").await.json()["schema"]["version"], "2");
    let versions = client.get("/ojs/v1/schemas/a.b/versions").await.json();
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2);
    let deleted = client.send(Method::DELETE, "/ojs/v1/schemas/a.b/2", "").await.unwrap();
    assert_eq!(deleted.json(), json!({"deleted": true, "job_type": "a.b", "version": "2"}));
    assert_eq!(client.get("/ojs/v1/schemas/a.b").await.json()["schema"]["version"], "1");
    assert_eq!(client.get("/ojs/v1/schemas").await.status, 405);
}

#[tokio::test]
async fn the_secret_of_a_subscription_is_told_once() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let path = "/ojs/v1/webhooks/subscriptions";
    let body = r#"{"url":"https://example.com/","events":["job.completed"],"secret":"mine"}"#;
    let made = client.post(path, body).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(made.status, 201);
    assert!(made.json()["secret"].as_str().unwrap().starts_with("whsec_"));
    let listed = client.get(path).await.json();
    let (entry, total) = (&listed["subscriptions"][0], &listed["pagination"]["total"]);
    assert_eq!((&entry["id"], entry.get("secret"), total), (&json!(id), None, &json!(1)));
    let shown = client.get(&format!("{path}/{id}")).await.json();
    assert_eq!((&shown["url"], &shown["active"]), (&json!("https://example.com/"), &json!(true)));
    assert_eq!(client.send(Method::DELETE, &format!("{path}/{id}"), "").await.unwrap().status, 200);
    assert_eq!(client.get(&format!("{path}/{id}")).await.status, 404);
    assert_eq!(client.post(path, "{}").await.status, 400);
}
