//! What an operator decides where no region tells: `ojs-sidecar outcomes settle`.

use http::{Method, Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::{Value, json};

use super::{OWN, is_replay, jobs, keyed, newest_in, outcomes, quiet};
use crate::support::{Client, Ended, Federation, Process, Setup, command, job};

/// The command, at this admin listener.
async fn settle(admin: &Client, arguments: &[&str]) -> Ended {
    let address = admin.address().to_string();
    run(&[&["outcomes", "settle", "--address", &address], arguments].concat()).await
}

async fn run(arguments: &[&str]) -> Ended {
    let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
    let run = move || command(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[], "");
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// The region is silent about jobs, and a balancer before it answers the next enqueue in its place.
fn lose_next(federation: &Federation, place: usize) {
    federation.mute(place);
    let answer = FaultAnswer::balancer(StatusCode::BAD_GATEWAY);
    federation.regions[place].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
}

/// Leaves a job with a key unknown in the local region, where it stays so: its row.
async fn leave_unknown(federation: &Federation) -> Value {
    lose_next(federation, 0);
    for _ in 0..2 {
        let answer = keyed(federation.client, "k", job("a")).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    }
    assert_eq!(federation.enqueues(0), 1);
    newest_in(&federation.client, "unknown").await
}

fn text<'v>(row: &'v Value, key: &str) -> &'v str {
    row[key].as_str().unwrap_or_else(|| panic!("{key} in {row}"))
}

#[tokio::test]
async fn after_an_operator_says_that_a_job_is_absent_its_repetition_is_sent() {
    let federation = quiet().steered().yaml("limits: { call_timeout: 700ms }").start().await;
    let row = leave_unknown(&federation).await;
    let done = settle(&federation.admin, &[text(&row, "job_id"), "--absent", "--reason", "not in its database"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("the outcome is absent"), "{}", done.all());
    assert!(done.stdout.contains("in memory only"), "{}", done.all());
    let shown = outcomes(&federation.client).await;
    assert_eq!((&shown["unknown"], &shown["outcomes"][0]["state"]), (&0.into(), &"absent".into()), "{shown}");
    let decided = &shown["outcomes"][0]["copies"][0]["decided"];
    assert_eq!((text(decided, "as"), text(decided, "reason")), ("absent", "not in its database"));
    assert!(!text(decided, "at").is_empty() && !shown["outcomes"][0]["resolved_at"].is_null(), "{shown}");
    let table = run(&["outcomes", "--address", &federation.address().to_string()]).await;
    assert!(table.stdout.contains(": not in its database"), "{}", table.all());
    assert_eq!(federation.metric(r#"outcomes_resolved_total{result="decided"}"#).await, 1.0);
    // The region is as silent as before.
    let again = keyed(federation.client, "k", job("a")).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, false), "{again:?}");
    assert_eq!(federation.stored(&again.job_id()), [(0, 1)]);
    assert_eq!(jobs(&federation).len(), 1);
}

#[tokio::test]
async fn after_an_operator_says_that_a_job_is_stored_its_repetition_is_answered_with_it() {
    for name in ["id", "job_id", "federation_id"] {
        let federation = quiet().steered().yaml("limits: { call_timeout: 700ms }").start().await;
        let row = leave_unknown(&federation).await;
        let done = settle(&federation.admin, &["--stored", "--reason", "seen", text(&row, name)]).await;
        assert!(done.code == Some(0) && done.stdout.contains("the outcome is stored"), "{name}: {}", done.all());
        let again = keyed(federation.client, "k", job("a")).await;
        assert_eq!((again.status.as_u16(), is_replay(&again), again.region()), (201, true, "us-east-1"), "{again:?}");
        assert_eq!((again.job_id().as_str(), federation.enqueues(0)), (text(&row, "job_id"), 1));
        let twice = settle(&federation.admin, &["--absent", "--reason", "after all", text(&row, name)]).await;
        assert!(twice.code == Some(1) && twice.stderr.contains("409: `id`: nothing is left"), "{}", twice.all());
    }
}

#[tokio::test]
async fn of_two_copies_in_doubt_an_operator_must_say_which_one_is_meant() {
    let setup = Setup::default()
        .regions(2)
        .yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
        .yaml("failover: { on_unknown: redirect, late_write_grace: 50ms, retry_budget: { floor: 1000 } }")
        .yaml("limits: { call_timeout: 2s }");
    let federation = setup.steered().start().await;
    lose_next(&federation, 0);
    lose_next(&federation, 1);
    let body = || format!(r#"{{"id":"{OWN}","type":"a","args":[]}}"#);
    assert_eq!(federation.client.enqueue(body()).await.reason(), "outcome_unknown");
    let sent = [federation.enqueues(0), federation.enqueues(1)];
    assert_eq!(sent, [1, 1]);
    let absent = ["--absent", "--reason", "not there", OWN];
    let ambiguous = settle(&federation.admin, &absent).await;
    assert_eq!(ambiguous.code, Some(1), "{}", ambiguous.all());
    for words in ["409: `id`: ", "--region", "us-east-1", "eu-west-1", OWN] {
        assert!(ambiguous.stderr.contains(words), "{words}: {}", ambiguous.all());
    }
    let elsewhere = settle(&federation.admin, &[&absent[..], &["--region", "ap-south-1"]].concat()).await;
    assert!(elsewhere.code == Some(1) && elsewhere.stderr.contains("404: `region`: "), "{}", elsewhere.all());
    let first = settle(&federation.admin, &[&absent[..], &["--region", "us-east-1"]].concat()).await;
    assert!(first.code == Some(0) && first.stdout.contains("the outcome is unknown"), "{}", first.all());
    assert_eq!(federation.client.enqueue(body()).await.reason(), "outcome_unknown", "the other one may be there");
    assert_eq!([federation.enqueues(0), federation.enqueues(1)], sent);
    let second = settle(&federation.admin, &absent).await;
    assert!(second.code == Some(0) && second.stdout.contains("the outcome is absent"), "{}", second.all());
    let again = federation.client.enqueue(body()).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, false), "{again:?}");
    assert_eq!(federation.stored(OWN), [(0, 1)]);
}

