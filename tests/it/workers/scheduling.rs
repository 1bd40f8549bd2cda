//! The endpoints and the command that show pools of workers and the shares of their queues.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{ACK, FETCH, fetch};
use crate::support::{Federation, Setup, command};

const POOLS: &str = "/ojs/v1/admin/pools";
const STATS: &str = "/ojs/v1/admin/scheduling/stats";
const CONFIGURED: &str = "scheduling: { pools: [{ name: pay, queues: [payments, 'refunds-*'], concurrency: 3, strategy: weighted, weights: { payments: 2 }, \
                          isolated: true }, { name: general, queues: [default] }] }";

async fn federation() -> Federation {
    let federation = Setup::default().yaml(CONFIGURED).steered().start().await;
    for queue in ["payments", "refunds-eu", "default", "other"] {
        federation.fill(0, queue, 9);
    }
    federation
}

async fn take(federation: &Federation, queue: &str, worker: &str) -> String {
    let body = format!(r#"{{"queues":["{queue}"],"count":1,"worker_id":"{worker}"}}"#);
    fetch(federation.client, body).await.remove(0)
}

/// The rows of a list, by name.
async fn rows(federation: &Federation, path: &str, list: &str, columns: &[&str]) -> Vec<Value> {
    let answer = federation.client.get(path).await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("content-type")),
        (200, Some("application/openjobspec+json")),
        "{answer:?}"
    );
    let document = answer.json();
    let row = |row: &Value| columns.iter().map(|column| row[*column].clone()).collect();
    document[list].as_array().unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn pools_and_shares_are_shown_as_the_specification_has_them() {
    let federation = federation().await;
    let first = take(&federation, "payments", "w1").await;
    for (queue, worker) in [("payments", "w2"), ("refunds-eu", "w2"), ("default", "w3"), ("other", "w4")] {
        take(&federation, queue, worker).await;
    }
    let body = format!(r#"{{"job_id":"{first}"}}"#);
    assert_eq!(federation.client.post(ACK, body).await.status, 200);
    let columns = ["name", "queues", "concurrency", "strategy", "weights", "isolated", "active_workers", "active_jobs"];
    let [pay, general] = [
        json!(["pay", ["payments", "refunds-*"], 3, "weighted", { "payments": 2 }, true, 2, 2]),
        json!(["general", ["default"], null, "round-robin", null, false, 1, 1]),
    ];
    assert_eq!(rows(&federation, POOLS, "items", &columns).await, [pay.clone(), general]);
    let one = federation.client.get(&format!("{POOLS}/pay")).await.json();
    assert_eq!((&one["name"], &one["active_jobs"]), (&pay[0], &pay[7]));
    federation.client.get(&format!("{POOLS}/nobody")).await.check_error(404, "not_found", "no_such_path");
    let columns = ["name", "dispatch_count_1m", "dispatch_ratio_1m", "active_jobs"];
    let expected = [json!(["default", 1, 0.25, 1]), json!(["payments", 2, 0.5, 1]), json!(["refunds-*", 1, 0.25, 1])];
    assert_eq!(rows(&federation, STATS, "queues", &columns).await, expected);
    let stats = federation.client.get(STATS).await.json();
    assert_eq!(stats["window"], "PT1M");
    assert!(stats["queues"][1]["avg_wait_ms"].is_u64(), "{stats}");
    federation.advance(Duration::from_secs(70));
    let expected = [json!(["default", 0, 0.0]), json!(["payments", 0, 0.0]), json!(["refunds-*", 0, 0.0])];
    assert_eq!(rows(&federation, STATS, "queues", &columns[..3]).await, expected);
    assert_eq!(
        rows(&federation, POOLS, "items", &["active_workers", "active_jobs"]).await,
        [json!([0, 0]), json!([0, 0])]
    );
    assert_eq!((federation.calls(POOLS), federation.calls(STATS)), (vec![0; 3], vec![0; 3]));
}

#[tokio::test]
async fn pools_are_changed_in_the_configuration_and_without_any_the_region_is_asked() {
    let federation = federation().await;
    for method in [Method::PUT, Method::DELETE, Method::POST] {
        let answer = federation.client.call(method, &format!("{POOLS}/pay"), r#"{"queues":["x"]}"#).await;
        let error = answer.check_error(405, "invalid_request", "method_not_allowed");
        assert!(error["message"].as_str().unwrap().contains("scheduling.pools"), "{error}");
        assert_eq!(answer.header("allow"), Some("GET"));
    }
    assert_eq!(federation.calls(POOLS), [0; 3]);
    let addressed = http::Request::get(POOLS).header("ojs-federation-region", crate::support::IDS[1]);
    federation.client.send(addressed, "").await;
    assert_eq!(federation.calls(POOLS), [0, 1, 0]);
    let none = Setup::default().start().await;
    for (method, path) in [(Method::GET, POOLS), (Method::GET, STATS), (Method::PUT, "/ojs/v1/admin/pools/pay")] {
        none.client.call(method, path, "").await;
    }
    assert_eq!((none.calls(POOLS), none.calls(STATS)), (vec![2, 0, 0], vec![1, 0, 0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_prints_pools_and_shares_as_tables_or_as_json() {
    let federation = federation().await;
    take(&federation, "payments", "w1").await;
    let address = federation.address().to_string();
    let run = |more: &[&str]| command(&[&["scheduling", "--address", &address], more].concat(), &[], "");
    let ended = run(&[]);
    assert_eq!(ended.code, Some(0), "{}", ended.all());
    let lines: Vec<Vec<&str>> = ended.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(
        lines.contains(&vec!["pay", "payments,", "refunds-*", "weighted", "payments", "2", "isolated", "1", "1", "3"]),
        "{}",
        ended.stdout
    );
    assert!(lines.iter().any(|line| line.starts_with(&["payments", "1", "1.0"])), "{}", ended.stdout);
    // Turns are taken by the lists that workers ask for, and the last FETCH is explained.
    for _ in 0..2 {
        let body = r#"{"queues":["payments","refunds-eu"],"count":1,"worker_id":"w1"}"#;
        fetch(federation.client, body.to_owned()).await;
    }
    let shown = run(&[]).stdout;
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.iter().any(|line| line.starts_with(&["us-east-1", "pay", "weighted", "refunds-eu"])), "{shown}");
    let last = shown.lines().find(|line| line.starts_with("last FETCH of payments, refunds-eu: ")).expect(&shown);
    assert!(last.contains(" first, it was next by the weights; 1 jobs, 0 s ago"), "{last}");
    let json: Value = serde_json::from_str(&run(&["--json"]).stdout).unwrap();
    assert_eq!((&json["pools"]["items"][0]["name"], &json["stats"]["window"]), (&json!("pay"), &json!("PT1M")));
    let without = Setup::default().start().await;
    let address = without.address().to_string();
    assert_eq!(command(&["scheduling", "--address", &address], &[], "").code, Some(1));
    assert_eq!(without.calls(FETCH), [0; 3]);
}
