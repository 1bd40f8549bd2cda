//! The breaker of the local region through all its states, by a clock that the test moves.

mod early;

use std::time::Duration;

use http::StatusCode;
use ojs_testbed::{Fault, FaultAnswer, Gate, Record, When};

use crate::support::{Answer, Federation, Setup, eventually, job, pinned};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than the interval of probes, jitter included, and than a quarter of the cooldown.
const PROBE_DUE: Duration = Duration::from_secs(12);
const COOLDOWN: Duration = Duration::from_secs(30);
/// How often a silent region is asked within a call what became of its job (`PATIENCE` of `outcome::call`); once more at once by whoever
/// asks later.
const ASKED_WITHIN_CALL: usize = 5;

/// Two regions that are not probed early. Deadlines are real time, so that a probe may be held for as long as a test takes.
fn quiet() -> Setup {
    Setup::default()
        .steered()
        .regions(2)
        .yaml("health_check: { timeout: 10min }")
        .yaml("circuit_breaker: { early_probe: 0s }")
}

fn bad_gateway() -> Fault {
    Fault::Answer { answer: FaultAnswer::balancer(StatusCode::BAD_GATEWAY), store: false }
}

/// Lets so many enqueues fail at the local region, without any doubt about its health.
async fn fail(federation: &Federation, times: u64) {
    let faults = federation.regions[0].faults();
    faults.add(When::enqueue().next(times), bad_gateway());
    // Nor can it be found out what became of the jobs.
    federation.mute(0);
    for _ in 0..times {
        let answer = federation.client.enqueue(pinned("us-east-1", "failing")).await;
        assert_eq!(answer.status, 500, "{answer:?}");
        if federation.breaker(0) == "closed" {
            // What is asked of the region now would else arrive when it must hear nothing any more.
            let question = format!("/ojs/v1/jobs/{}", answer.json()["error"]["details"]["job_id"].as_str().unwrap());
            let is_asked = |record: &Record| record.requests_to(&question).len() > ASKED_WITHIN_CALL;
            federation.regions[0].record().wait_for(is_asked).await;
        }
    }
}

/// Opens the breaker by failed requests.
async fn opened(setup: Setup) -> Federation {
    let federation = setup.start().await;
    fail(&federation, 5).await;
    assert_eq!(federation.breaker(0), "open");
    federation
}

/// Waits for the state, and compares what the API and the metrics say of it.
async fn check_state(federation: &Federation, state: &str) {
    eventually(state, async || federation.breaker(0) == state).await;
    let regions = federation.client.get("/v1/federation/regions").await.json();
    assert_eq!(regions["regions"][0]["circuit_breaker"], state);
    assert_eq!(regions["regions"][0]["status"], if state == "closed" { "healthy" } else { "unhealthy" });
    let gauge = format!(r#"breaker_state{{region="us-east-1",state="{state}"}}"#);
    assert_eq!(federation.metric(&gauge).await, 1.0);
}

/// A pinned job is refused and told when to come back.
fn check_unavailable(answer: &Answer, retry_after: u64) {
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "region_unavailable"), "{answer:?}");
    answer.check_retry_after(retry_after);
}

