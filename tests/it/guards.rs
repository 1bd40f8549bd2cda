//! Regions that are neither up nor down: some calls fail there while others work, or they ask for less, or come and go.

use std::time::Duration;

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};

use crate::support::{Answer, Federation, Setup, eventually, job, pinned};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than the interval of probes, jitter included.
const PROBE_DUE: Duration = Duration::from_secs(12);
const TYPES: [&str; 3] = ["email.send", "invoice.print", "image.scale"];

/// Two regions; time moves only when the test says so.
fn quiet() -> Setup {
    Setup::default().steered().regions(2).yaml("health_check: { timeout: 10min }")
}

/// The counters are first read a second after the start.
async fn started(setup: Setup) -> Federation {
    let federation = setup.start().await;
    federation.advance(SECOND);
    federation.settle().await;
    federation
}

fn job_of(job_type: &str, pin: &str) -> String {
    format!(r#"{{"type":"{job_type}","args":[],"meta":{{"ojs.federation.region":"{pin}"}}}}"#)
}

fn refusal(status: StatusCode) -> FaultAnswer {
    FaultAnswer::error_document(status, "scripted")
}

/// The region answers every enqueue so, from now on.
fn answers(federation: &Federation, place: usize, answer: FaultAnswer) {
    federation.regions[place].faults().add(When::enqueue(), Fault::Answer { answer, store: false });
}

/// So many jobs that are pinned to the local region, their types in turn; each meets this status.
async fn send(federation: &Federation, types: &[&str], times: usize, status: u16) {
    for job_type in types.iter().cycle().take(times) {
        let answer = federation.client.enqueue(job_of(job_type, "us-east-1")).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
}

async fn fetch(federation: &Federation) -> Answer {
    let body = r#"{"queues":["default"],"count":1,"worker_id":"w"}"#;
    federation.client.post("/ojs/v1/workers/fetch", body).await
}

async fn guard_open(federation: &Federation, class: &str) -> f64 {
    federation.metric(&format!(r#"guard_open{{class="{class}",region="us-east-1"}}"#)).await
}

/// A region that works for its workers and for reads, and breaks over every job that it is to store.
async fn grey(setup: Setup) -> Federation {
    let federation = started(setup).await;
    assert_eq!(federation.client.enqueue(job("before")).await.status, 201);
    answers(&federation, 0, refusal(StatusCode::INTERNAL_SERVER_ERROR));
    assert_eq!(fetch(&federation).await.status, 200);
    send(&federation, &TYPES, 19, 500).await;
    federation
}

#[tokio::test]
async fn a_region_whose_enqueues_fail_and_whose_workers_are_served_loses_only_its_enqueues() {
    let federation = grey(quiet()).await;
    assert_eq!((guard_open(&federation, "enqueue").await, federation.breaker(0)), (1.0, "closed"));
    let sent = federation.enqueues(0);
    let answer = federation.client.enqueue(job("flexible")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    assert_eq!(answer.header("ojs-federation-attempts"), Some("1"));
    let failovers = r#"failovers_total{from_region="us-east-1",reason="guard_open"}"#;
    assert_eq!(federation.metric(failovers).await, 1.0);
    // A guard never sends a pinned job elsewhere.
    let answer = federation.client.enqueue(pinned("us-east-1", "pinned")).await;
    answer.check_error(503, "backend_error", "region_unavailable");
    assert_eq!(federation.enqueues(1), 1, "the flexible one");
    let cron = r#"{"name":"n","cron":"* * * * *","type":"a.b","args":[]}"#;
    assert_eq!(federation.client.post("/ojs/v1/cron", cron).await.status, 503, "a definition creates jobs, too");
    assert_eq!(federation.enqueues(0), sent, "and none of it was sent there");
    for class in ["fetch", "read", "admin"] {
        assert_eq!(guard_open(&federation, class).await, 0.0, "{class}");
    }
    assert_eq!(fetch(&federation).await.status, 200);
    assert_eq!(federation.client.get("/ojs/v1/queues/default/stats").await.status, 200);
    let regions = federation.client.get("/v1/federation/regions").await.json();
    assert_eq!(regions["regions"][0]["status"], "healthy", "the API shows the breaker: {regions}");
}

#[tokio::test]
async fn its_enqueues_come_back_by_trials() {
    let federation = grey(quiet()).await;
    federation.regions[0].faults().clear();
    federation.advance(SECOND * 30);
    eventually("trials", async || {
        // Most of these are not drawn for a trial, and refused.
        federation.client.enqueue(pinned("us-east-1", "trial")).await;
        federation.advance(SECOND);
        guard_open(&federation, "enqueue").await == 0.0
    })
    .await;
    // After the ramp nothing is left of it.
    federation.advance(SECOND * 10);
    let answer = federation.client.enqueue(job("flexible")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
}

#[tokio::test]
async fn poison_of_one_job_type_opens_nothing_however_often_it_comes() {
    let federation = started(quiet()).await;
    answers(&federation, 0, refusal(StatusCode::INTERNAL_SERVER_ERROR));
    for _ in 0..3 {
        send(&federation, &TYPES[..1], 20, 500).await;
        federation.advance(SECOND);
        federation.settle().await;
    }
    assert_eq!((guard_open(&federation, "enqueue").await, federation.breaker(0)), (0.0, "closed"));
    // As it comes from many, it is the region's own.
    send(&federation, &TYPES, 3, 500).await;
    federation.advance(SECOND);
    federation.settle().await;
    let answer = federation.client.enqueue(job("flexible")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
}

#[tokio::test]
async fn good_probes_forgive_no_failed_enqueues() {
    let federation = started(quiet().yaml("circuit_breaker: { ratio_window: 60s }")).await;
    answers(&federation, 0, refusal(StatusCode::INTERNAL_SERVER_ERROR));
    assert_eq!(fetch(&federation).await.status, 200);
    for half in [10, 9] {
        send(&federation, &TYPES, half, 500).await;
        let probed = federation.probes(0);
        federation.advance(PROBE_DUE);
        eventually("a probe", async || federation.probes(0) > probed).await;
        federation.settle().await;
    }
    assert_eq!(guard_open(&federation, "enqueue").await, 0.0, "one is missing");
    assert_eq!(fetch(&federation).await.status, 200);
    send(&federation, &TYPES, 1, 500).await;
    assert_eq!((guard_open(&federation, "enqueue").await, federation.breaker(0)), (1.0, "closed"));
}

#[tokio::test]
async fn failed_reads_leave_enqueues_and_words_about_leased_jobs_alone() {
    let federation = started(quiet()).await;
    assert_eq!(federation.client.enqueue(job("a")).await.status, 201);
    let answer = refusal(StatusCode::BAD_GATEWAY);
    let reads = When::path("/ojs/v1/queues").method(Method::GET);
    federation.regions[0].faults().add(reads, Fault::Answer { answer, store: false });
    for _ in 0..5 {
        let said = federation.client.get("/ojs/v1/queues/default/jobs?region=us-east-1").await;
        assert_eq!(said.status, 502, "{said:?}");
    }
    assert_eq!((guard_open(&federation, "read").await, federation.breaker(0)), (1.0, "closed"));
    let read = federation.client.get("/ojs/v1/queues/default/jobs?region=us-east-1").await;
    read.check_error(503, "backend_error", "owner_unavailable");
    assert_eq!(federation.stored(&federation.client.enqueue(job("b")).await.job_id()), [(0, 1)]);
    let leased = fetch(&federation).await.json();
    let id = leased["jobs"][0]["id"].as_str().unwrap();
    let ack = federation.client.post("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{id}","result":{{}}}}"#)).await;
    assert_eq!(ack.status, 200, "{ack:?}");
}

#[tokio::test]
async fn a_region_that_asks_for_less_gets_less_of_what_may_go_elsewhere_and_opens_nothing() {
    let overflow = r#"{"type":"a","args":[],"meta":{"ojs.federation.region_affinity":"overflow"}}"#;
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let federation = started(quiet()).await;
        let queue_full = refusal(status).header("retry-after", "30").header("x-ojs-queue-status", "backpressure");
        answers(&federation, 0, queue_full);
        for _ in 0..8 {
            federation.advance(SECOND);
            let answer = federation.client.enqueue(pinned("us-east-1", "pressed")).await;
            assert_eq!(answer.status, status, "a pinned job is not led elsewhere");
        }
        let mut spilled = 0;
        for _ in 0..60 {
            spilled += u32::from(federation.client.enqueue(overflow).await.status == 201);
        }
        // Nine of ten look elsewhere first.
        assert!(spilled > 40, "{spilled} of 60 went elsewhere");
        federation.settle().await;
        assert_eq!((guard_open(&federation, "enqueue").await, federation.breaker(0)), (0.0, "closed"));
        federation.regions[0].faults().clear();
        // Its word is kept for the time that it asked for, and then forgotten by halves.
        federation.advance(SECOND * 160);
        let answer = federation.client.enqueue(job("home")).await;
        assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    }
}

#[tokio::test]
async fn a_region_that_comes_and_goes_is_left_alone_until_it_was_quiet() {
    let setup = quiet().yaml("circuit_breaker: { hold_down_changes: 2, slow_start: 0s }");
    let federation = started(setup).await;
    federation.mute(0);
    federation.regions[0].faults().add(
        When::enqueue().next(5),
        Fault::Answer { answer: FaultAnswer::balancer(StatusCode::BAD_GATEWAY), store: false },
    );
    send(&federation, &TYPES, 5, 500).await;
    assert_eq!(federation.breaker(0), "open");
    federation.advance(SECOND * 30);
    eventually("closed again", async || federation.breaker(0) == "closed").await;
    federation.settle().await;
    let held = r#"held_down{region="us-east-1"}"#;
    assert_eq!(federation.metric(held).await, 1.0);
    let answer = federation.client.enqueue(job("flexible")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    let answer = federation.client.enqueue(pinned("us-east-1", "pinned")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)], "it is no reason to refuse what has no other region");
    federation.advance(SECOND * 59);
    federation.settle().await;
    assert_eq!(federation.metric(held).await, 1.0);
    federation.advance(SECOND * 2);
    eventually("let go", async || federation.metric(held).await == 0.0).await;
    let answer = federation.client.enqueue(job("home")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
}

#[tokio::test]
async fn a_429_with_a_time_keeps_flexible_jobs_away_and_no_pinned_one() {
    let federation = started(quiet()).await;
    let refusal =
        Fault::Answer { answer: refusal(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "20"), store: false };
    federation.regions[0].faults().add(When::enqueue().next(1), refusal);
    assert_eq!(federation.client.enqueue(job("refused")).await.status, 429, "the region's word");
    for round in 0..20 {
        let answer = federation.client.enqueue(job(&format!("a{round}"))).await;
        assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
        federation.advance(SECOND);
    }
    assert_eq!(federation.enqueues(0), 1);
    assert_eq!(federation.breaker(0), "closed");
    let answer = federation.client.enqueue(pinned("us-east-1", "own")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    // The time is over: seven of ten come back at once, and the others by and by.
    federation.advance(SECOND);
    for round in 0..40 {
        assert_eq!(federation.client.enqueue(job(&format!("b{round}"))).await.status, 201);
    }
    assert!(federation.enqueues(0) > 2, "none came back");
}

#[tokio::test]
async fn a_region_that_asked_to_be_left_alone_still_takes_what_no_other_can() {
    let federation = started(quiet()).await;
    let refusal =
        Fault::Answer { answer: refusal(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "20"), store: false };
    federation.regions[0].faults().add(When::enqueue().next(1), refusal);
    assert_eq!(federation.client.enqueue(job("refused")).await.status, 429);
    federation.regions[1].stop().await;
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)], "{answer:?}");
}
