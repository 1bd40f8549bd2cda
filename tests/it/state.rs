//! `/state`, `/config` and `/log-level` of the admin listener, and the commands that show them.

use std::time::Duration;

use http::{Method, Request};
use ojs_sidecar::config::{Sources, load};
use serde_json::{Value, json};

use crate::support::{Federation, Process, Setup, command, eventually};

const SECRET_JOB: &str =
    r#"{"type":"t","args":["secret-argument"],"meta":{"k":"secret-meta"},"options":{"queue":"mails"}}"#;

/// A federation with a drained region and one that cannot be reached, and with secrets of every kind.
async fn troubled() -> Federation {
    let stage = Setup::default()
        .steered()
        .region(0, "tags: [gold]")
        .region(0, "bearer_token_file: \"{dir}/token\"")
        .region(1, "weight: 0")
        .region(2, "url: https://localhost:1")
        .stage()
        .await;
    std::fs::write(stage.files.path().join("token"), "secret-token").unwrap();
    let federation = stage.launch();
    eventually("the first round of probes", async || federation.admin.get("/readyz").await.status == 200).await;
    federation
}

async fn state(federation: &Federation) -> Value {
    let answer = federation.admin.get("/state").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/json")));
    answer.json()
}

#[tokio::test]
async fn the_state_shows_what_is_known_of_each_region_and_nothing_secret() {
    let federation = troubled().await;
    assert_eq!(federation.client.enqueue(SECRET_JOB).await.status, 201);
    let state = state(&federation).await;
    assert_eq!((&state["federation_id"], &state["local_region"]), (&json!("test"), &json!("us-east-1")));
    assert_eq!((&state["ready"], &state["draining"]), (&json!(true), &json!(false)));
    let [local, drained, dead] = [0, 1, 2].map(|place| &state["regions"][place]);
    assert_eq!((&local["local"], &local["tags"], &local["usable"]), (&json!(true), &json!(["gold"]), &json!(true)));
    assert_eq!((&local["status"], &local["last_error"]), (&json!("healthy"), &Value::Null));
    assert_eq!(local["last_health_check"], "2027-01-15T08:00:00.000Z");
    assert!(local["next_health_check"].as_str().unwrap().starts_with("2027-01-15T08:00:"), "{local}");
    assert!(local["latency_us"].as_u64().unwrap() > 0, "{local}");
    assert!(local["addresses"][0].as_str().unwrap().contains(':'), "{local}");
    for kind in ["client", "ca", "server"] {
        assert!(local["certificates"][kind].as_str().unwrap().ends_with('Z'), "{local}");
    }
    assert_eq!(local["guards"]["enqueue"], json!({ "state": "closed", "left_ms": null }));
    assert!(local["calls"]["limit"].as_u64().unwrap() > 0, "{local}");
    assert_eq!((&drained["local"], &drained["weight"]), (&json!(false), &json!(0)));
    assert_eq!((&dead["status"], &dead["latency_us"]), (&json!("unhealthy"), &Value::Null));
    let why = &dead["last_error"];
    assert!(why["message"].is_string() && why["address"].as_str().unwrap().starts_with("localhost:1"), "{why}");
    assert_eq!((&state["queues"], &state["journal"]["durable"]), (&json!(["mails"]), &json!(false)));
    assert_eq!(state["owners"]["entries_max"], 1_000_000);
    assert!(state["process"]["figures"]["process_resident_memory_bytes"].as_f64().unwrap() > 1e6, "{state}");
    assert!(!state.to_string().contains("secret-"), "{state}");
}

#[tokio::test]
async fn an_open_breaker_shows_what_is_left_of_its_cooldown() {
    let federation = troubled().await;
    federation.advance_until("the breaker opens", || federation.breaker(2) == "open").await;
    let left = |state: &Value| state["regions"][2]["cooldown_left_ms"].as_u64();
    let first = left(&state(&federation).await).unwrap();
    assert!((1..=30_000).contains(&first), "{first}");
    federation.advance(Duration::from_secs(1));
    assert_eq!(left(&state(&federation).await), Some(first - 1_000));
    assert_eq!(state(&federation).await["regions"][0]["cooldown_left_ms"], Value::Null);
}

#[tokio::test]
async fn the_regions_command_shows_drained_regions_and_parts_of_milliseconds() {
    let federation = troubled().await;
    let table = command(&["regions", "--address", &federation.address().to_string()], &[], "");
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""), "{table:?}");
    let lines: Vec<&str> = table.stdout.lines().collect();
    let cells = |line: usize| lines[line].split("  ").filter(|it| !it.is_empty()).map(str::trim).collect::<Vec<_>>();
    assert_eq!(cells(1)[3..7], ["LATENCY MS", "LOCAL", "WEIGHT", "IN FLIGHT"]);
    let (local, drained) = (cells(2), cells(3));
    assert_eq!((local[1], local[4]), ("healthy", "local"));
    let (whole, part) = local[3].split_once('.').unwrap();
    assert!(whole.parse::<u64>().is_ok() && part.len() == 2, "{local:?}");
    assert_eq!((drained[1], drained[4], drained[5], drained[6]), ("healthy, drained", "-", "0", "0"));
    assert!(lines[5].starts_with("ap-south-1: localhost:1"), "{}", table.stdout);
}