#[tokio::test]
async fn a_late_copy_that_an_operator_rules_out_is_watched_for_no_longer() {
    let federation = quiet().steered().start().await;
    let mut cut = super::Cut::begin(&federation, job("a")).await;
    let answer = cut.answer().await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
    newest_in(&federation.client, "watched").await;
    let done = settle(&federation.admin, &[&answer.job_id(), "--absent", "--reason", "the region is gone"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("in us-east-1; the outcome is stored"), "{}", done.all());
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
}

#[tokio::test]
async fn a_region_that_contradicts_an_operator_is_believed() {
    let federation = quiet().steered().start().await;
    let mut cut = super::Cut::begin(&federation, job("a")).await;
    let answer = cut.answer().await;
    newest_in(&federation.client, "watched").await;
    // Of two copies one goes; not the one that is there while the other is not.
    let done = settle(&federation.admin, &[&answer.job_id(), "--stored", "--reason", "a mistake"]).await;
    assert!(done.code == Some(0) && done.stdout.contains("in us-east-1; the outcome is watched"), "{}", done.all());
    super::advance_until(&federation, "its region has said no", async || {
        outcomes(&federation.client).await["outcomes"][0]["copies"][0]["state"] != "stored"
    })
    .await;
    federation.advance(std::time::Duration::from_secs(16 * 60));
    super::advance_until(&federation, "all is known", async || super::open(&federation.client).await == 0).await;
    assert_eq!(newest_in(&federation.client, "stored").await["region"], "eu-west-1");
    let states: Vec<_> = jobs(&federation).into_iter().map(|(place, .., state)| (place, state)).collect();
    assert_eq!(states, [(1, "available".to_owned())]);
}

#[tokio::test]
async fn what_an_operator_decides_is_logged_and_outlives_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let journal = format!("journal: {{ path: {:?} }}", dir.path().join("journal"));
    let stage = quiet().yaml(&journal).yaml("limits: { call_timeout: 700ms }").stage().await;
    let asked = When::path("/ojs/v1/jobs/").method(Method::GET);
    let mute = FaultAnswer::error_document(StatusCode::INTERNAL_SERVER_ERROR, "internal_error");
    stage.regions[0].faults().add(asked, Fault::Answer { answer: mute, store: false });
    stage.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
    let first = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    let send = |client: Client| async move { keyed(client, "k", job("a")).await };
    assert_eq!(send(first.client).await.reason(), "outcome_unknown");
    let row = newest_in(&first.client, "unknown").await;
    let done = settle(&first.admin, &[text(&row, "id"), "--stored", "--reason", "seen by ana"]).await;
    assert!(done.code == Some(0) && !done.stdout.contains("in memory only"), "{}", done.all());
    first.wait_for_line("ojs.federation.outcome_decided").await;
    let line = first.log().into_iter().find(|line| line.contains("outcome_decided")).unwrap();
    assert!(line.contains("seen by ana") && line.contains(text(&row, "job_id")), "{line}");
    // What the last call has written is on disk, and so is what came before it.
    assert_eq!(keyed(first.client, "other", job("b")).await.status, 201);
    drop(first);
    let second = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    // The end of the other call may be on disk or not.
    let all = outcomes(&second.client).await;
    let shown = all["outcomes"].as_array().unwrap().iter().find(|it| it["id"] == row["id"]).unwrap();
    assert_eq!(shown["state"], "stored");
    assert_eq!(text(&shown["copies"][0]["decided"], "reason"), "seen by ana");
    let again = send(second.client).await;
    assert_eq!((again.job_id().as_str(), is_replay(&again)), (text(&row, "job_id"), true), "{again:?}");
}

