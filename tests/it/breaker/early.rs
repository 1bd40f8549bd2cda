//! Early probes: while jobs are refused for lack of a region, an open breaker's region is asked again at once.

use std::time::Duration;

use super::*;

/// As [`quiet`], with early probes and a cooldown that no test waits for.
fn impatient() -> Setup {
    Setup::default()
        .steered()
        .regions(2)
        .yaml("health_check: { timeout: 10min }")
        .yaml("circuit_breaker: { cooldown: 1h, cooldown_max: 1h }")
}

/// The longest time between two early probes: a second, and half of one so that a fleet does not ask in step.
const EARLY_PROBE_DUE: Duration = Duration::from_millis(1_500);

/// Moves time until one early probe of the local region is due, and waits for its end.
async fn probed_early(federation: &Federation) {
    let ended = async || {
        let mut all = 0.0;
        for result in ["healthy", "unhealthy", "timeout", "failed"] {
            all += federation.metric(&format!(r#"probes_total{{region="us-east-1",result="{result}"}}"#)).await;
        }
        all
    };
    let before = ended().await;
    federation.advance(EARLY_PROBE_DUE);
    eventually("an early probe", async || ended().await > before).await;
    federation.settle().await;
}

#[tokio::test]
async fn a_region_that_is_back_takes_jobs_within_seconds_where_no_other_may() {
    let federation = impatient().start().await;
    let region = &federation.regions[0];
    region.faults().add(When::always(), Fault::Refuse);
    for _ in 0..5 {
        assert_eq!(federation.client.enqueue(pinned("us-east-1", "failing")).await.status, 503);
    }
    check_state(&federation, "open").await;
    check_unavailable(&federation.client.enqueue(pinned("us-east-1", "refused")).await, 3_600);
    for _ in 0..3 {
        probed_early(&federation).await;
        check_state(&federation, "open").await;
    }
    region.faults().clear();
    probed_early(&federation).await;
    if federation.breaker(0) != "closed" {
        // It may have taken too long on a busy machine.
        probed_early(&federation).await;
    }
    check_state(&federation, "closed").await;
    let answer = federation.client.enqueue(pinned("us-east-1", "back")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)]);
}

#[tokio::test]
async fn a_region_that_is_back_hands_out_jobs_within_seconds_where_only_workers_ask() {
    let federation = impatient().start().await;
    fail(&federation, 5).await;
    check_state(&federation, "open").await;
    let region = &federation.regions[0];
    region.faults().clear();
    federation.settle().await;
    check_state(&federation, "open").await;
    let fetch = r#"{"queues":["default"],"count":1,"worker_id":"w"}"#;
    let fetch = async || federation.client.post("/ojs/v1/workers/fetch", fetch).await.status;
    assert_eq!(fetch().await, 503);
    probed_early(&federation).await;
    check_state(&federation, "closed").await;
    assert_eq!(fetch().await, 200);
}

#[tokio::test]
async fn an_open_region_is_asked_once_a_second_and_only_while_jobs_are_refused() {
    let federation = impatient().start().await;
    fail(&federation, 5).await;
    check_state(&federation, "open").await;
    let region = &federation.regions[0];
    region.faults().add(When::always(), bad_gateway());
    region.record().clear();
    let answer = federation.client.enqueue(job("flexible")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(1, 1)]);
    federation.advance(SECOND * 60);
    federation.settle().await;
    assert_eq!(region.record().requests().len(), 0, "the other region takes what comes");
    check_unavailable(&federation.client.enqueue(pinned("us-east-1", "refused")).await, 3_540);
    for _ in 0..6 {
        probed_early(&federation).await;
    }
    // The first is due at once, with the refusal.
    let asked = federation.probes(0);
    assert!((6..=7).contains(&asked), "{asked}");
    assert_eq!(region.record().requests().len(), asked, "health requests, and nobody's job");
    federation.advance(SECOND * 60);
    federation.settle().await;
    assert_eq!(federation.probes(0), asked, "the last refusal is long over");
    check_state(&federation, "open").await;
}

#[tokio::test]
async fn a_region_that_was_down_at_the_first_probe_takes_jobs_once_it_is_up() {
    let stage = impatient().regions(1).stage().await;
    stage.regions[0].faults().add(When::always(), Fault::Refuse);
    let federation = stage.launch();
    eventually("the first round of probes", async || federation.admin.get("/readyz").await.status == 200).await;
    let answer = federation.client.enqueue(job("early")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "no_healthy_region"), "{answer:?}");
    federation.regions[0].faults().clear();
    probed_early(&federation).await;
    if federation.health(0) != "healthy" {
        // It may have taken too long on a busy machine.
        probed_early(&federation).await;
    }
    let answer = federation.client.enqueue(job("up")).await;
    assert_eq!(federation.stored(&answer.job_id()), [(0, 1)], "{answer:?}");
}
