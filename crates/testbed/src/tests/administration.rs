//! What operators do to single jobs and queues.

use http::Method;
use serde_json::json;

use super::client::{Client, plain};
use crate::{DemoRegion, Dialect, JobState, RegionOptions};

const ONE: &str = "019461a8-0000-7000-8000-000000000001";

async fn put(client: &mut Client, queue: &str) {
    let options = format!(r#"{{"queue":"{queue}","retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}}}"#);
    client.post("/ojs/v1/jobs", &format!(r#"{{"type":"a","args":[],"id":"{ONE}","options":{options}}}"#)).await;
}

async fn kill(client: &mut Client) {
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["mail"]}"#).await;
    client.post("/ojs/v1/workers/nack", &format!(r#"{{"job_id":"{ONE}","error":{{"message":"m"}}}}"#)).await;
}

#[tokio::test]
async fn the_administration_shows_and_moves_bare_jobs() {
    for dialect in Dialect::ALL {
        let options = RegionOptions { dialect, ..RegionOptions::new("eu-west-1") };
        let region = DemoRegion::start(options).await.unwrap();
        let mut client = Client::plain(&region).await;
        put(&mut client, "mail").await;
        let job = format!("/ojs/v1/admin/jobs/{ONE}");
        assert_eq!(client.get(&job).await.json()["id"], ONE);
        kill(&mut client).await;
        assert_eq!(client.post(&format!("{job}/retry"), "").await.json()["state"], "available");
        assert_eq!(client.post(&format!("{job}/cancel"), "").await.json()["state"], "cancelled");
        assert_eq!(client.post(&format!("{job}/cancel"), "").await.status, 409);
        let again = client.post(&format!("{job}/retry"), "").await;
        // The documents let a cancelled job be tried again, servers in Go only a dead letter.
        assert_eq!(again.status, if dialect == Dialect::Spec { 200 } else { 404 });
        assert_eq!(client.get("/ojs/v1/admin/jobs/none").await.status, 404);
    }
}

#[tokio::test]
async fn the_administration_retries_a_dead_letter_and_deletes_one_without_a_word() {
    for dialect in Dialect::ALL {
        let options = RegionOptions { dialect, ..RegionOptions::new("eu-west-1") };
        let region = DemoRegion::start(options).await.unwrap();
        let mut client = Client::plain(&region).await;
        put(&mut client, "mail").await;
        kill(&mut client).await;
        let letter = format!("/ojs/v1/admin/dead-letter/{ONE}");
        assert_eq!(client.get(&letter).await.status, if dialect == Dialect::Spec { 200 } else { 405 });
        assert_eq!(client.post(&format!("{letter}/retry"), "").await.json()["state"], "available");
        assert_eq!(client.send(Method::DELETE, &letter, "").await.unwrap().status, 404);
        kill(&mut client).await;
        let deleted = client.send(Method::DELETE, &letter, "").await.unwrap();
        assert_eq!((deleted.status.as_u16(), deleted.text()), (204, ""));
        assert!(region.jobs().is_empty());
    }
}

#[tokio::test]
async fn a_queue_is_configured_paused_purged_and_deleted() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    assert_eq!(client.get("/ojs/v1/queues/mail").await.status, 404);
    let config = r#"{"concurrency": 1E1}"#;
    let put_config = client.send(Method::PUT, "/ojs/v1/queues/mail/config", config).await.unwrap();
    assert!(put_config.text().contains(config), "{}", put_config.text());
    assert_eq!(client.get("/ojs/v1/queues/mail/config").await.body, put_config.body);
    let admin_config = client.send(Method::PUT, "/ojs/v1/admin/queues/mail/config", "[]").await.unwrap();
    assert_eq!(admin_config.status, 400);
    let paused = client.post("/ojs/v1/admin/queues/mail/pause", "").await.json();
    assert_eq!((&paused["name"], &paused["paused"]), (&json!("mail"), &json!(true)));
    assert!(client.get("/ojs/v1/admin/queues/mail").await.text().contains(r#""configuration":{"concurrency": 1E1}"#));
    client.post("/ojs/v1/admin/queues/mail/resume", "").await;
    region.fill("mail", 3);
    let queue = client.get("/ojs/v1/queues/mail").await.json();
    assert_eq!((&queue["state"], &queue["stats"]["depth"]), (&json!("active"), &json!(3)));
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["mail"]}"#).await;
    let purged = client.post("/ojs/v1/queues/mail/purge", "").await.json();
    assert_eq!((&purged["queue"], &purged["purged_count"]), (&json!("mail"), &json!(2)));
    assert_eq!(region.jobs().count_in(JobState::Active), 1);
    let held = client.send(Method::DELETE, "/ojs/v1/queues/mail", "").await.unwrap();
    assert_eq!((held.status.as_u16(), &held.json()["error"]["details"]["current_state"]), (409, &json!("active")));
    let deleted = client.send(Method::DELETE, "/ojs/v1/queues/mail", r#"{"strategy":"discard"}"#).await.unwrap();
    assert_eq!((deleted.status.as_u16(), &deleted.json()["jobs_affected"]), (202, &json!(1)));
    assert_eq!(client.send(Method::DELETE, "/ojs/v1/queues/mail", "").await.unwrap().status, 404);
    assert_eq!(client.get("/ojs/v1/queues").await.json()["queues"], json!([]));
}

#[tokio::test]
async fn the_administration_purges_only_what_it_names_and_confirms() {
    let region = plain().await;
    let mut client = Client::plain(&region).await;
    region.fill("mail", 2);
    let path = "/ojs/v1/admin/queues/mail/jobs";
    for body in ["", r#"{"confirm":true}"#, r#"{"states":["available"]}"#, r#"{"states":["odd"],"confirm":true}"#] {
        assert_eq!(client.send(Method::DELETE, path, body).await.unwrap().status, 400, "{body}");
    }
    let body = r#"{"states":["available"],"confirm":true}"#;
    let purged = client.send(Method::DELETE, path, body).await.unwrap().json();
    assert_eq!((&purged["purged_count"], &purged["states"]), (&json!(2), &json!(["available"])));
}