#[tokio::test]
async fn nobody_but_this_machine_settles_an_outcome_and_what_is_wrong_is_named() {
    let federation = quiet().steered().yaml("limits: { call_timeout: 700ms }").start().await;
    let row = leave_unknown(&federation).await;
    let call = |query: &str| {
        let path = format!("/outcomes/settle?{query}");
        async move { federation.admin.call(Method::PUT, &path, "").await }
    };
    for (query, status, words) in [
        ("as=absent&reason=x", 400, "`id`"),
        ("id=1&reason=x", 400, "`as`"),
        ("id=1&as=absent&reason=%20", 400, "`reason`"),
        ("id=1&as=absent&reason=x&region=A", 400, "`region`"),
        ("id=1&as=absent&reason=x", 404, "`id`"),
    ] {
        let answer = call(query).await;
        let message = text(&answer.json()["error"], "message").to_owned();
        assert!(answer.status == status && message.contains(words), "{query}: {answer:?}");
    }
    let right = format!("/outcomes/settle?id={}&as=absent&reason=x", text(&row, "id"));
    let read = federation.admin.get(&right).await;
    assert_eq!((read.status.as_u16(), read.header("allow")), (405, Some("PUT, POST")));
    let page = Request::put(&right).header("origin", "https://evil.example");
    assert_eq!(federation.admin.send(page, "").await.status, 403, "no web page may do it");
    assert_eq!(newest_in(&federation.client, "unknown").await["id"], row["id"]);
    for wrong in [&["1"][..], &["1", "--absent"], &["1", "--absent", "--stored", "--reason", "x"], &["--absent"]] {
        assert_eq!(settle(&federation.admin, wrong).await.code, Some(2), "{wrong:?}");
    }
    let stage = Setup::default().regions(1).stage().await;
    let open = Process::run(&stage.config, &["--set", "log.level=info", "--set", "listen.admin=0.0.0.0:0"]).await;
    for method in [Method::PUT, Method::POST] {
        let refused = open.admin.call(method, &right, "").await;
        assert_eq!((refused.status.as_u16(), &refused.json()["error"]["code"]), (403, &json!("not_local")));
    }
}
