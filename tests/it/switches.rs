//! Switches of one sidecar: `drain`, `undrain`, `maintenance` and `switches`.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::support::{Client, Ended, Federation, Process, Setup, command, job, pinned};

const WHY: [&str; 6] = ["--reason", "storm ahead", "--ticket", "OPS-7", "--author", "ana"];

/// A command of an operator at this admin listener.
pub async fn order(admin: &Client, arguments: &[&str]) -> Ended {
    let address = admin.address().to_string();
    let arguments: Vec<String> =
        [arguments, &WHY[..], &["--address", &address]].concat().iter().map(|it| (*it).to_owned()).collect();
    let run = move || command(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// Where a flexible job goes.
async fn goes_to(federation: &Federation) -> String {
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.region().to_owned()
}

pub async fn listed(admin: &Client) -> Vec<Value> {
    admin.get("/switches").await.json()["switches"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_drained_region_gets_pinned_jobs_only_until_its_time_is_over() {
    let federation = Setup::default().steered().start().await;
    assert_eq!(goes_to(&federation).await, "us-east-1");
    let done = order(&federation.admin, &["drain", "us-east-1", "--for", "30m"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("drain us-east-1 until "), "{}", done.all());
    assert!(done.stdout.contains("storm ahead (OPS-7, ana)") && done.stdout.contains("not on disk"), "{}", done.all());
    assert_ne!(goes_to(&federation).await, "us-east-1");
    let answer = federation.client.enqueue(pinned("us-east-1", "b")).await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "us-east-1"), "{answer:?}");
    let shown = federation.client.get("/v1/federation/regions").await.json();
    assert_eq!(shown["regions"][0]["switch"], "drain");
    assert_eq!(federation.metric(r#"switches{switch="drain"}"#).await, 1.0);
    federation.advance(Duration::from_secs(31 * 60));
    crate::support::eventually("jobs go there again", async || goes_to(&federation).await == "us-east-1").await;
    assert!(listed(&federation.admin).await.is_empty());
}

#[tokio::test]
async fn an_evacuated_region_refuses_pinned_jobs_and_keeps_its_workers() {
    let federation = Setup::default().steered().start().await;
    let stored = federation.client.enqueue(pinned("us-east-1", "a")).await.job_id();
    let done = order(&federation.admin, &["drain", "us-east-1", "--evacuate", "--for", "1h"]).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
    let before = federation.enqueues(0);
    let refused = federation.client.enqueue(pinned("us-east-1", "b")).await;
    refused.check_error(503, "backend_error", "region_unavailable");
    assert_eq!(federation.enqueues(0), before, "no byte of it came there");
    let fetched = federation.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#).await;
    assert_eq!(fetched.json()["jobs"][0]["id"], stored.as_str(), "{fetched:?}");
    let acked =
        federation.client.post("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{stored}","result":{{}}}}"#)).await;
    assert_eq!(acked.status, 200, "{acked:?}");
    let ended = order(&federation.admin, &["undrain", "us-east-1"]).await;
    assert!(ended.code == Some(0) && ended.stdout.contains("ended: evacuate us-east-1"), "{}", ended.all());
    assert_eq!(federation.client.enqueue(pinned("us-east-1", "c")).await.status, 201);
    let again = order(&federation.admin, &["undrain", "us-east-1"]).await;
    assert!(again.code == Some(1) && again.stderr.contains("404: no such switch"), "{}", again.all());
}

#[tokio::test]
async fn no_job_fails_over_into_a_forbidden_region() {
    let federation = Setup::default().steered().yaml("failover: { prefer_regions: [eu-west-1] }").start().await;
    let done = order(&federation.admin, &["drain", "eu-west-1", "--forbid", "--for", "1h"]).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
    assert_eq!(federation.client.enqueue(pinned("eu-west-1", "a")).await.status, 201, "a pin is no failover");
    let done = order(&federation.admin, &["drain", "us-east-1", "--for", "1h"]).await;
    assert_eq!(done.code, Some(0), "{}", done.all());
    assert_eq!(goes_to(&federation).await, "ap-south-1");
}

#[tokio::test]
async fn in_maintenance_workers_get_no_jobs_and_everything_else_goes_on() {
    let federation = Setup::default().steered().start().await;
    let fetch = || federation.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#);
    let first = federation.client.enqueue(job("a")).await.job_id();
    assert_eq!(fetch().await.json()["jobs"][0]["id"], first.as_str());
    let done = order(&federation.admin, &["maintenance", "on", "--for", "1h"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("maintenance until "), "{}", done.all());
    let second = federation.client.enqueue(job("b")).await;
    assert_eq!(second.status, 201);
    let seen = federation.seen("workers/fetch");
    let empty = fetch().await;
    assert_eq!((empty.status.as_u16(), empty.json()), (200, json!({ "jobs": [] })));
    assert_eq!(federation.seen("workers/fetch"), seen, "no region was asked");
    let acked = federation.client.post("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{first}","result":{{}}}}"#)).await;
    assert_eq!(acked.status, 200, "{acked:?}");
    assert_eq!(federation.client.get(&format!("/ojs/v1/jobs/{}", second.job_id())).await.status, 200);
    let done = order(&federation.admin, &["maintenance", "off"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("ended: maintenance"), "{}", done.all());
    assert_eq!(fetch().await.json()["jobs"][0]["id"], second.job_id().as_str());
}

#[tokio::test]
async fn the_last_region_of_any_jobs_is_not_drained_without_force() {
    let rule = "routing: { rules: [{ match: { job_type: eu.* }, target: { regions: [eu-west-1] } }] }";
    let federation = Setup::default().steered().yaml(rule).start().await;
    let refused = order(&federation.admin, &["drain", "eu-west-1", "--for", "1h"]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("`routing.rules[0].target`"), "{}", refused.all());
    for region in ["us-east-1", "ap-south-1"] {
        assert_eq!(order(&federation.admin, &["drain", region, "--for", "1h"]).await.code, Some(0), "{region}");
    }
    let refused = order(&federation.admin, &["drain", "eu-west-1", "--for", "1h"]).await;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("409: `region`: with it no region of `regions` would take"),
        "{}",
        refused.all()
    );
    assert_eq!(goes_to(&federation).await, "eu-west-1");
    assert_eq!(order(&federation.admin, &["drain", "eu-west-1", "--for", "1h", "--force"]).await.code, Some(0));
    federation.client.enqueue(job("a")).await.check_error(503, "backend_error", "no_healthy_region");
}

#[tokio::test]
async fn a_switch_outlives_a_kill_and_a_reload_and_ends_in_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let journal = format!("journal: {{ path: {:?} }}", dir.path().join("journal"));
    let stage = Setup::default().yaml(&journal).stage().await;
    let first = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    let done = order(&first.admin, &["drain", "us-east-1", "--for", "1h"]).await;
    assert!(done.code == Some(0) && !done.stdout.contains("not on disk"), "{}", done.all());
    first.wait_for_line("ojs.federation.switch_set").await;
    let line = first.log().into_iter().find(|line| line.contains("switch_set")).unwrap();
    assert!(line.contains("storm ahead") && line.contains("OPS-7") && line.contains("ana"), "{line}");
    // Killed.
    drop(first);
    let second = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    let all = listed(&second.admin).await;
    assert_eq!((all.len(), &all[0]["switch"], &all[0]["region"]), (1, &"drain".into(), &"us-east-1".into()));
    let goes_to = async || second.client.enqueue(job("a")).await.region().to_owned();
    assert_ne!(goes_to().await, "us-east-1");
    std::fs::write(&stage.config, std::fs::read_to_string(&stage.config).unwrap() + "\nidempotency: { ttl: 2h }\n")
        .unwrap();
    second.signal("HUP");
    second.wait_for_line("configuration_reloaded").await;
    assert_ne!(goes_to().await, "us-east-1");
    assert_eq!(order(&second.admin, &["drain", "us-east-1", "--for", "1s"]).await.code, Some(0));
    second.wait_for_line("ojs.federation.switch_ended").await;
    crate::support::eventually("jobs go there again", async || goes_to().await == "us-east-1").await;
}

#[tokio::test]
async fn an_order_that_cannot_be_carried_out_says_what_is_wrong() {
    let federation = Setup::default().steered().start().await;
    let call = |method: Method, query: &str| {
        let path = format!("/switches?{query}");
        async move { federation.admin.call(method, &path, "").await }
    };
    let why = "reason=x&ticket=t&author=a";
    for (method, query, status, words) in [
        (Method::PUT, "switch=drain&region=us-east-1&for=1h&ticket=t&author=a".to_owned(), 400, "`reason`"),
        (Method::PUT, "switch=drain&region=us-east-1&for=1h&reason=r&author=a".to_owned(), 400, "`ticket`"),
        (Method::PUT, format!("switch=drain&region=us-east-1&{why}"), 400, "`for`"),
        (Method::PUT, format!("switch=drain&region=mars&for=1h&{why}"), 404, "`region`: mars"),
        (Method::DELETE, format!("switch=maintenance&{why}"), 404, "no such switch"),
    ] {
        let answer = call(method, &query).await;
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(answer.status == status && message.contains(words), "{query}: {answer:?}");
    }
    assert!(listed(&federation.admin).await.is_empty());
    assert_eq!(call(Method::PATCH, "").await.status, 405);
    for wrong in [&["drain", "us-east-1"][..], &["maintenance", "on"], &["maintenance", "perhaps"], &["undrain"]] {
        assert_eq!(order(&federation.admin, wrong).await.code, Some(2), "{wrong:?}");
    }
}

#[tokio::test]
async fn no_call_makes_jobs_in_an_evacuated_region_and_flexible_jobs_of_a_batch_leave_a_drained_one() {
    let federation = Setup::default().steered().start().await;
    let batch = |flexible: &str| {
        let pinned = |region: &str| json!({ "type": "a", "args": [], "meta": { "ojs.federation.region": region } });
        json!({ "jobs": [pinned("us-east-1"), pinned("eu-west-1"), { "type": flexible, "args": [] }] }).to_string()
    };
    assert_eq!(order(&federation.admin, &["drain", "us-east-1", "--for", "1h"]).await.code, Some(0));
    let split = federation.client.post("/ojs/v1/jobs/batch", batch("flexible.drained")).await;
    assert_eq!(split.status, 201, "{split:?}");
    assert_eq!(federation.seen("flexible.drained"), [1], "its only other company is there");
    assert_eq!(order(&federation.admin, &["drain", "us-east-1", "--evacuate", "--for", "1h"]).await.code, Some(0));
    assert_eq!(listed(&federation.admin).await.len(), 1, "the later order has taken the place of the earlier one");
    for (path, body) in [
        (
            "/ojs/v1/cron",
            json!({ "name": "n", "expression": "0 3 * * *", "job_template": { "type": "evac.cron", "args": [] } }),
        ),
        (
            "/ojs/v1/workflows",
            json!({ "name": "w", "type": "chain", "meta": { "ojs.federation.region": "us-east-1" },
            "steps": [{ "id": "s", "type": "evac.flow", "args": [] }] }),
        ),
    ] {
        let refused = federation.client.post(path, body.to_string()).await;
        refused.check_error(503, "backend_error", "region_unavailable");
    }
    federation.client.post("/ojs/v1/jobs/batch", batch("evac.batch")).await;
    for needle in ["evac.cron", "evac.flow"] {
        assert_eq!(federation.seen(needle), [] as [usize; 0], "{needle}");
    }
    assert!(!federation.seen("evac.batch").contains(&0));
}

#[tokio::test]
async fn a_pin_to_several_regions_leaves_the_drained_one_among_them() {
    let rule = "routing: { rules: [{ match: { job_type: t.* }, target: { regions: [us-east-1, eu-west-1], strategy: geo-pin } }] }";
    let federation = Setup::default().steered().yaml(rule).start().await;
    let send = async || federation.client.enqueue(r#"{"type":"t.a","args":[]}"#).await.region().to_owned();
    assert_eq!(send().await, "us-east-1");
    assert_eq!(order(&federation.admin, &["drain", "us-east-1", "--for", "1h"]).await.code, Some(0));
    assert_eq!(send().await, "eu-west-1");
}

#[tokio::test]
async fn an_order_that_leaves_no_region_needs_force_whatever_kinds_of_switches_add_up() {
    let federation = Setup::default().steered().start().await;
    let drain = async |arguments: &[&str]| {
        order(&federation.admin, &[&["drain"], arguments, &["--for", "1h"]].concat()).await.code
    };
    assert_eq!(drain(&["eu-west-1", "--forbid"]).await, Some(0));
    assert_eq!(drain(&["ap-south-1", "--forbid"]).await, Some(0));
    assert_eq!(drain(&["us-east-1"]).await, Some(1), "no job fails over into the others");
    assert_eq!(drain(&["us-east-1", "--force"]).await, Some(0));
    assert_eq!(drain(&["us-east-1", "--evacuate"]).await, Some(1), "each further step needs force, too");
    assert_eq!(listed(&federation.admin).await.iter().filter(|it| it["switch"] == "drain").count(), 1);
}
