//! The bodies that are in memory at once have a bound in total.

use std::time::Duration;

use http::Method;
use ojs_testbed::{Fault, Gate, When};

use crate::support::{Answer, Federation, Setup, eventually, job};

/// Room for one large body and a small one.
async fn narrow() -> Federation {
    Setup::default().steered().yaml("limits: { body_bytes: 4KiB, buffered_bytes: 4KiB }").start().await
}

fn large(name: &str) -> String {
    job(&format!("{name}{}", "x".repeat(3000)))
}

#[track_caller]
fn check_overloaded(answer: &Answer) {
    answer.check_error(503, "backend_error", "overloaded");
    answer.check_retry_after(1);
    assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    assert_eq!(answer.region(), "none");
}

/// Nothing is left behind, and a large body passes again.
async fn check_room(federation: &Federation) {
    until_held(federation, |bytes| bytes == 0).await;
    assert_eq!(federation.client.enqueue(large("room")).await.status, 201);
    until_held(federation, |bytes| bytes == 0).await;
}

async fn until_held(federation: &Federation, holds: impl Fn(usize) -> bool) {
    eventually("so many bytes in memory", async || holds(federation.shared.buffered.bytes())).await;
}

#[tokio::test]
async fn requests_beyond_the_bound_are_refused_unsent_until_others_are_answered() {
    let federation = narrow().await;
    let gate = Gate::new();
    let region = &federation.regions[0];
    region.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let first = async {
        let answer = federation.client.enqueue(large("first")).await;
        assert_eq!(answer.status, 201, "its answer passes, though it is over the bound: {answer:?}");
        assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
    };
    let meanwhile = async {
        region.record().wait_for(|record| record.contains(b"first")).await;
        for (method, path) in [
            (Method::POST, "/ojs/v1/jobs"),
            (Method::POST, "/ojs/v1/jobs/batch"),
            (Method::POST, "/v1/federation/route"),
            (Method::PUT, "/ojs/v1/jobs"),
        ] {
            check_overloaded(&federation.client.call(method, path, large("refused")).await);
        }
        assert_eq!(federation.client.enqueue(job("small")).await.status, 201, "there is room for a small one");
        assert!(federation.seen("refused").is_empty());
        gate.open();
    };
    tokio::join!(first, meanwhile);
    check_room(&federation).await;
    assert!(federation.metric(r#"refusals_total{reason="overloaded",region="none"}"#).await >= 4.0);
}

#[tokio::test]
async fn a_body_counts_while_it_comes_and_no_longer_when_its_client_goes() {
    let federation = narrow().await;
    let mut wire = federation.client.wire().await;
    let body = large("slow");
    let (begun, rest) = body.split_at(2900);
    let head = format!("POST /ojs/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    wire.send(format!("{head}{begun}")).await;
    until_held(&federation, |bytes| bytes == begun.len()).await;
    check_overloaded(&federation.client.enqueue(large("b")).await);
    wire.send(rest).await;
    assert_eq!(wire.answer().await.status, 201);
    check_room(&federation).await;

    let mut wire = federation.client.wire().await;
    wire.send(format!("{head}{begun}")).await;
    until_held(&federation, |bytes| bytes == begun.len()).await;
    drop(wire);
    check_room(&federation).await;
}

#[tokio::test]
async fn what_is_in_memory_still_counts_after_a_reload() {
    let federation = narrow().await;
    let gate = Gate::new();
    let region = &federation.regions[0];
    region.faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let first = async { assert_eq!(federation.client.enqueue(large("first")).await.status, 201) };
    let meanwhile = async {
        region.record().wait_for(|record| record.contains(b"first")).await;
        let yaml = std::fs::read_to_string(&federation.config).unwrap();
        std::fs::write(&federation.config, yaml.replace("body_bytes: 4KiB,", "body_bytes: 4KiB, json_depth: 64,"))
            .unwrap();
        federation.advance(Duration::from_secs(60));
        eventually("the new limit", async || federation.current.load().config.limits.json_depth == 64).await;
        check_overloaded(&federation.client.enqueue(large("refused")).await);
        gate.open();
    };
    tokio::join!(first, meanwhile);
    check_room(&federation).await;
}
