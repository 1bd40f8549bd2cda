//! Too much at once: what is let through, and what is refused at once instead of waiting.

use bytes::Bytes;
use http::{Method, Request};
use ojs_testbed::{Fault, Gate, When};
use tokio::task::JoinSet;

use crate::support::{Answer, Federation, Setup, eventually, job, pinned};

fn setup(limits: &str) -> Setup {
    Setup::default().steered().regions(2).yaml(&format!("limits: {{ {limits} }}"))
}

/// Enqueues that the local region holds back.
struct Held {
    gate: Gate,
    answers: JoinSet<Answer>,
}

impl Held {
    async fn begin(federation: &Federation, count: usize) -> Self {
        let mut held = Self { gate: Gate::new(), answers: JoinSet::new() };
        federation.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: held.gate.clone() });
        held.add(federation, count).await;
        held
    }

    /// Further ones; returns when the region has them.
    async fn add(&mut self, federation: &Federation, count: usize) {
        let all = federation.enqueues(0) + count;
        let client = federation.client;
        for number in 0..count {
            self.answers.spawn(async move { client.enqueue(pinned("us-east-1", &format!("held{number}"))).await });
        }
        eventually("the region has them", async || federation.enqueues(0) == all).await;
    }

    /// Lets them go: each is stored.
    async fn end(mut self, federation: &Federation) {
        federation.regions[0].faults().clear();
        self.gate.open();
        while let Some(answer) = self.answers.join_next().await {
            let answer = answer.unwrap();
            assert_eq!(answer.status, 201, "{answer:?}");
        }
    }
}

#[track_caller]
fn check_overloaded(answer: &Answer) {
    answer.check_error(503, "backend_error", "overloaded");
}

