//! What a server of level 2 adds: jobs with a time, and cron.

use http::Method;
use serde_json::{Value, json};

use super::client::{Client, plain};
use crate::{DemoRegion, Dialect, RegionOptions};

async fn send(client: &mut Client, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = client.send(Method::from_bytes(method.as_bytes()).unwrap(), path, body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

const BY_BINDING: &str = r#"{"name":"n","cron":"0 9 * * *","timezone":"Asia/Tokyo","type":"a","args":[1],
    "meta":{"m":1},"options":{"queue":"q"},"description":"d","run_count":7}"#;
const BY_SERVERS: &str =
    r#"{"name":"n","expression":"@hourly","job_template":{"type":"a","args":[1],"options":{"queue":"q"}}}"#;

#[tokio::test]
async fn a_cron_job_is_registered_in_both_shapes_and_answered_under_both_names() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    let (status, answer) = send(&mut client, "POST", "/ojs/v1/cron", BY_BINDING).await;
    assert_eq!((status, &answer["cron_job"]), (201, &answer["cron"]));
    let cron = &answer["cron"];
    assert_eq!((&cron["cron"], &cron["expression"]), (&json!("0 9 * * *"), &json!("0 9 * * *")));
    assert_eq!(
        (&cron["description"], &cron["run_count"], &cron["last_run_at"]),
        (&json!("d"), &json!(0), &json!(null))
    );
    assert_eq!((&cron["overlap_policy"], &cron["enabled"]), (&json!("skip"), &json!(true)));
    assert!(cron["next_run_at"].as_str().unwrap().ends_with("T00:00:00.000Z"));
    let (status, answer) = send(&mut client, "POST", "/ojs/v1/cron", BY_SERVERS).await;
    assert_eq!((status, &answer["cron"]["timezone"]), (200, &json!("UTC")));
    assert_eq!((&answer["cron"]["cron"], &answer["cron"]["expression"]), (&json!("@hourly"), &json!("@hourly")));
    assert_eq!(region.definitions().len(), 2);
    for body in [
        "{}",
        r#"{"name":"N","cron":"@daily","type":"a"}"#,
        r#"{"name":"n","type":"a"}"#,
        r#"{"name":"n","cron":"soon","type":"a"}"#,
        r#"{"name":"n","cron":"@daily"}"#,
        r#"{"name":"n","cron":"@daily","type":"a","args":{}}"#,
        r#"{"name":"n","cron":"@daily","type":"a","timezone":"EST"}"#,
        r#"{"name":"n","cron":"@daily","type":"a","overlap_policy":"hope"}"#,
    ] {
        let (status, answer) = send(&mut client, "POST", "/ojs/v1/cron", body).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!("invalid_request")), "{body}");
    }
    assert_eq!(region.definitions().len(), 2);
}

#[tokio::test]
async fn a_cron_job_is_listed_read_switched_triggered_and_deleted() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    for name in ["a", "b", "c"] {
        let body = BY_BINDING.replace(r#""n""#, &format!("\"{name}\""));
        assert_eq!(send(&mut client, "POST", "/ojs/v1/cron", &body).await.0, 201);
    }
    let (_, page) = send(&mut client, "GET", "/ojs/v1/cron?limit=1&offset=1", "").await;
    assert_eq!(
        (&page["cron_jobs"][0]["name"], &page["cron_jobs"], &page["count"]),
        (&json!("b"), &page["crons"], &json!(1))
    );
    assert_eq!(page["pagination"], json!({"total": 3, "limit": 1, "offset": 1, "has_more": true}));
    for (call, enabled) in [("pause", false), ("resume", true), ("pause", false)] {
        let (status, answer) = send(&mut client, "POST", &format!("/ojs/v1/cron/b/{call}"), "").await;
        assert_eq!(
            (status, &answer["cron"]["enabled"], answer["cron"]["next_run_at"].is_string()),
            (200, &json!(enabled), enabled)
        );
    }
    assert_eq!(send(&mut client, "GET", "/ojs/v1/cron?enabled=false", "").await.1["pagination"]["total"], 1);
    let (_, answer) = send(&mut client, "PATCH", "/ojs/v1/cron/b", r#"{"enabled":true}"#).await;
    assert_eq!(answer["cron_job"]["status"], "active");
    assert_eq!(send(&mut client, "PATCH", "/ojs/v1/cron/b", "{}").await.0, 400);
    let (status, answer) = send(&mut client, "POST", "/ojs/v1/cron/b/trigger", "").await;
    assert_eq!((status, &answer["job"]["queue"], &answer["job"]["meta"]["cron_name"]), (201, &json!("q"), &json!("b")));
    assert_eq!(send(&mut client, "GET", "/ojs/v1/cron/b", "").await.1["cron_job"]["run_count"], 1);
    let (_, gone) = send(&mut client, "DELETE", "/ojs/v1/cron/b", "").await;
    assert_eq!((&gone["deleted"], &gone["name"], &gone["cron"]["name"]), (&json!(true), &json!("b"), &json!("b")));
    for (method, path) in [
        ("GET", "/ojs/v1/cron/b"),
        ("DELETE", "/ojs/v1/cron/b"),
        ("POST", "/ojs/v1/cron/b/trigger"),
        ("POST", "/ojs/v1/cron/b/pause"),
    ] {
        let (status, answer) = send(&mut client, method, path, "").await;
        assert_eq!((status, &answer["error"]["details"]["resource_id"]), (404, &json!("b")), "{method} {path}");
    }
    assert_eq!(send(&mut client, "PUT", "/ojs/v1/cron/a", BY_BINDING).await.0, 405);
}

#[tokio::test]
async fn servers_in_go_know_one_shape_and_three_calls_of_cron() {
    let options = RegionOptions { dialect: Dialect::Reference, ..RegionOptions::new("eu-west-1") };
    let region = DemoRegion::start(options).await.unwrap();
    let mut client = Client::plain(&region).await;
    assert_eq!(send(&mut client, "POST", "/ojs/v1/cron", BY_BINDING).await.0, 400);
    for _ in 0..2 {
        let (status, answer) = send(&mut client, "POST", "/ojs/v1/cron", BY_SERVERS).await;
        assert_eq!((status, answer.get("cron_job"), &answer["cron"]["overlap_policy"]), (201, None, &json!("allow")));
    }
    let (_, list) = send(&mut client, "GET", "/ojs/v1/cron", "").await;
    assert_eq!((list["crons"].as_array().unwrap().len(), list.as_object().unwrap().len()), (1, 1));
    assert_eq!(client.get("/ojs/v1/cron/n").await.status, 405);
    assert_eq!(client.post("/ojs/v1/cron/n/trigger", "").await.status, 404);
    assert_eq!(send(&mut client, "DELETE", "/ojs/v1/cron/n", "").await.1["cron"]["name"], "n");
}
