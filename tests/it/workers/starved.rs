//! Queues that starve, pools that are overloaded and rules that change are counted and reported. Spec: fair-scheduling 11.

use std::time::Duration;

use super::{FETCH, fetch};
use crate::support::{Federation, Process, Scrape, Setup, eventually};

const STRICT: &str =
    "scheduling: { pools: [{ name: all, queues: [critical, low, 'mail-*'], strategy: strict, concurrency: 40 }] }";

/// How often the queue `low` was found to starve.
async fn starved_times(federation: &Federation) -> f64 {
    Scrape::of(&federation.admin).await.value_of(r#"ojs_scheduling_starvation_events_total{queue="low"}"#)
}

/// A FETCH of one job every ten seconds.
async fn work(federation: &Federation, queues: &str, times: usize) {
    for _ in 0..times {
        federation.advance(Duration::from_secs(10));
        fetch(federation.client, format!(r#"{{"queues":[{queues}],"count":1,"worker_id":"w"}}"#)).await;
    }
}

/// FETCHes of these queues, until the queue `low` was found to starve so often.
async fn until_starved(federation: &Federation, queues: &str, times: f64) {
    eventually("the queue starves", async || {
        work(federation, queues, 1).await;
        starved_times(federation).await == times
    })
    .await;
}

#[tokio::test]
async fn a_queue_whose_jobs_wait_behind_others_is_counted_once_until_it_gives_one() {
    let federation = Setup::default().yaml(STRICT).steered().start().await;
    federation.fill(0, "critical", 900);
    federation.fill(0, "low", 9);
    assert_eq!(starved_times(&federation).await, 0.0);
    until_starved(&federation, r#""critical","low","mail-eu""#, 1.0).await;
    work(&federation, r#""critical","low","mail-eu""#, 9).await;
    let scrape = Scrape::of(&federation.admin).await;
    let starved =
        |queue: &str| scrape.value_of(&format!("ojs_scheduling_starvation_events_total{{queue=\"{queue}\"}}"));
    assert_eq!([starved("low"), starved("critical"), starved("mail-*")], [1.0, 0.0, 0.0]);
    // It gives a job, and starves anew.
    work(&federation, r#""low""#, 1).await;
    until_starved(&federation, r#""critical","low""#, 2.0).await;
    // An alert that looks at other regions would be asked of their servers, which have nothing to do with it.
    assert_eq!(federation.calls("/ojs/v1/queues/low/stats")[1..], [0, 0]);
}

#[tokio::test]
async fn dispatches_shares_waits_and_places_are_figures_by_names_of_the_configuration() {
    let federation = Setup::default().yaml(STRICT).steered().start().await;
    for queue in ["critical", "mail-eu", "mail-us", "other"] {
        federation.fill(0, queue, 5);
    }
    for queue in ["critical", "mail-eu", "mail-us", "mail-us"] {
        fetch(federation.client, format!(r#"{{"queues":["{queue}"],"count":1,"worker_id":"w"}}"#)).await;
    }
    fetch(federation.client, r#"{"queues":["other","critical"],"count":1,"worker_id":"v"}"#.to_owned()).await;
    let scrape = Scrape::of(&federation.admin).await;
    for (series, expected) in [
        (r#"dispatch_total{pool="all",queue="critical"}"#, 1.0),
        (r#"dispatch_total{pool="all",queue="mail-*"}"#, 3.0),
        (r#"dispatch_total{pool="all",queue="low"}"#, 0.0),
        (r#"dispatch_ratio{queue="mail-*"}"#, 0.75),
        (r#"pool_utilization{pool="all"}"#, 0.1),
    ] {
        assert_eq!(scrape.value_of(&format!("ojs_scheduling_{series}")), expected, "{series}");
    }
    let made_up = scrape
        .text
        .lines()
        .filter(|line| line.starts_with("ojs_scheduling_") && (line.contains("mail-eu") || line.contains("other")))
        .count();
    assert_eq!(made_up, 0, "labels are names of the configuration");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_overloaded_pool_and_changed_rules_are_reported() {
    let of = |strategy: &str, pools: &str| {
        format!("scheduling: {{ strategy: {strategy}, pools: [{{ name: pay, queues: [payments], {pools} }}] }}")
    };
    let stage = Setup::default().yaml(&of("strict", "concurrency: 1, strategy: strict")).stage().await;
    stage.regions[0].fill("payments", 3);
    let sidecar = Process::run(&stage.config, &["--set", "log.level=info", "--set", "log.format=json"]).await;
    for jobs in [1, 0, 0] {
        let body = r#"{"queues":["payments"],"count":1,"worker_id":"w"}"#;
        let answer = sidecar.client.post(FETCH, body.to_owned()).await;
        assert_eq!(answer.json()["jobs"].as_array().unwrap().len(), jobs, "{answer:?}");
    }
    sidecar.wait_for_line("scheduling.pool_overloaded").await;
    let line = |event: &str| -> Vec<serde_json::Value> {
        let log = sidecar.log().into_iter().map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
        log.filter(|line| line["event"] == event).collect()
    };
    let overloaded = line("scheduling.pool_overloaded");
    assert_eq!(overloaded.len(), 1);
    let fields = ["pool", "active_jobs", "waiting_jobs"].map(|field| overloaded[0][field].to_string());
    assert_eq!(fields, ["\"pay\"", "1", "2"]);
    let text = std::fs::read_to_string(&stage.config).unwrap();
    let text = text.replace(
        &of("strict", "concurrency: 1, strategy: strict"),
        &of("strict", "concurrency: 1, strategy: round-robin"),
    );
    std::fs::write(&stage.config, text).unwrap();
    sidecar.signal("HUP");
    sidecar.wait_for_line("scheduling.rebalanced").await;
    let changed = line("scheduling.rebalanced");
    let fields = ["pool", "previous_strategy", "new_strategy"].map(|field| changed[0][field].as_str());
    assert_eq!((changed.len(), fields), (1, [Some("pay"), Some("strict"), Some("round-robin")]));
}