#[tokio::test]
async fn reads_are_refused_first_then_enqueues_and_words_about_leased_jobs_never() {
    // Of ten calls to a region, reads may be eight.
    for limits in ["calls_per_region: 10", "calls: 10"] {
        let federation = setup(limits).start().await;
        for args in ["a", "b"] {
            assert_eq!(federation.client.enqueue(pinned("us-east-1", args)).await.status, 201);
        }
        let body = r#"{"queues":["default"],"count":2,"worker_id":"w"}"#;
        let leased = federation.client.post("/ojs/v1/workers/fetch", body).await.json();
        let id = |place: usize| leased["jobs"][place]["id"].as_str().unwrap().to_owned();
        let mut held = Held::begin(&federation, 7).await;
        let read = format!("/ojs/v1/jobs/{}", id(0));
        assert_eq!(federation.client.get(&read).await.status, 200, "there is room for one");
        held.add(&federation, 1).await;
        for path in [&read, "/ojs/v1/queues/default/jobs?region=us-east-1", "/ojs/v1/queues/default/events"] {
            check_overloaded(&federation.client.get(path).await);
        }
        held.add(&federation, 2).await;
        let before = federation.regions[0].record().requests().len();
        check_overloaded(&federation.client.enqueue(pinned("us-east-1", "refused")).await);
        check_overloaded(&federation.client.post("/ojs/v1/workers/fetch", body).await);
        check_overloaded(&federation.client.call(Method::DELETE, &read, Bytes::new()).await);
        assert_eq!(federation.regions[0].record().requests().len(), before, "nothing was sent");
        federation.speak_of_leased(&id(0), &id(1)).await;
        assert!(federation.metric(r#"refusals_total{reason="overloaded",region="none"}"#).await >= 6.0);
        held.end(&federation).await;
        assert_eq!(federation.client.get(&read).await.status, 200, "and there is room again");
    }
}

#[tokio::test]
async fn a_word_about_a_leased_job_finds_its_owner_however_full_it_is() {
    let federation = setup("calls_per_region: 4").start().await;
    let answer = federation.client.enqueue(pinned("us-east-1", "a")).await;
    let body = r#"{"queues":["default"],"count":1,"worker_id":"w"}"#;
    assert_eq!(federation.client.post("/ojs/v1/workers/fetch", body).await.status, 200);
    // Another sidecar knows nothing of the job, and is as full.
    let other = federation.sidecar_in("us-east-1", &[]).await;
    let held = Held::begin(&federation, 4).await;
    let mut others = JoinSet::new();
    for _ in 0..4 {
        let client = other.client;
        others.spawn(async move { client.enqueue(pinned("us-east-1", "other")).await });
    }
    eventually("it is full", async || federation.enqueues(0) == 9).await;
    check_overloaded(&other.client.get(&format!("/ojs/v1/jobs/{}", answer.job_id())).await);
    let ack = format!(r#"{{"job_id":"{}","result":{{}}}}"#, answer.job_id());
    let answer = other.client.post("/ojs/v1/workers/ack", ack).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    held.end(&federation).await;
    while let Some(answer) = others.join_next().await {
        assert_eq!(answer.unwrap().status, 201);
    }
}

#[tokio::test]
async fn jobs_that_may_go_elsewhere_leave_a_region_that_is_full() {
    let federation = setup("calls_per_region: 3").start().await;
    let held = Held::begin(&federation, 3).await;
    let answer = federation.client.enqueue(job("flexible")).await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-attempts")), (201, Some("1")), "{answer:?}");
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    let failovers = r#"failovers_total{from_region="us-east-1",reason="overloaded"}"#;
    assert_eq!(federation.metric(failovers).await, 1.0);
    assert_eq!(federation.breaker(0), "closed", "a full region is no failed one");
    held.end(&federation).await;
}

#[tokio::test]
async fn every_way_that_a_call_ends_makes_room_for_the_next() {
    let federation = setup("calls: 2, calls_per_region: 2").start().await;
    let id = federation.client.enqueue(job("a")).await.job_id();
    let room = async |after: &str| {
        eventually(after, async || federation.shared.concurrency.total_in_flight() == 0).await;
    };
    room("an enqueue").await;
    federation.client.get("/ojs/v1/debug/stream?bytes=3000000&chunked=true").await;
    room("a streamed answer").await;
    for path in ["/ojs/v1/queues", "/ojs/v1/jobs/unheard-of", "/ojs/manifest", &format!("/ojs/v1/jobs/{id}")] {
        federation.client.get(path).await;
    }
    room("reads").await;
    // A client that goes in the middle of an answer, and one that goes before it.
    let mut wire = federation.client.wire().await;
    wire.send("GET /ojs/v1/debug/stream?bytes=300000000 HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert_eq!(wire.head().await.0, 200);
    assert_eq!(federation.shared.concurrency.total_in_flight(), 1, "its answer still comes");
    drop(wire);
    room("a client that has gone in the middle").await;
    let gate = Gate::new();
    let region = &federation.regions[0];
    region.faults().add(When::path("/ojs/v1/debug/stream"), Fault::Hold { gate });
    let mut wire = federation.client.wire().await;
    wire.send("GET /ojs/v1/debug/stream?bytes=3 HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    eventually("it is under way", async || federation.shared.concurrency.total_in_flight() == 1).await;
    drop(wire);
    room("a client that has gone before").await;
    region.faults().clear();
    // What lasts for as long as the client likes takes no place from others.
    let mut tunnels = Vec::new();
    for _ in 0..3 {
        let mut wire = federation.client.wire().await;
        let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        wire.send(format!("GET /ojs/v1/ws HTTP/1.1\r\nHost: localhost\r\n{upgrade}")).await;
        assert_eq!(wire.head().await.0, 101);
        tunnels.push(wire);
        let mut wire = federation.client.wire().await;
        wire.send("GET /ojs/v1/queues/default/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(wire.head().await.0, 200);
        tunnels.push(wire);
    }
    room("tunnels and event streams").await;
    region.stop().await;
    let answer = federation.client.enqueue(pinned("us-east-1", "down")).await;
    assert_eq!(answer.status, 503);
    room("a region that is gone").await;
}

#[tokio::test]
async fn a_burst_of_what_a_busy_pod_may_have_is_within_the_default_bounds() {
    // Bounds of number and size by default; a busy machine takes long for so many handshakes.
    let patient = "limits: { call_timeout: 10min, connect_timeout: 1min }\nhealth_check: { timeout: 10min }";
    let federation = Setup::default().regions(2).yaml(patient).start().await;
    // A quiet time before, so that nothing is usual but short answers.
    for number in 0..30 {
        assert_eq!(federation.client.enqueue(pinned("us-east-1", &format!("quiet{number}"))).await.status, 201);
    }
    let held = Held::begin(&federation, 500).await;
    held.end(&federation).await;
    let mut reads = JoinSet::new();
    for _ in 0..256 {
        let client = federation.client;
        reads.spawn(async move { client.send(Request::get("/ojs/v1/queues"), Bytes::new()).await });
    }
    while let Some(answer) = reads.join_next().await {
        assert_eq!(answer.unwrap().status, 200);
    }
    assert_eq!(federation.metric(r#"refusals_total{reason="overloaded",region="none"}"#).await, 0.0);
}
