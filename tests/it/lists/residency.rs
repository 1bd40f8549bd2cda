//! What a sidecar shows of jobs that are pinned to another region than its own; judged at the client.

use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::ids;
use crate::support::{Answer, Client, Federation, Setup};

const CANARY: &str = "canary-51d0c3";

/// A job that holds the canary wherever a client can put something.
fn job(pin: Option<&str>) -> String {
    let mut job = json!({
        "type": "a",
        "args": [{ "deep": CANARY }],
        "meta": { "own": CANARY },
        "options": { "queue": "q", "tags": [CANARY] },
        "extra": CANARY,
    });
    if let Some(pin) = pin {
        job["meta"]["ojs.federation.region"] = pin.into();
    }
    job.to_string()
}

struct Placed {
    federation: Federation,
    here: String,
    there: String,
    free: String,
}

/// One job pinned to the local region, one pinned elsewhere, one free.
async fn placed(yaml: &str) -> Placed {
    let federation = Setup::default().by_the_documents().yaml(yaml).start().await;
    let here = federation.client.enqueue(job(Some("us-east-1"))).await.job_id();
    let there = federation.client.enqueue(job(Some("eu-west-1"))).await.job_id();
    let free = federation.client.enqueue(job(None)).await.job_id();
    Placed { federation, here, there, free }
}

fn item<'a>(answer: &'a Value, id: &str) -> Option<&'a Value> {
    let items = answer["jobs"].as_array().or(answer["items"].as_array()).unwrap();
    items.iter().find(|item| item["id"] == id)
}

fn shows(answer: &Answer) -> bool {
    memchr::memmem::find(&answer.body, CANARY.as_bytes()).is_some()
}

#[tokio::test]
async fn lists_redact_what_is_pinned_elsewhere_and_leave_the_rest_as_it_is() {
    let Placed { federation, here, there, free } = placed("").await;
    for target in [
        "/ojs/v1/jobs",
        "/ojs/v1/admin/jobs",
        "/ojs/v1/queues/q/jobs",
        "/ojs/v1/jobs?region=eu-west-1",
        "/ojs/v1/jobs?offset=1&limit=5",
    ] {
        let answer = federation.client.get(target).await.json();
        let redacted = item(&answer, &there).unwrap_or(&Value::Null);
        assert_eq!(
            (&redacted["type"], &redacted["queue"], &redacted["state"]),
            (&json!("a"), &json!("q"), &json!("available"))
        );
        assert_eq!(
            (&redacted["args"], &redacted["x-ojs-federation"]["redacted"]),
            (&json!([]), &json!(true)),
            "{target}"
        );
        assert_eq!(redacted["meta"]["ojs.federation.region"], "eu-west-1");
        assert!(!redacted.to_string().contains(CANARY), "{redacted}");
        for id in [&here, &free] {
            let whole = item(&answer, id);
            assert!(
                whole.is_none_or(|job| job["args"][0]["deep"] == CANARY && job["x-ojs-federation"].is_null()),
                "{target}"
            );
        }
    }
    // The job's own region shows it, and redacts the one that is pinned here.
    let own = federation.sidecar_in("eu-west-1", &[]).await;
    let answer = own.client.get("/ojs/v1/jobs").await.json();
    assert_eq!(item(&answer, &there).unwrap()["args"][0]["deep"], CANARY);
    assert_eq!(item(&answer, &here).unwrap()["args"], json!([]));
}

#[tokio::test]
async fn lists_can_show_everything_or_leave_out_what_is_pinned_elsewhere() {
    let Placed { federation, here, there, free } = placed("").await;
    let denies = federation.sidecar_in("us-east-1", &[("residency.read_lists", "deny")]).await;
    let answer = denies.client.get("/ojs/v1/jobs").await.json();
    let mut shown = ids(&answer);
    shown.sort();
    let mut expected = [here, free];
    expected.sort();
    assert_eq!(shown, expected);
    assert_eq!((&answer["x-ojs-federation"]["withheld"], &answer["pagination"]["total"]), (&json!(1), &json!(3)));
    let addressed = denies.client.get("/ojs/v1/jobs?region=eu-west-1").await.json();
    assert_eq!((ids(&addressed).len(), &addressed["x-ojs-federation"]["withheld"]), (0, &json!(1)));
    let allows =
        federation.sidecar_in("us-east-1", &[("residency.read_lists", "allow"), ("lists.annotate", "true")]).await;
    for target in ["/ojs/v1/jobs", "/ojs/v1/jobs?region=eu-west-1"] {
        let answer = allows.client.get(target).await.json();
        let whole = item(&answer, &there).unwrap();
        assert_eq!(
            (&whole["args"][0]["deep"], &whole["x-ojs-federation"]),
            (&json!(CANARY), &json!({ "region": "eu-west-1" }))
        );
    }
}

