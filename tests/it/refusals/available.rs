//! 503: regions that could take the job another time.

use std::time::Duration;

use ojs_testbed::{Fault, When};

use super::{enqueue, nothing_was_sent, with};
use crate::support::{Federation, Setup};

const PINNED: &str = r#","meta":{"ojs.federation.region":"eu-west-1"}"#;

fn unwell(federation: &Federation, place: usize) {
    let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
    federation.regions[place].faults().add(When::health(), fault);
}

#[tokio::test]
async fn a_pinned_job_waits_for_its_unhealthy_region_and_its_breaker() {
    let federation = Setup::default().steered().start().await;
    unwell(&federation, 1);
    federation.advance_until_health(1, "unhealthy").await;
    let answer = enqueue(&federation, with(PINNED)).await;
    let error = answer.check_error(503, "backend_error", "region_unavailable");
    assert_eq!(
        (&error["details"]["region"], &error["details"]["circuit_breaker"]),
        (&"eu-west-1".into(), &"closed".into())
    );
    // The next probe.
    answer.check_retry_after(10);
    assert_eq!((answer.region(), answer.header("ojs-federation-attempts")), ("none", Some("0")));
    assert_eq!(answer.header("ojs-federation-strategy"), Some("geo-pin"));

    federation.advance_until("the breaker opens", || federation.breaker(1) == "open").await;
    let answer = enqueue(&federation, with(PINNED)).await;
    let error = answer.check_error(503, "backend_error", "region_unavailable");
    assert_eq!(error["details"]["circuit_breaker"], "open");
    // What remains of the cooldown, which began up to ten seconds ago.
    let view = federation.shared.registry.view();
    let until = view.regions[1].open_until.unwrap();
    let left = || until.saturating_duration_since(federation.shared.registry.clock().now()).as_secs_f64().ceil() as u64;
    assert!((20..=30).contains(&left()), "{}", left());
    answer.check_retry_after(left());
    federation.advance(Duration::from_secs(10));
    enqueue(&federation, with(PINNED)).await.check_retry_after(left());
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn a_pinned_job_fails_at_once_while_its_region_refuses_connections() {
    let federation = Setup::default().steered().start().await;
    federation.regions[1].stop().await;
    let answer = enqueue(&federation, with(PINNED)).await;
    let error = answer.check_error(503, "backend_error", "region_unavailable");
    assert_eq!(error["details"]["region"], "eu-west-1");
    assert_eq!((answer.region(), answer.header("ojs-federation-attempts")), ("eu-west-1", Some("1")));
    nothing_was_sent(&federation);
}

#[tokio::test]
async fn a_flexible_job_is_refused_when_no_region_is_healthy() {
    let federation = Setup::default().steered().start().await;
    (0..3).for_each(|place| unwell(&federation, place));
    for place in 0..3 {
        federation.advance_until_health(place, "unhealthy").await;
    }
    for strategy in ["affinity", "overflow", "round-robin", "weighted", "latency-based", "active-passive"] {
        let meta = format!(r#","meta":{{"ojs.federation.region_affinity":"{strategy}"}}"#);
        let answer = enqueue(&federation, with(&meta)).await;
        answer.check_error(503, "backend_error", "no_healthy_region");
        assert_eq!(answer.header("ojs-federation-strategy"), Some(strategy));
    }
    nothing_was_sent(&federation);
}
