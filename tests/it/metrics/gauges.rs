//! What rises and falls: breakers, health, certificates, connections, load.

use std::time::Duration;

use ojs_testbed::{Fault, FaultAnswer, When};

use super::{JOB, still};
use crate::support::{IDS, Scrape, Setup, eventually};

#[tokio::test]
async fn a_breaker_shows_one_state_at_a_time_and_counts_its_changes() {
    let federation = still().await;
    let shown = async || {
        let scrape = Scrape::of(&federation.admin).await;
        let states = ["closed", "open", "half-open"];
        let of = |family: &str, label: &str, state: &str| {
            scrape.value(&format!("{family}{{region=\"us-east-1\",{label}=\"{state}\"}}"))
        };
        let open: Vec<&str> = states.into_iter().filter(|state| of("breaker_state", "state", state) == 1.0).collect();
        (open, states.map(|state| of("breaker_transitions_total", "to", state)))
    };
    assert_eq!(shown().await, (vec!["closed"], [0.0, 0.0, 0.0]));
    federation.mute(0);
    let bad = FaultAnswer::balancer(http::StatusCode::BAD_GATEWAY);
    federation.regions[0].faults().add(When::enqueue(), Fault::Answer { answer: bad, store: false });
    for _ in 0..5 {
        assert_eq!(federation.client.enqueue(JOB).await.status, 500);
    }
    assert_eq!(shown().await, (vec!["open"], [0.0, 1.0, 0.0]));
    federation.advance(Duration::from_secs(31));
    eventually("the breaker closes", async || federation.breaker(0) == "closed").await;
    eventually("that is shown", async || shown().await == (vec!["closed"], [1.0, 1.0, 1.0])).await;
    let scrape = Scrape::of(&federation.admin).await;
    assert_eq!(
        scrape.value("probes_total{region=\"us-east-1\",result=\"healthy\"}"),
        2.0,
        "the first and the half-open one"
    );
}

#[tokio::test]
async fn probes_move_health_latency_and_their_own_counters() {
    let federation = still().await;
    let first = Scrape::of(&federation.admin).await;
    assert_eq!(first.value("region_healthy{region=\"eu-west-1\"}"), 1.0);
    assert_eq!(first.value("probes_total{region=\"eu-west-1\",result=\"healthy\"}"), 1.0);
    assert_eq!(first.value("probe_duration_seconds_count{region=\"eu-west-1\"}"), 1.0);
    assert!(first.value("region_latency_seconds{region=\"eu-west-1\"}") > 0.0);
    federation.regions[1].stop().await;
    federation.advance(Duration::from_secs(12));
    eventually("the region is unhealthy", async || federation.health(1) == "unhealthy").await;
    let second = Scrape::of(&federation.admin).await;
    assert_eq!(second.value("region_healthy{region=\"eu-west-1\"}"), 0.0);
    assert_eq!(second.value("probes_total{region=\"eu-west-1\",result=\"failed\"}"), 1.0);
}

#[tokio::test]
async fn certificates_tell_their_end_and_a_connection_shows_the_servers() {
    let federation = still().await;
    let scrape = Scrape::of(&federation.admin).await;
    for region in IDS {
        for kind in ["client", "ca", "server"] {
            let end =
                scrape.value(&format!("certificate_expiry_timestamp_seconds{{kind=\"{kind}\",region=\"{region}\"}}"));
            assert!(end > 1.7e9, "{region} {kind}: {end}");
        }
    }
}

#[tokio::test]
async fn gauges_follow_connections_load_budget_and_drain() {
    // Long, so that the draining process can be looked at.
    let long = "shutdown: { drain_idle: 1h, drain_timeout: 2h }";
    let mut federation = Setup::default().steered().yaml(long).start().await;
    federation.client.enqueue(JOB).await;
    let open = federation.client.connect().await;
    eventually("the connection is counted", async || {
        Scrape::of(&federation.admin).await.value("client_connections") == 1.0
    })
    .await;
    drop(open);
    let scrape = Scrape::of(&federation.admin).await;
    assert!(scrape.value("pool_connections{region=\"us-east-1\",state=\"idle\"}") >= 1.0);
    assert_eq!(scrape.value("pool_connections{region=\"us-east-1\",state=\"busy\"}"), 0.0);
    assert_eq!(scrape.value("in_flight{region=\"us-east-1\"}"), 0.0);
    assert!(scrape.value("retry_budget_available") >= 1.0);
    assert!(scrape.value("uptime_seconds") > 0.0);
    assert_eq!(scrape.value("draining"), 0.0);
    federation.advance(Duration::from_secs(12));
    eventually("the queue of the job is polled", async || {
        Scrape::of(&federation.admin).await.value("region_load{region=\"us-east-1\"}") == 1.0
    })
    .await;
    assert!(Scrape::of(&federation.admin).await.value("region_load_age_seconds{region=\"us-east-1\"}") < 12.0);
    federation.begin_drain();
    eventually("the drain is shown", async || Scrape::of(&federation.admin).await.value("draining") == 1.0).await;
}
