//! The end of the sidecar: told to end, it serves on until its clients are done.

use std::time::Duration;

use ojs_sidecar::net::DrainEnd;
use ojs_testbed::{Fault, Gate, JobState, When};

use crate::support::{Answer, Federation, Setup, Wire, eventually};

const JOB: &str = r#"{"type":"t","args":["a"]}"#;

fn post(target: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Told to end, with time that stands still, so that nothing but the test lets it.
async fn draining(setup: Setup) -> Federation {
    let mut federation = setup.steered().start().await;
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    federation
}

/// Lets drain_idle pass several times, in less than drain_timeout; a sidecar that ended would not answer for long.
async fn outlast_silences(federation: &Federation) {
    for _ in 0..5 {
        federation.advance(Duration::from_secs(6));
        assert_eq!(federation.client.get("/ojs/v1/health").await.status, 200, "it has ended");
    }
}

async fn call(federation: &Federation, request: &str) -> (Answer, Wire) {
    let mut wire = federation.client.wire().await;
    wire.send(request).await;
    (wire.answer().await, wire)
}

#[tokio::test]
async fn new_connections_are_served_while_it_drains_and_closed_after_one_answer() {
    let mut federation = draining(Setup::default()).await;
    assert!(String::from_utf8_lossy(&federation.admin.get("/readyz").await.body).contains("drain"));
    assert_eq!(federation.admin.get("/livez").await.status, 200);
    let get = "GET /ojs/v1/queues HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
    let ours = "GET /v1/federation/health HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned();
    for request in [post("/ojs/v1/jobs", JOB), get, ours] {
        let (answer, mut wire) = call(&federation, &request).await;
        assert!(answer.status.is_success(), "{request:?}: {answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{request:?}");
        assert!(wire.is_closed().await, "{request:?}");
    }
    federation.advance(Duration::from_secs(5));
    assert_eq!(federation.ended().await, DrainEnd::Idle);
    assert_eq!(federation.regions[0].jobs().len(), 1);
}

#[tokio::test]
async fn a_connection_from_before_the_signal_gets_its_answers_and_is_closed_with_the_first() {
    let mut federation = Setup::default().steered().start().await;
    let (answer, mut wire) = call(&federation, &post("/ojs/v1/jobs", JOB)).await;
    assert_eq!(answer.header("connection"), None);
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    wire.send(post("/ojs/v1/jobs", JOB)).await;
    let answer = wire.answer().await;
    assert_eq!((answer.status.as_u16(), answer.header("connection")), (201, Some("close")));
    assert!(wire.is_closed().await);
    federation.advance(Duration::from_secs(5));
    assert_eq!(federation.ended().await, DrainEnd::Idle);
}

#[tokio::test]
async fn a_worker_acknowledges_its_job_after_the_signal_and_nothing_is_lost() {
    let mut federation = Setup::default().steered().start().await;
    let id = federation.client.enqueue(JOB).await.job_id();
    let fetched = federation.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#).await;
    assert_eq!(fetched.json()["jobs"][0]["id"], *id, "{fetched:?}");
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    // The work takes a while; each call puts the end off by drain_idle.
    for _ in 0..3 {
        federation.advance(Duration::from_secs(4));
        let body = r#"{"worker_id":"w","active_jobs":[]}"#;
        assert_eq!(federation.client.post("/ojs/v1/workers/heartbeat", body).await.status, 200);
    }
    federation.advance(Duration::from_secs(4));
    let answer = federation.client.post("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{id}"}}"#)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(federation.regions[0].jobs().job(&id).unwrap().state, JobState::Completed);
    federation.advance(Duration::from_secs(5));
    assert_eq!(federation.ended().await, DrainEnd::Idle);
}

#[tokio::test]
async fn calls_that_are_open_at_the_signal_finish_and_hold_the_end_off() {
    let mut federation = Setup::default().steered().start().await;
    let gate = Gate::new();
    for place in [0, 1] {
        federation.regions[place].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    }
    let pinned = r#"{"type":"t","args":["b"],"meta":{"ojs.federation.region":"eu-west-1"}}"#;
    let mut held: Vec<Wire> = Vec::new();
    for body in [JOB, pinned, JOB, pinned] {
        let mut wire = federation.client.wire().await;
        wire.send(post("/ojs/v1/jobs", body)).await;
        held.push(wire);
    }
    for region in &federation.regions[..2] {
        let complete = |it: &ojs_testbed::Record| {
            it.requests_to("/ojs/v1/jobs").iter().filter(|request| request.complete).count() == 2
        };
        region.record().wait_for(complete).await;
    }
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    outlast_silences(&federation).await;
    gate.open();
    for wire in &mut held {
        let answer = wire.answer().await;
        assert_eq!((answer.status.as_u16(), answer.header("connection")), (201, Some("close")));
        assert!(wire.is_closed().await);
    }
    assert_eq!(federation.regions[0].jobs().len() + federation.regions[1].jobs().len(), 4);
    federation.advance(Duration::from_secs(5));
    assert_eq!(federation.ended().await, DrainEnd::Idle);
}

