//! Tombstones: jobs of ours that take an id in a region are no jobs to anybody, in lists, in figures and by their id.

use http::{Method, StatusCode};
use ojs_testbed::{DuplicateIds, Fault, FaultAnswer, Gate, When};
use serde_json::{Value, json};

use super::{OWN, quiet};
use crate::support::{Answer, Client, Federation, Setup, eventually};

const FENCE: &str = "ojs.federation.fence";

/// Two regions that refuse taken ids, and the sidecar told so.
fn refusing() -> Setup {
    let line = "duplicate_ids: refuse";
    quiet().by_the_documents().duplicate_ids(DuplicateIds::Refuse).region(0, line).region(1, line)
}

fn own(args: &str) -> String {
    json!({ "id": OWN, "type": "email.send", "args": [args] }).to_string()
}

/// A job that is lost in the first region, which then has no room: its id is taken there, and it goes on.
async fn fenced(federation: &Federation, body: String) -> Answer {
    let region = &federation.regions[0];
    let gate = Gate::new();
    region.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let full = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    region.faults().add(When::enqueue().next(1), Fault::Answer { answer: full, store: false });
    let (client, before) = (federation.client, federation.enqueues(0));
    let call = tokio::spawn(async move { client.enqueue(body).await });
    let is_sent = |it: &ojs_testbed::Recorded| it.method == Method::POST && it.complete;
    let arrived = |record: &ojs_testbed::Record| {
        record.requests_to("/ojs/v1/jobs").iter().filter(|it| is_sent(it)).count() > before
    };
    region.record().wait_for(arrived).await;
    region.cut_connections().await;
    let answer = call.await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
    gate.open();
    eventually("the tombstone is cancelled", async || {
        tombstones(federation).iter().any(|(_, state)| state == "cancelled")
    })
    .await;
    answer
}

/// The tombstones of the first region: id and state.
fn tombstones(federation: &Federation) -> Vec<(String, String)> {
    let all = federation.regions[0].jobs();
    let fences = all.iter().filter(|it| it.kind == FENCE);
    fences.map(|it| (it.id.clone(), it.state.as_str().to_owned())).collect()
}

fn job_path(id: &str) -> String {
    format!("/ojs/v1/jobs/{id}")
}

#[tokio::test]
async fn merged_lists_show_no_tombstones_and_count_none_where_they_show_all() {
    let federation = refusing().start().await;
    let stored = fenced(&federation, own("a")).await;
    federation.regions[0].fill("default", 2);
    assert_eq!((stored.job_id().as_str(), tombstones(&federation).len()), (OWN, 1));
    let client = federation.client;
    for (path, items) in
        [("/ojs/v1/jobs", "jobs"), ("/ojs/v1/admin/jobs", "items"), ("/ojs/v1/jobs?state=cancelled", "jobs")]
    {
        let answer = client.get(path).await;
        let shown = answer.json();
        let expected = if path.contains('?') { 0 } else { 3 };
        assert_eq!(shown[items].as_array().map(Vec::len), Some(expected), "{path}: {shown}");
        assert_eq!(shown["pagination"]["total"], expected, "{path}: {shown}");
        assert!(!String::from_utf8_lossy(&answer.body).contains(FENCE), "{path}: {shown}");
    }
    for path in [
        "/ojs/v1/queues",
        "/ojs/v1/admin/queues",
        "/ojs/v1/events?limit=100",
        "/ojs/v1/queues/ojs.federation.fence/jobs",
    ] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let shown = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!shown.contains(r#""ojs.federation.fence""#), "{path}: {shown}");
    }
    // Of a part nobody knows how many there are in the rest: whoever counts up to the total sees every job.
    let (mut seen, mut offset) = (0, 0);
    loop {
        let page = client.get(&format!("/ojs/v1/jobs?limit=1&offset={offset}")).await.json();
        seen += page["jobs"].as_array().map_or(0, Vec::len);
        offset += 1;
        if offset >= page["pagination"]["total"].as_u64().unwrap() {
            break;
        }
    }
    assert_eq!(seen, 3);
}

#[tokio::test]
async fn a_list_of_one_region_is_read_without_tombstones_where_it_is_read_at_all() {
    for (read, expected) in [("redact", 0), ("allow", 1)] {
        let federation = refusing().yaml(&format!("residency: {{ read_lists: {read} }}")).start().await;
        fenced(&federation, own("a")).await;
        let own = federation.client.get("/ojs/v1/jobs?region=us-east-1").await.json();
        assert_eq!(own["jobs"].as_array().map(Vec::len), Some(expected), "{own}");
        assert_eq!(own["pagination"]["total"], expected, "{own}");
    }
}