#[tokio::test]
async fn the_configuration_in_force_is_shown_and_can_be_loaded_again() {
    let federation = troubled().await;
    let answer = federation.admin.get("/config").await;
    let document = answer.json();
    assert_eq!(document["differs_after_restart"], json!([]));
    assert_eq!(
        (&document["config"]["regions"][1]["weight"], &document["config"]["log"]["level"]),
        (&json!(0), &json!("warn"))
    );
    assert!(document["config"]["regions"][0]["bearer_token_file"].as_str().unwrap().ends_with("/token"));
    assert!(!document.to_string().contains("secret-") && !document.to_string().contains("BEGIN"), "{document}");
    let yaml = federation.admin.get("/config?format=yaml").await;
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    let accepted = federation.admin.send(Request::get("/config").header("accept", "application/yaml"), "").await;
    assert_eq!(accepted.body, yaml.body);
    let file = federation.files.path().join("again.yaml");
    std::fs::write(&file, &yaml.body).unwrap();
    let again = load(&Sources { files: vec![file], ..Sources::default() }).unwrap().config;
    assert_eq!(again, federation.current.load().config);
}

#[tokio::test]
async fn the_configuration_names_what_waits_for_a_restart_with_both_values() {
    let federation = Setup::default().steered().regions(1).start().await;
    let text = std::fs::read_to_string(&federation.config).unwrap();
    let changed = text.replace("log: { level: warn }", "log: { level: error, format: json }\nlimits: { headers: 77 }");
    std::fs::write(&federation.config, changed).unwrap();
    federation.advance(Duration::from_secs(60));
    let mut document = Value::Null;
    eventually("the change is seen", async || {
        document = federation.admin.get("/config").await.json();
        document["differs_after_restart"] != json!([])
    })
    .await;
    assert_eq!(document["config"]["log"]["level"], "error", "this is in force at once");
    let differs = json!([
        { "key": "limits.headers", "in_force": 100, "after_restart": 77 },
        { "key": "log.format", "in_force": "text", "after_restart": "json" },
    ]);
    assert_eq!(document["differs_after_restart"], differs);
    let yaml = federation.admin.get("/config?format=yaml").await;
    assert!(String::from_utf8_lossy(&yaml.body).contains("#   limits.headers: 77\n"), "{yaml:?}");
}

#[tokio::test]
async fn the_log_level_changes_for_a_while_and_returns_to_the_configured_one() {
    let stage = Setup::default().regions(1).yaml("health_check: { interval: 50ms }").stage().await;
    let sidecar = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    let address = sidecar.admin.address().to_string();
    let run = |arguments: &[&str]| command(&[&["log-level", "--address", &address], arguments].concat(), &[], "");
    let level = async || sidecar.admin.get("/log-level").await.json();
    assert_eq!(run(&[]).stdout, "log level info, as configured\n");
    stage.regions[0].stop().await;
    sidecar.wait_for_line("ojs.federation.region_unhealthy").await;
    assert!(!sidecar.log().iter().any(|line| line.contains("DEBUG")), "{:?}", sidecar.log());
    let changed = run(&["debug", "--for", "1h"]);
    assert!(changed.code == Some(0) && changed.stdout.starts_with("log level debug until "), "{changed:?}");
    sidecar.wait_for_line("DEBUG").await;
    assert_eq!(run(&["--reset"]).stdout, "log level info, as configured\n");
    assert_eq!(run(&["info,ojs_federation=trace", "--for", "1s"]).code, Some(0));
    eventually("the time is over", async || level().await["until"].is_null()).await;
    assert_eq!(level().await, json!({ "level": "info", "configured": "info", "until": null }));
    for refused in [&["loud"][..], &["debug", "--for", "2h"]] {
        let refused = run(refused);
        assert!(refused.code == Some(1) && refused.stderr.contains("answered 400: `"), "{refused:?}");
    }
    let page = Request::put("/log-level?level=debug").header("origin", "https://evil.example");
    assert_eq!(sidecar.admin.send(page, "").await.status, 403, "no web page may change it");
    assert_eq!(level().await["level"], "info");
}

#[tokio::test]
async fn the_log_level_is_refused_where_others_than_this_machine_can_ask() {
    let stage = Setup::default().regions(1).stage().await;
    let settings = ["--set", "log.level=info", "--set", "listen.admin=0.0.0.0:0"];
    let sidecar = Process::run(&stage.config, &settings).await;
    for method in [Method::PUT, Method::POST, Method::DELETE] {
        let answer = sidecar.admin.call(method, "/log-level?level=debug", "").await;
        assert_eq!(answer.status, 403, "{answer:?}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("`listen.admin` is a loopback address"), "{message}");
    }
    assert_eq!(sidecar.admin.get("/log-level").await.json()["level"], "info");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_logged_with_its_host() {
    let stage = Setup::default().regions(2).region(1, "url: https://ojs.nowhere.invalid").stage().await;
    let sidecar = Process::run(&stage.config, &["--set", "log.level=info", "--set", "log.format=json"]).await;
    sidecar.wait_for_line("ojs.federation.dns_failed").await;
    let line = sidecar.log().into_iter().find(|line| line.contains("ojs.federation.dns_failed")).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["region"], &line["host"]), (&json!("eu-west-1"), &json!("ojs.nowhere.invalid")));
    assert!(line["why"].as_str().is_some_and(|why| !why.is_empty()), "{line}");
    assert_eq!(line["in_a_row"], 1, "{line}");
}
