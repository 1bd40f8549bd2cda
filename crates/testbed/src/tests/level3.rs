//! What a server of level 3 adds: workflows.

use http::Method;
use serde_json::json;

use super::client::{Client, plain};
use crate::{DemoRegion, Dialect, RegionOptions};

const CHAIN: &str = r#"{"type":"chain","name":"c","steps":[{"type":"a","args":[]},{"type":"b","args":[]}]}"#;

#[tokio::test]
async fn a_workflow_is_begun_read_listed_and_called_off_without_telling_its_jobs() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let answer = client.post("/ojs/v1/workflows", CHAIN).await;
    let begun = answer.json();
    let id = begun["workflow"]["id"].as_str().unwrap();
    assert_eq!((answer.status.as_u16(), &begun["workflow"]["name"]), (201, &json!("c")));
    assert_eq!(answer.headers["location"], format!("/ojs/v1/workflows/{id}"));
    let job = client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await.json();
    assert_eq!((&job["job"]["workflow_id"], &job["job"]["type"]), (&json!(id), &json!("a")));
    let path = format!("/ojs/v1/workflows/{id}");
    let read = client.get(&path).await;
    assert!(!read.text().contains(job["job"]["id"].as_str().unwrap()));
    let states: Vec<_> =
        read.json()["workflow"]["steps"].as_array().unwrap().iter().map(|step| step["state"].clone()).collect();
    assert_eq!(states, ["active", "waiting"]);
    assert_eq!(client.post("/ojs/v1/workflows", CHAIN).await.status, 201);
    let page = client.get("/ojs/v1/workflows?limit=1&state=running").await.json();
    assert_eq!((&page["workflows"][0]["id"], &page["pagination"]["total"]), (&json!(id), &json!(2)));
    let gone = client.post(&format!("{path}/cancel"), "").await.json();
    assert_eq!((&gone["workflow"]["state"], &gone["workflow"]["id"]), (&json!("cancelled"), &json!(id)));
    let again = client.send(Method::DELETE, &path, "").await.unwrap();
    let error = &again.json()["error"];
    assert_eq!((again.status.as_u16(), &error["details"]["current_state"]), (409, &json!("cancelled")));
    assert_eq!(client.get("/ojs/v1/workflows/none").await.status, 404);
    assert_eq!(client.send(Method::DELETE, "/ojs/v1/workflows/none", "").await.unwrap().status, 404);
    assert_eq!(client.get("/ojs/v1/workflows?state=cancelled").await.json()["pagination"]["total"], 1);
}

#[tokio::test]
async fn the_binding_has_workflows_of_steps_that_name_each_other_and_servers_in_go_have_none() {
    let graph = r#"{"name":"g","options":{"queue":"q"},"steps":[{"id":"x","type":"a","args":[],"depends_on":[]},
        {"id":"y","type":"b","args":[],"depends_on":["x"]}]}"#;
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let begun = client.post("/ojs/v1/workflows", graph).await.json();
    assert_eq!(
        begun["workflow"]["steps"][1],
        json!({"index": 1, "id": "y", "type": "b", "state": "waiting", "depends_on": ["x"]})
    );
    assert_eq!(region.jobs()[0].queue, "q");
    let options = RegionOptions { dialect: Dialect::Reference, ..RegionOptions::new("eu-west-1") };
    let region = DemoRegion::start(options).await.unwrap();
    let mut client = Client::plain(&region).await;
    assert_eq!(client.post("/ojs/v1/workflows", graph).await.status, 400);
    let begun = client.post("/ojs/v1/workflows", CHAIN).await.json();
    let mut members: Vec<&String> = begun["workflow"].as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["created_at", "id", "name", "state", "steps_completed", "steps_total", "type"]);
    assert_eq!(client.get("/ojs/v1/workflows").await.status, 405);
}
