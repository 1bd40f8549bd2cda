//! Lists, part by part.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Client;
use crate::{DemoRegion, Dialect, RegionOptions};
use ojs_handles::{Clock, SteeredTime};

/// A region with jobs `…1` to `…count` that came a second apart, every second one in the queue `mail`.
async fn filled(dialect: Dialect, count: usize) -> (DemoRegion, Client) {
    let time = SteeredTime::starting_at(1_773_570_600_000);
    let clock = Clock::new(Arc::new(Arc::clone(&time)));
    let options = RegionOptions { dialect, clock, ..RegionOptions::new("eu-west-1") };
    let region = DemoRegion::start(options).await.unwrap();
    let mut client = Client::plain(&region).await;
    for number in 1..=count {
        let queue = if number % 2 == 0 { "mail" } else { "default" };
        let options = format!(r#"{{"queue":"{queue}","retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}}}"#);
        let job = format!(r#"{{"type":"a.{queue}","args":[],"id":"{}","options":{options}}}"#, id(number));
        assert_eq!(client.post("/ojs/v1/jobs", &job).await.status, 201);
        time.advance(Duration::from_secs(1));
    }
    (region, client)
}

fn id(number: usize) -> String {
    format!("019461a8-0000-7000-8000-{number:012}")
}

/// The numbers of the jobs that an answer lists.
fn numbers(answer: &Value, member: &str) -> Vec<usize> {
    let jobs = answer[member].as_array().unwrap();
    jobs.iter().map(|job| job["id"].as_str().unwrap()[24..].parse().unwrap()).collect()
}

/// Lets every job fail for good, those of `default` first.
async fn kill_all(client: &mut Client, count: usize) {
    let fetch = format!(r#"{{"queues":["default","mail"],"count":{count}}}"#);
    let fetched = client.post("/ojs/v1/workers/fetch", &fetch).await.json();
    for job in fetched["jobs"].as_array().unwrap() {
        let nack = json!({ "job_id": job["id"], "error": { "type": "smtp.refused", "message": "m" } }).to_string();
        assert_eq!(client.post("/ojs/v1/workers/nack", &nack).await.status, 200);
    }
}

#[tokio::test]
async fn jobs_are_listed_newest_first_by_offset_and_by_cursor() {
    let (_region, mut client) = filled(Dialect::Spec, 5).await;
    let page = client.get("/ojs/v1/jobs?limit=2&offset=1").await.json();
    assert_eq!(numbers(&page, "jobs"), [4, 3]);
    assert_eq!(page["pagination"], json!({"total": 5, "limit": 2, "offset": 1, "has_more": true}));
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/ojs/v1/jobs?limit=2&cursor={cursor}")).await.json();
        seen.extend(numbers(&page, "jobs"));
        let pagination = &page["pagination"];
        assert_eq!((&pagination["total"], &pagination["has_more"]), (&json!(5), &json!(seen.len() < 5)));
        match pagination["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, [5, 4, 3, 2, 1]);
    for query in ["limit=x", "offset=-1", "cursor=0a", "state=dead", "since=yesterday"] {
        assert_eq!(client.get(&format!("/ojs/v1/jobs?{query}")).await.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_list_of_jobs_is_narrowed_by_state_queue_type_and_time() {
    let (_region, mut client) = filled(Dialect::Spec, 5).await;
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["mail"]}"#).await;
    for (query, expected) in [
        ("state=active", vec![2]),
        ("state=active,available&queue=mail", vec![4, 2]),
        ("queue=default", vec![5, 3, 1]),
        ("type=a.mail", vec![4, 2]),
        ("type=a.d*", vec![5, 3, 1]),
        ("type=a", vec![]),
        ("since=2026-03-15T10:30:03Z", vec![5, 4]),
        ("until=2026-03-15T10:30:01Z", vec![1]),
        ("queue=none", vec![]),
    ] {
        assert_eq!(numbers(&client.get(&format!("/ojs/v1/jobs?{query}")).await.json(), "jobs"), expected, "{query}");
    }
    assert_eq!(numbers(&client.get("/ojs/v1/queues/mail/jobs?state=available").await.json(), "jobs"), [4]);
}

#[tokio::test]
async fn the_administration_pages_by_number_and_cuts_down_what_is_too_much() {
    let (_region, mut client) = filled(Dialect::Spec, 5).await;
    for (query, expected, pagination) in [
        ("per_page=2", vec![5, 4], json!({"total": 5, "page": 1, "per_page": 2})),
        ("per_page=2&page=3", vec![1], json!({"total": 5, "page": 3, "per_page": 2})),
        ("per_page=2&page=4", vec![], json!({"total": 5, "page": 4, "per_page": 2})),
        ("queue=mail&state=available", vec![4, 2], json!({"total": 2, "page": 1, "per_page": 20})),
        ("per_page=5000&page=0", vec![5, 4, 3, 2, 1], json!({"total": 5, "page": 1, "per_page": 100})),
    ] {
        let page = client.get(&format!("/ojs/v1/admin/jobs?{query}")).await.json();
        assert_eq!((numbers(&page, "items"), &page["pagination"]), (expected, &pagination), "{query}");
    }
}

#[tokio::test]
async fn dead_letters_are_listed_in_the_order_in_which_they_died_and_counted() {
    let (_region, mut client) = filled(Dialect::Spec, 4).await;
    kill_all(&mut client, 4).await;
    let first = client.get("/ojs/v1/dead-letter?limit=3").await.json();
    assert_eq!(numbers(&first, "jobs"), [1, 2, 3]);
    let cursor = first["pagination"]["next_cursor"].as_str().unwrap();
    // A letter that has gone meanwhile shifts nothing.
    client.send(http::Method::DELETE, &format!("/ojs/v1/dead-letter/{}", id(1)), "").await.unwrap();
    let rest = client.get(&format!("/ojs/v1/dead-letter?limit=3&cursor={cursor}")).await.json();
    assert_eq!((numbers(&rest, "jobs"), &rest["pagination"]), (vec![4], &json!({"total": 3, "has_more": false})));
    let clamped = client.get("/ojs/v1/dead-letter?limit=5000&offset=0").await.json();
    assert_eq!(clamped["pagination"]["limit"], 100);
    let stats = client.get("/ojs/v1/dead-letter/stats").await.json();
    assert_eq!((&stats["total"], &stats["by_queue"]), (&json!(3), &json!({"default": 1, "mail": 2})));
    assert_eq!(stats["by_error_type"], json!({"smtp.refused": 3}));
    assert_eq!(client.get("/ojs/v1/admin/dead-letter/stats").await.json(), stats);
    let page = client.get("/ojs/v1/admin/dead-letter?queue=mail&per_page=1&page=2").await.json();
    assert_eq!((numbers(&page, "items"), &page["pagination"]["total"]), (vec![4], &json!(2)));
}

#[tokio::test]
async fn queues_are_listed_by_name_in_both_styles() {
    let (_region, mut client) = filled(Dialect::Spec, 2).await;
    client.send(http::Method::PUT, "/ojs/v1/queues/abc/config", "{}").await.unwrap();
    let page = client.get("/ojs/v1/queues?limit=2").await.json();
    assert_eq!((&page["queues"][0]["name"], &page["queues"][1]["name"]), (&json!("abc"), &json!("default")));
    let cursor = page["pagination"]["next_cursor"].as_str().unwrap();
    let rest = client.get(&format!("/ojs/v1/queues?cursor={cursor}")).await.json();
    assert_eq!((&rest["queues"][0]["name"], &rest["queues"][0]["available"]), (&json!("mail"), &json!(1)));
    let page = client.get("/ojs/v1/admin/queues?per_page=1&page=3").await.json();
    assert_eq!(page["pagination"], json!({"total": 3, "page": 3, "per_page": 1}));
    let mail = &page["items"][0];
    assert_eq!(
        (&mail["name"], &mail["counts"]["available"], &mail["paused"]),
        (&json!("mail"), &json!(1), &json!(false))
    );
}

#[tokio::test]
async fn workers_are_listed_with_what_they_do() {
    let (region, mut client) = filled(Dialect::Spec, 3).await;
    client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"count":2,"worker_id":"w1"}"#).await;
    client.post("/ojs/v1/workers/heartbeat", r#"{"worker_id":"w2","active_jobs":[]}"#).await;
    region.direct("w2", crate::Directive::Quiet);
    let page = client.get("/ojs/v1/admin/workers").await.json();
    assert_eq!(page["summary"], json!({"total": 2, "running": 1, "quiet": 1, "stale": 0}));
    let (one, two) = (&page["items"][0], &page["items"][1]);
    assert_eq!((&one["id"], &one["state"], &one["active_jobs"]), (&json!("w1"), &json!("running"), &json!(2)));
    assert_eq!((&two["id"], &two["state"], &two["active_jobs"]), (&json!("w2"), &json!("quiet"), &json!(0)));
    let quiet = client.post("/ojs/v1/admin/workers/w1/quiet", "").await.json();
    assert_eq!(quiet, json!({"worker_id": "w1", "state": "quiet"}));
    let beat = client.post("/ojs/v1/workers/heartbeat", r#"{"worker_id":"w1"}"#).await.json();
    assert_eq!(beat["state"], "quiet");
    assert_eq!(client.get("/ojs/v1/admin/stats").await.json()["workers"], 2);
}

#[tokio::test]
async fn history_tells_of_one_job_from_the_beginning_and_of_all_from_the_end() {
    let (_region, mut client) = filled(Dialect::Spec, 2).await;
    kill_all(&mut client, 2).await;
    let kinds = |answer: &Value| -> Vec<String> {
        let events = answer["events"].as_array().unwrap();
        events.iter().map(|event| event["event_type"].as_str().unwrap().to_owned()).collect()
    };
    let path = format!("/ojs/v1/jobs/{}/history", id(1));
    let first = client.get(&format!("{path}?limit=3")).await.json();
    assert_eq!(
        (kinds(&first).join(" "), &first["total"]),
        ("job.enqueued job.started job.failed".to_owned(), &json!(4))
    );
    assert_eq!(first["events"][0]["job_id"], json!(id(1)));
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = client.get(&format!("{path}?limit=3&cursor={cursor}")).await.json();
    assert_eq!((kinds(&rest), rest.get("next_cursor")), (vec!["job.discarded".to_owned()], None));
    let all = client.get("/ojs/v1/history?event_types=job.enqueued,job.discarded&limit=3").await.json();
    assert_eq!(
        (kinds(&all).join(" "), &all["total_estimate"]),
        ("job.discarded job.discarded job.enqueued".to_owned(), &json!(4))
    );
    assert_eq!(client.get("/ojs/v1/history?queues=mail").await.json()["total_estimate"], 4);
    assert_eq!(client.get("/ojs/v1/jobs/none/history").await.status, 404);
}

#[tokio::test]
async fn servers_in_go_have_fewer_lists_and_cut_them_in_their_own_way() {
    let (_region, mut client) = filled(Dialect::Reference, 3).await;
    for path in ["jobs/x/history", "history", "dead-letter/stats", "queues/mail", "webhooks/subscriptions"] {
        let status = client.get(&format!("/ojs/v1/{path}")).await.status.as_u16();
        assert!(matches!(status, 404 | 405), "{path}: {status}");
    }
    assert_eq!(client.get("/ojs/v1/jobs").await.status, 405);
    let queues = client.get("/ojs/v1/queues?limit=1").await.json();
    assert_eq!(queues["queues"].as_array().unwrap().len(), 2);
    assert_eq!(queues["pagination"], json!({"total": 2, "limit": 50, "offset": 0, "has_more": false}));
    let queues = client.get("/ojs/v1/admin/queues?per_page=1").await.json();
    assert_eq!(queues["pagination"], json!({"total": 2, "page": 1, "per_page": 2}));
    let jobs = client.get("/ojs/v1/admin/jobs?per_page=500&page=x").await.json();
    assert_eq!((numbers(&jobs, "items"), &jobs["pagination"]["per_page"]), (vec![3, 2, 1], &json!(25)));
    kill_all(&mut client, 3).await;
    let dead = client.get("/ojs/v1/dead-letter?limit=2&cursor=ignored&offset=x").await.json();
    assert_eq!(numbers(&dead, "jobs"), [1, 2]);
    assert_eq!(dead["pagination"], json!({"total": 3, "limit": 2, "offset": 0, "has_more": true}));
    assert_eq!(client.get("/ojs/v1/admin/dead-letter/stats").await.json(), json!({"total": 3}));
}
