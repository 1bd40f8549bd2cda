//! The dialect of the servers in Go, where it differs from the documents.

use http::Method;
use serde_json::json;

use super::client::Client;
use crate::{DemoRegion, Dialect, Directive, RegionOptions};

const ONE: &str = "019461a8-0000-7000-8000-000000000001";

async fn reference() -> DemoRegion {
    let options = RegionOptions { dialect: Dialect::Reference, ..RegionOptions::new("eu-west-1") };
    DemoRegion::start(options).await.unwrap()
}

#[tokio::test]
async fn a_repeated_id_overwrites_and_members_of_the_client_win_over_the_servers_own() {
    let region = reference().await;
    let mut client = Client::plain(&region).await;
    let submit = format!(
        r#"{{"type":"a","args":[1],"id":"{ONE}","queue":"top","state":"completed","worker_id":"spoofed",
            "meta":{{"n":1}},"options":{{"metadata":{{"n":2}}}}}}"#
    );
    for _ in 0..2 {
        let answer = client.post("/ojs/v1/jobs", &submit).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        let job = &answer.json()["job"];
        assert_eq!(
            (&job["state"], &job["queue"], &job["meta"]),
            (&json!("completed"), &json!("top"), &json!({"n": 2}))
        );
        assert_eq!(answer.text().matches("\"state\"").count(), 1);
    }
    let jobs = region.jobs();
    assert_eq!((jobs.len(), jobs[0].stored, jobs[0].queue.as_str()), (1, 2, "default"));
}

#[tokio::test]
async fn a_heartbeat_is_answered_by_a_directive_and_a_number_of_jobs_is_refused() {
    let region = reference().await;
    let mut client = Client::plain(&region).await;
    region.direct("w", Directive::Terminate);
    for (worker, directive) in [("w", "terminate"), ("other", "continue")] {
        let beat = format!(r#"{{"worker_id":"{worker}","active_jobs":[]}}"#);
        let beat = client.post("/ojs/v1/workers/heartbeat", &beat).await.json();
        assert_eq!((&beat["state"], &beat["directive"]), (&json!("active"), &json!(directive)));
    }
    assert_eq!(client.post("/ojs/v1/workers/heartbeat", r#"{"worker_id":"w","active_jobs":3}"#).await.status, 400);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_answered_by_the_router_in_plain_text_or_not_at_all() {
    let region = reference().await;
    let mut client = Client::plain(&region).await;
    for path in ["/ojs/v1/nothing", "/ojs/v1/events", "/ojs/v1/jobs/x/result"] {
        let answer = client.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (404, "404 page not found\n"), "{path}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
    let method = client.post("/ojs/v1/health", "").await;
    assert_eq!((method.status.as_u16(), method.text()), (405, ""));
    assert_eq!(client.send(Method::GET, "/ojs/v1/dead-letter/x", "").await.unwrap().status, 405);
}

#[tokio::test]
async fn answers_have_the_shapes_of_those_servers() {
    let region = reference().await;
    let mut client = Client::plain(&region).await;
    client.post("/ojs/v1/jobs", &format!(r#"{{"type":"a","args":[],"id":"{ONE}"}}"#)).await;
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await;
    let stats = client.get("/ojs/v1/queues/default/stats").await.json();
    let expected = json!({"queue": {"name": "default", "available": 0, "active": 1, "completed": 0, "paused": false}});
    assert_eq!(stats, expected);
    let acked = client.post("/ojs/v1/workers/ack", &format!(r#"{{"job_id":"{ONE}"}}"#)).await.json();
    assert_eq!((&acked["id"], acked.get("job_id")), (&json!(ONE), None));
    let paused = client.post("/ojs/v1/queues/default/pause", "").await.json();
    assert_eq!(paused, json!({"queue": {"name": "default", "paused": true}}));
    let stored = client.post("/ojs/v1/jobs", r#"{"type":"a","args":[]}"#).await;
    assert_eq!((stored.status.as_u16(), &stored.json()["job"]["state"]), (201, &json!("available")));
    let refused = client.get("/ojs/v1/jobs/none").await.json();
    assert!(refused["error"].get("hint").is_none());
    let manifest = client.get("/ojs/manifest").await.json();
    assert_eq!((manifest.get("ojs_version"), &manifest["extensions"]), (None, &json!({"official": []})));
}