#[tokio::test]
async fn a_lookup_shows_the_whole_job_unless_it_is_told_not_to() {
    let Placed { federation, here, there, free } = placed("").await;
    let redacts = federation.sidecar_in("us-east-1", &[("residency.read", "redact")]).await;
    let denies = federation.sidecar_in("us-east-1", &[("residency.read", "deny")]).await;
    for path in [format!("/ojs/v1/jobs/{there}"), format!("/ojs/v1/admin/jobs/{there}")] {
        assert!(shows(&federation.client.get(&path).await));
        let redacted = redacts.client.get(&path).await;
        assert_eq!((redacted.status.as_u16(), redacted.region()), (200, "eu-west-1"));
        assert!(!shows(&redacted), "{redacted:?}");
        let job = redacted.json();
        let job = if job["job"].is_object() { &job["job"] } else { &job };
        assert_eq!(
            (&job["id"], &job["args"], &job["x-ojs-federation"]["redacted"]),
            (&json!(there), &json!([]), &json!(true))
        );
        denies.client.get(&path).await.check_error(403, "forbidden", "residency");
        let addressed = denies.client.get(&format!("{path}?region=eu-west-1")).await;
        addressed.check_error(403, "forbidden", "residency");
    }
    for id in [here, free] {
        for sidecar in [&redacts, &denies] {
            assert!(shows(&sidecar.client.get(&format!("/ojs/v1/jobs/{id}")).await));
        }
    }
}

/// A worker of the job's own region has saved a checkpoint and a result with the canary.
async fn finished(federation: &Federation, id: &str) {
    let sidecar = federation.sidecar_in("eu-west-1", &[]).await;
    begin(&sidecar.client, id).await;
    finish(&sidecar.client, id).await;
}

