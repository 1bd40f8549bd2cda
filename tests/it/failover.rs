//! A job that could not be sent goes to the next region, and is stored exactly once.

use http::StatusCode;
use ojs_testbed::{DemoRegion, Fault, FaultAnswer, When};

use crate::support::{Answer, Federation, Setup, job, pinned};

/// Probes and budgets stand still, and every call uses the same pools.
fn quiet() -> Setup {
    Setup::default().steered().yaml("limits: { worker_threads: 1 }")
}

/// Stored once, in the region at `place`, after `attempts`.
fn check_stored(federation: &Federation, answer: &Answer, place: usize, attempts: usize) {
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("ojs-federation-region"), Some(federation.regions[place].id()));
    assert_eq!(answer.header("ojs-federation-attempts"), Some(attempts.to_string().as_str()));
    assert_eq!(federation.stored(&answer.job_id()), [(place, 1)]);
}

/// Brings trouble to the local region of two, and sends a job into it.
async fn check(http2: bool, reason: &str, trouble: impl AsyncFnOnce(&Federation)) {
    let setup = quiet().regions(2);
    let federation = if http2 { setup.http2() } else { setup }.start().await;
    trouble(&federation).await;
    let answer = federation.client.enqueue(job("a")).await;
    check_stored(&federation, &answer, 1, 2);
    let failovers = format!(r#"failovers_total{{from_region="us-east-1",reason="{reason}"}}"#);
    assert_eq!(federation.metric(&failovers).await, 1.0);
    assert_eq!(federation.metric(r#"redirects_total{region="eu-west-1"}"#).await, 1.0);
    let attempts = r#"attempts_total{class="enqueue",outcome="not_sent",region="us-east-1"}"#;
    assert_eq!(federation.metric(attempts).await, 1.0);
}

#[tokio::test]
async fn a_refused_connection_fails_over() {
    check(false, "connect", async |federation| federation.regions[0].stop().await).await;
    check(true, "connect", async |federation| federation.regions[0].stop().await).await;
}

#[tokio::test]
async fn a_connection_reset_before_its_handshake_fails_over() {
    let refuse = |region: &DemoRegion| region.faults().add(When::always(), Fault::Refuse);
    check(false, "connect", async |federation| refuse(&federation.regions[0])).await;
}

#[tokio::test]
async fn a_failed_handshake_fails_over() {
    check(false, "tls", async |federation| {
        federation.regions[0].set_server(federation.authorities[1].server(&["localhost"])).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_refused_http2_stream_fails_over() {
    check(true, "refused_stream", async |federation| {
        federation.regions[0].faults().add(When::enqueue(), Fault::RefuseStream);
    })
    .await;
}

#[tokio::test]
async fn an_http2_goaway_below_the_stream_fails_over() {
    check(true, "refused_stream", async |federation| {
        federation.regions[0].faults().add(When::enqueue(), Fault::GoAway);
    })
    .await;
}

#[tokio::test]
async fn a_pooled_connection_that_was_closed_costs_neither_the_job_nor_its_region() {
    for http2 in [false, true] {
        let setup = quiet().regions(2);
        let federation = if http2 { setup.http2() } else { setup }.start().await;
        for round in 0..20 {
            let answer = federation.client.enqueue(job(&format!("a{round}"))).await;
            check_stored(&federation, &answer, 0, 1);
            federation.regions[0].cut_connections().await;
        }
    }
}

#[tokio::test]
async fn a_pooled_connection_to_a_region_that_died_fails_over() {
    for http2 in [false, true] {
        let setup = quiet().regions(2);
        let federation = if http2 { setup.http2() } else { setup }.start().await;
        check_stored(&federation, &federation.client.enqueue(job("a")).await, 0, 1);
        federation.regions[0].stop().await;
        check_stored(&federation, &federation.client.enqueue(job("b")).await, 1, 2);
    }
}

#[tokio::test]
async fn a_regions_own_503_moves_a_flexible_job_on() {
    let federation = quiet().regions(2).start().await;
    let answer = FaultAnswer::error_document(http::StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    federation.regions[0].faults().add(When::enqueue(), Fault::Answer { answer, store: false });
    check_stored(&federation, &federation.client.enqueue(job("a")).await, 1, 2);
    let failovers = r#"failovers_total{from_region="us-east-1",reason="unavailable"}"#;
    assert_eq!(federation.metric(failovers).await, 1.0);
}

#[tokio::test]
async fn preferred_regions_are_failed_over_to_first() {
    for (place, id) in [(1, "eu-west-1"), (2, "ap-south-1")] {
        let federation = quiet().yaml(&format!("failover: {{ prefer_regions: [{id}] }}")).start().await;
        federation.regions[0].stop().await;
        check_stored(&federation, &federation.client.enqueue(job("a")).await, place, 2);
    }
}

#[tokio::test]
async fn excluded_regions_are_never_failed_over_to_and_still_take_their_pins() {
    let federation = quiet().yaml("failover: { exclude_regions: [eu-west-1] }").start().await;
    federation.regions[0].stop().await;
    check_stored(&federation, &federation.client.enqueue(job("a")).await, 2, 2);
    federation.regions[2].stop().await;
    let answer = federation.client.enqueue(job("b")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "no_healthy_region"));
    assert_eq!(federation.enqueues(1), 0);
    check_stored(&federation, &federation.client.enqueue(pinned("eu-west-1", "c")).await, 1, 1);
}

#[tokio::test]
async fn redirects_are_bounded() {
    let setup = quiet().yaml("failover: { max_redirects: 1, prefer_regions: [eu-west-1, ap-south-1] }");
    let federation = setup.start().await;
    federation.regions[0].stop().await;
    federation.regions[1].stop().await;
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "no_healthy_region"));
    assert_eq!(answer.header("ojs-federation-attempts"), Some("2"));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(federation.enqueues(2), 0);
}

#[tokio::test]
async fn with_failover_off_a_job_is_attempted_once() {
    let federation = quiet().yaml("failover: { enabled: false }").start().await;
    federation.regions[0].stop().await;
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "no_healthy_region"));
    assert_eq!(answer.header("ojs-federation-attempts"), Some("1"));
    assert_eq!((federation.enqueues(1), federation.enqueues(2)), (0, 0));
}

#[tokio::test]
async fn a_pinned_job_stays_with_its_region_when_that_cannot_be_reached() {
    let federation = quiet().start().await;
    federation.regions[1].stop().await;
    let answer = federation.client.enqueue(pinned("eu-west-1", "only-for-europe")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "region_unavailable"));
    assert_eq!(answer.json()["error"]["details"]["region"], "eu-west-1");
    assert!(answer.header("retry-after").is_some());
    assert!(federation.seen("only-for-europe").is_empty());
}

#[tokio::test]
async fn a_spent_retry_budget_stops_further_redirects_and_says_so() {
    // Without a floor the balance is ten at first, and nothing is paid in while the clock stands still.
    let setup = quiet().yaml("failover: { prefer_regions: [eu-west-1], retry_budget: { ratio: 0, floor: 0 } }");
    let setup = setup.yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }");
    let federation = setup.start().await;
    federation.regions[0].stop().await;
    federation.regions[1].stop().await;
    for round in 0..10 {
        // The first redirect is free, the second is charged.
        check_stored(&federation, &federation.client.enqueue(job(&format!("a{round}"))).await, 2, 3);
    }
    let answer = federation.client.enqueue(job("refused")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "retry_budget"));
    assert_eq!(answer.header("ojs-federation-attempts"), Some("2"));
    assert_eq!(answer.json()["error"]["retryable"], true);
    assert!(answer.header("retry-after").is_some());
    assert_eq!(federation.metric(r#"refusals_total{reason="retry_budget",region="none"}"#).await, 1.0);
    assert_eq!(federation.metric("retry_budget_available").await, 0.0);
    assert!(federation.seen("refused").is_empty());
    federation.regions[1].resume().await.unwrap();
    check_stored(&federation, &federation.client.enqueue(job("free")).await, 1, 2);
}

#[tokio::test]
async fn redirects_to_one_region_leave_those_to_another_their_own_budget() {
    let yaml = "\
routing: { rules: [{ match: { job_type: 'a.*' }, target: { regions: [us-east-1, ap-south-1] } },
  { match: { job_type: 'e.*' }, target: { regions: [us-east-1, eu-west-1] } }] }