#[tokio::test]
async fn an_enqueue_whose_client_has_gone_is_finished_before_the_end() {
    let mut federation = Setup::default().steered().start().await;
    let region = federation.regions.remove(0);
    let gate = Gate::new();
    region.faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let mut wire = federation.client.wire().await;
    wire.send(post("/ojs/v1/jobs", JOB)).await;
    region.record().wait_for(|it| it.requests_to("/ojs/v1/jobs").iter().any(|request| request.complete)).await;
    drop(wire);
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    outlast_silences(&federation).await;
    gate.open();
    region.wait_for_jobs(|jobs| jobs.len() == 1).await;
    eventually("it ends", async || {
        federation.advance(Duration::from_secs(1));
        federation.has_ended()
    })
    .await;
    assert_eq!(federation.ended().await, DrainEnd::Idle);
}

#[tokio::test]
async fn a_stream_without_end_holds_the_end_off_until_the_longest_wait_is_over() {
    let mut federation = Setup::default().steered().start().await;
    let id = federation.client.enqueue(JOB).await.job_id();
    let mut wire = federation.client.wire().await;
    wire.send(format!("GET /ojs/v1/jobs/{id}/events HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
    wire.until(b"event: job.available\n").await;
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    outlast_silences(&federation).await;
    federation.advance(Duration::from_secs(30));
    assert_eq!(federation.ended().await, DrainEnd::TimedOut);
    let rest = wire.rest().await;
    assert!(rest.as_ref().map_or(true, |rest| !rest.ends_with(b"0\r\n\r\n")), "{rest:?}");
}

#[tokio::test]
async fn without_a_client_it_ends_after_the_configured_silence() {
    let yaml = "shutdown: { drain_idle: 2s, drain_timeout: 3s }";
    let mut federation = draining(Setup::default().yaml(yaml)).await;
    assert!(!federation.has_ended());
    federation.advance(Duration::from_secs(2));
    assert_eq!(federation.ended().await, DrainEnd::Idle);
    assert!(federation.client.try_send(http::Request::get("/ojs/v1/health"), "").await.is_err(), "nobody listens");
}

#[tokio::test]
async fn calls_under_way_end_while_no_new_ones_are_taken() {
    let mut federation = Setup::default().steered().start().await;
    let gate = Gate::new();
    let mut idle = federation.client.wire().await;
    idle.send(post("/ojs/v1/jobs", JOB)).await;
    assert_eq!(idle.answer().await.status, 201);
    federation.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let mut under_way = federation.client.wire().await;
    under_way.send(post("/ojs/v1/jobs", &JOB.replace("\"a\"", "\"under-way\""))).await;
    federation.regions[0].record().wait_for(|record| record.contains(b"under-way")).await;
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    // The time of a call before drain_timeout is over, and more.
    federation.advance(Duration::from_secs(45));
    eventually("nobody is let in", async || {
        federation.client.try_send(http::Request::get("/ojs/v1/health"), "").await.is_err()
    })
    .await;
    idle.send(post("/ojs/v1/jobs", &JOB.replace("\"a\"", "\"too-late\""))).await;
    let answer = idle.answer().await;
    answer.check_error(503, "backend_error", "draining");
    assert_eq!(answer.header("connection"), Some("close"));
    gate.open();
    assert_eq!(under_way.answer().await.status, 201);
    assert_eq!(federation.ended().await, DrainEnd::Idle);
    assert_eq!(federation.seen("too-late"), [0; 0]);
}

#[tokio::test]
async fn a_websocket_is_an_open_call_until_no_new_ones_are_taken() {
    let mut federation = Setup::default().steered().start().await;
    let mut wire = federation.client.wire().await;
    wire.send(
        "GET /ojs/v1/debug/tunnel HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )
    .await;
    assert_eq!(wire.head().await.0, 101);
    federation.begin_drain();
    eventually("readiness is off", async || federation.admin.get("/readyz").await.status == 503).await;
    outlast_silences(&federation).await;
    wire.send("still here").await;
    assert_eq!(wire.take(10).await, b"still here");
    federation.advance(Duration::from_secs(6));
    assert!(wire.is_closed().await, "in an orderly way");
    assert_eq!(federation.ended().await, DrainEnd::Idle);
}