async fn begin(worker: &Client, id: &str) {
    let fetched = worker.post("/ojs/v1/workers/fetch", r#"{"queues":["q"],"worker_id":"w"}"#).await.json();
    assert_eq!(fetched["jobs"][0]["id"], id);
    let checkpoint = json!({ "state": { "at": CANARY } }).to_string();
    assert!(worker.post(&format!("/ojs/v1/jobs/{id}/checkpoint"), checkpoint).await.status.is_success());
}

async fn finish(worker: &Client, id: &str) {
    let result = json!({ "job_id": id, "result": { "is": CANARY } }).to_string();
    assert_eq!(worker.post("/ojs/v1/workers/ack", result).await.status, 200);
}

#[tokio::test]
async fn a_result_without_its_job_is_judged_by_the_job() {
    let Placed { federation, here, there, free } = placed("").await;
    finished(&federation, &there).await;
    let redacts = federation.sidecar_in("us-east-1", &[("residency.read", "redact")]).await;
    let denies = federation.sidecar_in("us-east-1", &[("residency.read", "deny")]).await;
    let path = format!("/ojs/v1/jobs/{there}/result");
    assert!(shows(&federation.client.get(&path).await));
    let redacted = redacts.client.get(&path).await;
    assert_eq!((redacted.status.as_u16(), &redacted.json()["state"]), (200, &json!("completed")), "{redacted:?}");
    assert!(!shows(&redacted));
    denies.client.get(&path).await.check_error(403, "forbidden", "residency");
    let ids = json!({ "ids": [there, here, free] }).to_string();
    assert!(shows(&federation.client.post("/ojs/v1/jobs/results", ids.clone()).await));
    let redacted = redacts.client.post("/ojs/v1/jobs/results", ids.clone()).await;
    assert!(!shows(&redacted), "{redacted:?}");
    assert_eq!(redacted.json()["results"][&there]["state"], "completed");
    assert_eq!(redacted.json()["results"].as_object().unwrap().len(), 3);
    let denied = denies.client.post("/ojs/v1/jobs/results", ids).await.json();
    assert_eq!((denied["results"].as_object().unwrap().len(), &denied["x-ojs-federation"]["withheld"]), (2, &json!(1)));
}

#[tokio::test]
async fn what_else_a_job_has_is_not_shown_either_and_its_events_are_refused() {
    let Placed { federation, there, .. } = placed("").await;
    let worker = federation.sidecar_in("eu-west-1", &[]).await;
    begin(&worker.client, &there).await;
    let redacts = federation.sidecar_in("us-east-1", &[("residency.read", "redact")]).await;
    for rest in ["checkpoint", "progress", "history"] {
        // The checkpoint ends with the job.
        if rest == "progress" {
            finish(&worker.client, &there).await;
        }
        let path = format!("/ojs/v1/jobs/{there}/{rest}");
        let answer = redacts.client.get(&path).await;
        assert!(!shows(&answer), "{rest}: {answer:?}");
        assert_eq!(answer.json()["x-ojs-federation"]["redacted"], true, "{rest}: {answer:?}");
    }
    assert!(!redacts.client.get(&format!("/ojs/v1/jobs/{there}/events")).await.status.is_success());
    let refused = redacts.client.get(&format!("/ojs/v1/events/stream?channel=job:{there}")).await;
    refused.check_error(403, "forbidden", "residency");
}

#[tokio::test]
async fn a_change_is_answered_redacted_because_it_is_done_by_then() {
    let Placed { federation, there, .. } = placed("").await;
    let denies = federation.sidecar_in("us-east-1", &[("residency.read", "deny")]).await;
    let answer = denies.client.call(http::Method::DELETE, &format!("/ojs/v1/jobs/{there}"), "").await;
    assert_eq!((answer.status.as_u16(), &answer.json()["job"]["state"]), (200, &json!("cancelled")), "{answer:?}");
    assert!(!shows(&answer));
    assert_eq!(federation.regions[1].jobs().job(&there).unwrap().state.as_str(), "cancelled");
}

#[tokio::test]
async fn a_job_that_a_rule_keeps_in_another_region_is_redacted_like_one_with_a_pin() {
    let yaml = "routing: { rules: [{ match: { queue: q }, target: { region: eu-west-1 } }] }";
    let federation = Setup::default().by_the_documents().yaml(yaml).start().await;
    let ruled = federation.client.enqueue(job(None)).await;
    assert_eq!(ruled.region(), "eu-west-1");
    let answer = federation.client.get("/ojs/v1/jobs").await;
    assert!(!shows(&answer), "{answer:?}");
    assert_eq!(item(&answer.json(), &ruled.job_id()).unwrap()["x-ojs-federation"]["redacted"], true);
}

/// A worker of the job's own region has failed it for good.
async fn died(federation: &Federation, id: &str) {
    let beside = federation.sidecar_in("eu-west-1", &[]).await;
    let worker = beside.client;
    let fetched = worker.post("/ojs/v1/workers/fetch", r#"{"queues":["q"],"worker_id":"w"}"#).await.json();
    assert_eq!(fetched["jobs"][0]["id"], id);
    let failed = json!({ "job_id": id, "error": { "code": "x", "message": "x", "retryable": false } });
    assert_eq!(worker.post("/ojs/v1/workers/nack", failed.to_string()).await.status, 200);
}

#[tokio::test]
async fn a_retried_dead_letter_is_answered_redacted_like_every_change() {
    for (mode, prefix) in [("deny", "/ojs/v1/dead-letter"), ("redact", "/ojs/v1/admin/dead-letter")] {
        let federation = Setup::default().by_the_documents().start().await;
        let mut body: Value = serde_json::from_str(&job(Some("eu-west-1"))).unwrap();
        body["options"]["retry"] = json!({ "max_attempts": 1, "on_exhaustion": "dead_letter" });
        let id = federation.client.enqueue(body.to_string()).await.job_id();
        let sidecar = federation.sidecar_in("us-east-1", &[("residency.read", mode)]).await;
        died(&federation, &id).await;
        let retried = sidecar.client.post(&format!("{prefix}/{id}/retry"), "").await;
        assert!(retried.status.is_success() && !shows(&retried), "{mode}: {retried:?}");
        assert_eq!(retried.region(), "eu-west-1");
        let shown = retried.json();
        let shown = if shown["job"].is_object() { &shown["job"] } else { &shown };
        assert_eq!((&shown["id"], &shown["args"]), (&json!(id), &json!([])), "{retried:?}");
        assert_eq!(federation.regions[1].jobs().job(&id).unwrap().state.as_str(), "available");
    }
}

const HIDING: [&str; 2] = ["redact", "deny"];

#[tokio::test]
async fn a_definition_that_is_bound_to_another_region_is_shown_as_its_jobs_are() {
    let federation = Setup::default().by_the_documents().start().await;
    let template =
        |pin: &str| json!({ "type": "a", "args": [CANARY], "meta": { "own": CANARY, "ojs.federation.region": pin } });
    for (pin, name) in [("eu-west-1", "there"), ("us-east-1", "here")] {
        let cron = json!({ "name": name, "cron": "0 9 * * *", "job_template": template(pin) });
        assert_eq!(federation.client.post("/ojs/v1/cron", cron.to_string()).await.status, 201);
    }
    let workflow = json!({ "type": "chain", "steps": [template("eu-west-1")] });
    let workflow = federation.client.post("/ojs/v1/workflows", workflow.to_string()).await.json();
    let workflow = workflow["workflow"]["id"].as_str().or(workflow["id"].as_str()).unwrap().to_owned();
    // Some servers show the steps, with what they have given.
    let step = json!({ "id": "s", "type": "a", "state": "completed", "result": { "is": CANARY } });
    answers(&federation, "/ojs/v1/workflows/", &json!({ "workflow": { "id": workflow, "steps": [step] } }));
    assert!(shows(&federation.client.get("/ojs/v1/cron/there").await), "the demo region shows templates");
    for mode in HIDING {
        let flags = [("residency.read", mode), ("residency.read_lists", mode)];
        let sidecar = federation.sidecar_in("us-east-1", &flags).await;
        for path in ["/ojs/v1/cron/there".to_owned(), format!("/ojs/v1/workflows/{workflow}")] {
            let answer = sidecar.client.get(&path).await;
            assert!(!shows(&answer), "{mode} {path}: {answer:?}");
        }
        let there = sidecar.client.get("/ojs/v1/cron/there").await;
        match mode {
            "deny" => drop(there.check_error(403, "forbidden", "residency")),
            _ => assert!(there.status == 200 && there.json().to_string().contains("there"), "{there:?}"),
        }
        assert!(shows(&sidecar.client.get("/ojs/v1/cron/here").await));
        let paused = sidecar.client.post("/ojs/v1/cron/there/pause", "").await;
        assert!(paused.status.is_success() && !shows(&paused), "{mode}: {paused:?}");
    }
}

#[tokio::test]
async fn a_stream_of_another_region_is_refused_where_reads_are_not_allowed() {
    let federation = Setup::default().by_the_documents().start().await;
    for mode in HIDING {
        let flags = [("residency.read", mode), ("residency.read_lists", mode)];
        let sidecar = federation.sidecar_in("us-east-1", &flags).await;
        for path in [
            "/ojs/v1/queues/q/events?region=eu-west-1",
            "/ojs/v1/events/stream?channel=queue:q&region=eu-west-1",
            "/ojs/v1/ws?region=eu-west-1",
            "/v1/events/stream?region=eu-west-1",
        ] {
            sidecar.client.get(path).await.check_error(403, "forbidden", "residency");
            let upgrade = http::Request::get(path).header("connection", "upgrade").header("upgrade", "websocket");
            let upgraded = sidecar.client.send(upgrade, "").await;
            assert_eq!(upgraded.status, 403, "{mode} {path}: {upgraded:?}");
        }
        let unknown = http::Request::get("/ojs/v1/anything").header("ojs-federation-region", "eu-west-1");
        sidecar.client.send(unknown, "").await.check_error(403, "forbidden", "residency");
    }
    assert!(federation.seen("/events").is_empty() && federation.seen("/ws").is_empty());
}

/// What the region of eu-west-1 answers to reads below this path.
fn answers(federation: &Federation, prefix: &str, body: &Value) {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let answer = FaultAnswer { status: http::StatusCode::OK, headers, body: body.to_string().into() };
    federation.regions[1]
        .faults()
        .add(When::path(prefix).method(http::Method::GET), Fault::Answer { answer, store: false });
}

#[tokio::test]
async fn items_of_unique_jobs_without_their_meta_are_hidden_like_pinned_ones() {
    let federation = Setup::default().by_the_documents().start().await;
    let item = json!({ "key": "k", "job_id": "j", "type": "a", "args": [CANARY] });
    answers(&federation, "/ojs/v1/unique-jobs", &json!({ "unique_jobs": [item] }));
    let allowing = federation.sidecar_in("us-east-1", &[("residency.read_lists", "allow")]).await;
    assert!(shows(&allowing.client.get("/ojs/v1/unique-jobs").await));
    for mode in HIDING {
        let flags = [("residency.read", mode), ("residency.read_lists", mode)];
        let sidecar = federation.sidecar_in("us-east-1", &flags).await;
        for path in ["/ojs/v1/unique-jobs", "/ojs/v1/unique-jobs?region=eu-west-1"] {
            let answer = sidecar.client.get(path).await;
            assert!(answer.status == 200 && !shows(&answer), "{mode} {path}: {answer:?}");
        }
    }
}