#[tokio::test]
async fn an_id_that_only_a_tombstone_has_is_no_job_to_anybody() {
    let federation = refusing().start().await;
    fenced(&federation, json!({ "type": "email.send", "args": ["a"] }).to_string()).await;
    let (id, _) = tombstones(&federation).remove(0);
    let path = job_path(&id);
    let one = format!("{path}?region=us-east-1");
    let calls = [
        (Method::GET, &path),
        (Method::DELETE, &path),
        (Method::PATCH, &path),
        (Method::GET, &one),
        (Method::DELETE, &one),
    ];
    for (method, path) in calls {
        let body = if method == Method::PATCH { r#"{"priority":3}"# } else { "" };
        let answer = federation.client.call(method.clone(), path, body).await;
        let code = answer.json()["error"]["code"].take();
        assert_eq!((answer.status.as_u16(), code), (404, "not_found".into()), "{method} {path}: {answer:?}");
    }
    let ids = json!({ "ids": [&id] }).to_string();
    let results = federation.client.post("/ojs/v1/jobs/results", ids).await.json();
    assert_ne!(results["results"][&id]["state"], "cancelled", "{results}");
    assert_eq!(tombstones(&federation), [(id, "cancelled".to_owned())]);
}

/// Another sidecar sees a job in the first region, which then forgets it; the first sidecar takes its id there, and stores a job of this
/// id in the second region.
async fn mislead(other: Client, federation: &Federation) {
    let first = other.enqueue(own("before")).await;
    assert_eq!((first.status.as_u16(), first.region()), (201, "us-east-1"), "{first:?}");
    let purged = other.post("/ojs/v1/queues/default/purge?region=us-east-1", "").await;
    assert_eq!((purged.status.as_u16(), federation.regions[0].jobs().len()), (200, 0), "{purged:?}");
    fenced(federation, own("after")).await;
}

#[tokio::test]
async fn a_sidecar_that_saw_a_job_where_a_tombstone_is_now_looks_on() {
    for method in [Method::GET, Method::DELETE] {
        let federation = refusing().start().await;
        let other = federation.sidecar_in("us-east-1", &[]).await;
        mislead(other.client, &federation).await;
        let answer = other.client.call(method.clone(), &job_path(OWN), "").await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "eu-west-1"), "{method}: {answer:?}");
        let shown: Value = answer.json();
        assert_eq!((&shown["job"]["id"], &shown["job"]["type"]), (&OWN.into(), &"email.send".into()), "{shown}");
        let there = federation.regions[1].jobs();
        let state = if method == Method::DELETE { "cancelled" } else { "available" };
        assert_eq!(there.job(OWN).map(|it| it.state.as_str()), Some(state));
    }
}

#[tokio::test]
async fn what_a_misled_sidecar_cannot_send_twice_is_sent_right_the_next_time() {
    let federation = refusing().start().await;
    let other = federation.sidecar_in("us-east-1", &[]).await;
    mislead(other.client, &federation).await;
    let (client, path) = (other.client, job_path(OWN));
    let change = || client.call(Method::PATCH, &path, r#"{"priority":3}"#);
    change().await.check_error(503, "backend_error", "owner_unavailable");
    let answer = change().await;
    assert_eq!((answer.status.as_u16(), answer.region()), (200, "eu-west-1"), "{answer:?}");
}

#[tokio::test]
async fn a_refusal_of_a_taken_id_does_not_say_where_the_job_is() {
    let federation = refusing().start().await;
    fenced(&federation, own("a")).await;
    let other = federation.sidecar_in("us-east-1", &[]).await;
    let refused = other.client.enqueue(own("another")).await;
    assert_eq!((refused.status.as_u16(), refused.region()), (409, "us-east-1"), "{refused:?}");
    let answer = other.client.call(Method::PATCH, &job_path(OWN), r#"{"priority":3}"#).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (200, "eu-west-1"), "{answer:?}");
}

#[tokio::test]
async fn a_tombstone_in_the_answer_to_a_batch_is_no_stored_job() {
    let line = "duplicate_ids: same";
    let federation = quiet().duplicate_ids(DuplicateIds::Same).region(0, line).region(1, line).start().await;
    fenced(&federation, own("a")).await;
    let pinned = |body: &str| {
        let mut job: Value = serde_json::from_str(body).unwrap();
        job["meta"] = json!({ "ojs.federation.region": "us-east-1" });
        job
    };
    let body = json!({ "jobs": [pinned(&own("b")), pinned(r#"{"type":"email.send","args":[]}"#)] });
    let answer = federation.client.post("/ojs/v1/jobs/batch", body.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
}

#[tokio::test]
async fn tombstones_go_with_their_queue_and_nothing_else_goes_with_them() {
    let federation = refusing().start().await;
    fenced(&federation, own("a")).await;
    federation.regions[0].fill("default", 2);
    let states = r#"{"states":["cancelled"]}"#;
    let purged = federation.client.post("/ojs/v1/queues/ojs.federation.fence/purge", states).await;
    assert_eq!((purged.status.as_u16(), &purged.json()["purged_count"]), (200, &1.into()), "{purged:?}");
    assert_eq!((tombstones(&federation).len(), federation.regions[0].jobs().len()), (0, 2));
    assert_eq!(federation.stored(OWN), [(1, 1)]);
}