failover: { retry_budget: { ratio: 1, floor: 0 } }
circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }";
    let federation = quiet().yaml(yaml).start().await;
    let answer = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    federation.regions[0].faults().add(When::enqueue(), Fault::Answer { answer, store: false });
    let europe = r#"{"type":"e.x","args":[]}"#;
    // Each request pays in one token for its first region and one overall, and its redirect takes out one overall and one
    // of its target's, which are ten at first.
    for _ in 0..10 {
        check_stored(&federation, &federation.client.enqueue(europe).await, 1, 2);
    }
    let answer = federation.client.enqueue(europe).await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-attempts")), (503, Some("1")), "{answer:?}");
    assert_eq!(federation.metric("retry_budget_available").await, 10.0, "it is not the overall budget that is spent");
    check_stored(&federation, &federation.client.enqueue(r#"{"type":"a.x","args":[]}"#).await, 2, 2);
}

#[tokio::test]
async fn a_job_that_was_decided_away_from_its_one_region_is_a_failover_for_every_strategy_that_means_one() {
    let yaml = "routing: { geographic: { meta_key: country, regions: { DE: eu-west-1 } } }\n\
                failover: { prefer_regions: [eu-west-1] }";
    for (strategy, counted) in [("active-passive", 1.0), ("geographic", 1.0), ("affinity", 0.0), ("weighted", 0.0)] {
        let federation = quiet().yaml(yaml).start().await;
        let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
        federation.regions[1].faults().add(When::health(), fault);
        federation.advance_until_health(1, "unhealthy").await;
        let meta = format!(r#"{{"ojs.federation.region_affinity":"{strategy}","country":"DE"}}"#);
        let answer = federation.client.enqueue(format!(r#"{{"type":"t","args":[],"meta":{meta}}}"#)).await;
        assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-attempts")), (201, Some("1")), "{strategy}");
        let failovers = r#"failovers_total{from_region="eu-west-1",reason="unhealthy"}"#;
        assert_eq!(federation.metric(failovers).await, counted, "{strategy}");
    }
}

#[tokio::test]
async fn a_job_that_no_region_can_take_goes_to_the_last_good_one_if_configured() {
    for (word, tried) in [("try_last_good", true), ("refuse", false)] {
        let setup = quiet().regions(2).yaml("circuit_breaker: { early_probe: 0s }");
        let federation = setup.yaml(&format!("failover: {{ on_all_unhealthy: {word} }}")).start().await;
        for place in [0, 1] {
            let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
            federation.regions[place].faults().add(When::health(), fault);
            federation.advance_until_health(place, "unhealthy").await;
        }
        let answer = federation.client.enqueue(job("flexible")).await;
        if tried {
            assert_eq!(federation.stored(&answer.job_id()), [(1, 1)], "{answer:?}");
        } else {
            assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "no_healthy_region"), "{answer:?}");
        }
        for region in ["us-east-1", "eu-west-1"] {
            let answer = federation.client.enqueue(pinned(region, "pinned")).await;
            assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "region_unavailable"), "{answer:?}");
        }
        assert_eq!(federation.job_requests(), [0, usize::from(tried)], "{word}");
    }
}