/// Moves time by the interval of probes, and waits until a region was probed: whatever was due elsewhere has begun.
async fn probed(federation: &Federation, region: &str, result: &str) {
    let series = format!(r#"probes_total{{region="{region}",result="{result}"}}"#);
    let before = federation.metric(&series).await;
    federation.advance(PROBE_DUE);
    eventually("a probe", async || federation.metric(&series).await > before).await;
    federation.settle().await;
}

#[tokio::test]
async fn five_consecutive_failures_open_it_and_a_success_between_them_does_not() {
    let federation = quiet().start().await;
    fail(&federation, 4).await;
    assert_eq!(federation.client.enqueue(job("well")).await.status, 201);
    fail(&federation, 4).await;
    check_state(&federation, "closed").await;
    fail(&federation, 1).await;
    check_state(&federation, "open").await;
}

/// Why the region is in trouble, as the API and the admin listener say it, which must agree.
async fn last_error(federation: &Federation) -> serde_json::Value {
    let [regions, state] =
        [federation.client.get("/v1/federation/regions").await.json(), federation.admin.get("/state").await.json()];
    let [shown, known] = [regions, state].map(|mut it| it["regions"][0]["last_error"].take());
    assert_eq!(shown, known);
    shown
}

#[tokio::test]
async fn a_breaker_that_requests_alone_have_opened_says_what_failed_until_a_probe_is_answered() {
    let federation = quiet().start().await;
    fail(&federation, 4).await;
    assert!(last_error(&federation).await.is_null(), "not before it opens");
    fail(&federation, 1).await;
    check_state(&federation, "open").await;
    let error = last_error(&federation).await;
    assert_eq!((&error["reason"], &error["status"]), (&"http_status".into(), &502.into()), "{error}");
    assert!(error["message"].as_str().unwrap().contains("requests failed one after the other"), "{error}");
    let address = federation.regions[0].address().port().to_string();
    assert!(error["address"].as_str().unwrap().contains(&address) && error["at"].is_string(), "{error}");
    let ready = federation.admin.get("/readyz").await.json();
    assert_eq!(ready["regions"][0]["last_error"]["reason"], "http_status", "{ready}");
    federation.advance(COOLDOWN);
    eventually("the probe of half-open", async || federation.breaker(0) == "closed").await;
    assert!(last_error(&federation).await.is_null());
}

#[tokio::test]
async fn a_breaker_that_lost_requests_have_opened_says_how_they_were_lost() {
    for (fault, reason) in
        [(Fault::CutBeforeBody, "connection_broken"), (Fault::HangBeforeBody, "timeout"), (Fault::Refuse, "connect")]
    {
        // Kept connections would be used before new ones are refused.
        let limits = "limits: { call_timeout: 200ms, connect_timeout: 200ms, pool_idle_per_region: 0 }";
        let federation = quiet().yaml(limits).start().await;
        let when = if matches!(fault, Fault::Refuse) { When::always() } else { When::enqueue() };
        federation.regions[0].faults().add(when, fault);
        for round in 0..5 {
            federation.client.enqueue(pinned("us-east-1", &format!("a{round}"))).await;
        }
        check_state(&federation, "open").await;
        let error = last_error(&federation).await;
        assert_eq!((&error["reason"], &error["status"]), (&reason.into(), &serde_json::Value::Null), "{error}");
    }
}

#[tokio::test]
async fn failed_connections_open_it_too() {
    let federation = quiet().start().await;
    federation.regions[0].stop().await;
    for round in 0..5 {
        let answer = federation.client.enqueue(job(&format!("a{round}"))).await;
        assert_eq!(answer.header("ojs-federation-attempts"), Some("2"));
    }
    check_state(&federation, "open").await;
    let answer = federation.client.enqueue(job("b")).await;
    assert_eq!(answer.header("ojs-federation-attempts"), Some("1"), "nobody knocks at the door of an open breaker");
}

#[tokio::test]
async fn while_open_the_region_gets_no_request_and_no_probe_until_the_cooldown_is_over() {
    let federation = opened(quiet()).await;
    check_state(&federation, "open").await;
    let region = &federation.regions[0];
    region.record().clear();
    check_unavailable(&federation.client.enqueue(pinned("us-east-1", "waiting")).await, 30);
    let answer = federation.client.enqueue(job("flexible")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    for _ in 0..2 {
        probed(&federation, "eu-west-1", "healthy").await;
    }
    check_unavailable(&federation.client.enqueue(pinned("us-east-1", "waiting")).await, 6);
    federation.advance(SECOND * 5);
    federation.settle().await;
    check_state(&federation, "open").await;
    assert_eq!(region.record().requests().len(), 0);
    federation.advance(SECOND);
    check_state(&federation, "closed").await;
    assert_eq!(federation.probes(0), 1, "the one probe that closed it is the first thing that the region hears");
    assert_eq!(region.record().requests().len(), 1);
}

#[tokio::test]
async fn who_is_refused_at_once_is_told_to_come_back_at_different_times() {
    let federation = opened(quiet()).await;
    let mut waits = std::collections::BTreeSet::new();
    for round in 0..40 {
        let answer = federation.client.enqueue(pinned("us-east-1", &format!("a{round}"))).await;
        check_unavailable(&answer, 30);
        waits.insert(answer.retry_after());
    }
    // Of sixteen that there are; all forty meet in fewer than five less often than once in a million million runs.
    assert!(waits.len() >= 5, "{waits:?}");
}

#[tokio::test]
async fn half_open_sends_exactly_one_probe_however_long_it_takes() {
    let federation = opened(quiet()).await;
    let region = &federation.regions[0];
    let gate = Gate::new();
    region.faults().add(When::health(), Fault::Hold { gate: gate.clone() });
    region.record().clear();
    federation.advance(COOLDOWN);
    region.record().wait_for(|record| !record.requests_to("/ojs/v1/health").is_empty()).await;
    check_state(&federation, "half-open").await;
    for _ in 0..3 {
        probed(&federation, "eu-west-1", "healthy").await;
        check_unavailable(&federation.client.enqueue(pinned("us-east-1", "waiting")).await, 1);
        let answer = federation.client.enqueue(job("flexible")).await;
        assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    }
    check_state(&federation, "half-open").await;
    assert_eq!(region.record().requests().len(), 1, "one probe, and nobody's job");
    gate.open();
    check_state(&federation, "closed").await;
    let answer = federation.client.enqueue(pinned("us-east-1", "back")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
}

#[tokio::test]
async fn a_failed_probe_reopens_it_for_another_cooldown() {
    let federation = opened(quiet()).await;
    let region = &federation.regions[0];
    region.record().clear();
    for round in 1..=3 {
        region.faults().add(When::health().next(1), bad_gateway());
        federation.advance(COOLDOWN - SECOND);
        federation.settle().await;
        assert_eq!((federation.breaker(0), federation.probes(0)), ("open", round - 1));
        federation.advance(SECOND);
        region.record().wait_for(|record| record.requests_to("/ojs/v1/health").len() == round).await;
        let opened = round as f64 + 1.0;
        let transitions = r#"breaker_transitions_total{region="us-east-1",to="open"}"#;
        eventually("open again", async || federation.metric(transitions).await == opened).await;
        check_state(&federation, "open").await;
        check_unavailable(&federation.client.enqueue(pinned("us-east-1", "waiting")).await, 30);
    }
    federation.advance(COOLDOWN);
    check_state(&federation, "closed").await;
}

#[tokio::test]
async fn after_a_recovery_flexible_jobs_ramp_up_and_pinned_ones_return_at_once() {
    let federation = opened(quiet()).await;
    federation.advance(COOLDOWN);
    check_state(&federation, "closed").await;
    for round in 0..10 {
        let answer = federation.client.enqueue(job(&format!("early{round}"))).await;
        assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
        let answer = federation.client.enqueue(pinned("us-east-1", &format!("own{round}"))).await;
        assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    }
    federation.advance(SECOND * 10);
    for round in 0..10 {
        let answer = federation.client.enqueue(job(&format!("late{round}"))).await;
        assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    }
}

#[tokio::test]
async fn failures_of_probes_and_of_requests_are_counted_apart() {
    let setup = Setup::default().steered().regions(2).yaml("circuit_breaker: { failure_threshold: 2 }");
    let federation = setup.yaml("health_check: { unhealthy_threshold: 10 }").start().await;
    fail(&federation, 1).await;
    federation.regions[0].faults().add(When::health().next(1), bad_gateway());
    probed(&federation, "us-east-1", "unhealthy").await;
    check_state(&federation, "closed").await;
    // The good probe ends the run of probes and not the one of requests.
    probed(&federation, "us-east-1", "healthy").await;
    fail(&federation, 1).await;
    check_state(&federation, "open").await;
}

#[tokio::test]
async fn a_share_of_500s_of_several_job_types_opens_it_and_any_number_of_client_errors_does_not() {
    for (status, state) in [(500, "open"), (422, "closed"), (429, "closed"), (404, "closed")] {
        let federation = quiet().start().await;
        federation.advance(SECOND);
        federation.settle().await;
        let answer = FaultAnswer::error_document(StatusCode::from_u16(status).unwrap(), "scripted");
        federation.regions[0].faults().add(When::enqueue(), Fault::Answer { answer, store: false });
        for round in 0..20 {
            // Those of one type might be one caller's poison.
            let job_type = ["email.send", "invoice.print", "image.scale"][round % 3];
            // A flexible job would look elsewhere after a 429.
            let job = pinned("us-east-1", "a").replace("email.send", job_type);
            assert_eq!(federation.client.enqueue(job).await.status, status);
        }
        federation.settle().await;
        assert_eq!(federation.breaker(0), "closed", "a 500 is in no run");
        federation.advance(SECOND);
        federation.settle().await;
        check_state(&federation, state).await;
    }
}

#[tokio::test]
async fn words_about_leased_jobs_pass_an_open_breaker_and_nothing_else_does() {
    let federation = quiet().start().await;
    for args in ["a", "b"] {
        federation.client.enqueue(pinned("us-east-1", args)).await;
    }
    let leased =
        federation.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"count":2,"worker_id":"w"}"#).await;
    let leased = leased.json();
    let id = |place: usize| leased["jobs"][place]["id"].as_str().unwrap().to_owned();
    fail(&federation, 5).await;
    check_state(&federation, "open").await;
    federation.regions[0].record().clear();
    federation.speak_of_leased(&id(0), &id(1)).await;
    let passed = federation.regions[0].record().requests().len();
    assert_eq!(passed, 3);
    let fetch = r#"{"queues":["default"],"count":1,"worker_id":"w"}"#;
    for (method, path, body) in [
        (http::Method::POST, "/ojs/v1/workers/fetch", fetch),
        (http::Method::POST, "/ojs/v1/cron", r#"{"name":"n","cron":"* * * * *","type":"a.b","args":[]}"#),
        (http::Method::GET, "/ojs/v1/webhooks/subscriptions", ""),
        (http::Method::GET, "/ojs/v1/jobs/some", ""),
    ] {
        let answer = federation.client.call(method, path, body).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "owner_unavailable"), "{path}");
        answer.check_retry_after(30);
    }
    assert_eq!(federation.regions[0].record().requests().len(), passed);
}
