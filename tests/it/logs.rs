//! What a running sidecar logs.

use ojs_testbed::{Fault, FaultAnswer, When};
use serde_json::Value;

use crate::support::{Process, Setup, Stage};

const JOB: &str = r#"{"type":"email.send","args":["secret-argument"],"meta":{"k":"secret-meta"}}"#;

async fn run(stage: &Stage, settings: &[&str]) -> Process {
    let settings: Vec<&str> = settings.iter().flat_map(|set| ["--set", set]).collect();
    Process::run(&stage.config, &settings).await
}

fn json(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn events<'a>(lines: &'a [Value], event: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

/// A job that fails over, then a stored one, a refused one, and a read with a query string.
async fn traffic(stage: &Stage, sidecar: &Process) {
    // Before there is a kept connection: a job on one that is being cut may have an unknown outcome.
    stage.regions[0].stop().await;
    let answer = sidecar.client.enqueue(JOB).await;
    assert_eq!(answer.header("ojs-federation-region"), Some("eu-west-1"), "{answer:?}");
    stage.regions[0].resume().await.unwrap();
    let answer = sidecar.client.enqueue(JOB).await;
    assert_eq!(answer.header("ojs-federation-region"), Some("us-east-1"), "{answer:?}");
    assert_eq!(sidecar.client.enqueue("{").await.status, 400);
    sidecar.client.get("/ojs/v1/queues?state=secret-query").await;
}

async fn log_of(access: &str) -> Vec<Value> {
    // Probes are rare, so that it is the jobs that find the region gone.
    let stage = Setup::default()
        .yaml("health_check: { interval: 1h }\nfailover: { prefer_regions: [eu-west-1] }")
        .stage()
        .await;
    let access = format!("log.access={access}");
    let mut sidecar = run(&stage, &["log.level=debug", "log.format=json", &access, "shutdown.drain_idle=0s"]).await;
    traffic(&stage, &sidecar).await;
    sidecar.terminate();
    let (status, lines) = sidecar.ended().await;
    assert_eq!(status.code(), Some(0), "{lines:?}");
    json(&lines)
}

#[tokio::test]
async fn every_line_is_json_and_every_request_has_one_with_its_fields_and_nothing_of_its_content() {
    let lines = log_of("all").await;
    let access = events(&lines, "ojs.federation.access");
    let operations: Vec<_> = access.iter().map(|line| line["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["enqueue", "enqueue", "enqueue", "queues"]);
    let stored = access[1];
    for (field, value) in [
        ("level", "INFO"),
        ("method", "POST"),
        ("region", "us-east-1"),
        ("strategy", "affinity"),
        ("outcome", "answered"),
        ("target", "ojs_federation"),
    ] {
        assert_eq!(stored[field], value, "{stored}");
    }
    assert_eq!((stored["status"].as_u64(), stored["attempts"].as_u64()), (Some(201), Some(1)), "{stored}");
    assert!(stored["request_id"].as_str().unwrap().starts_with("req_"), "{stored}");
    assert_eq!((&stored["queue"], &stored["job_type"]), (&"default".into(), &"email.send".into()), "{stored}");
    assert_eq!(stored["job_id"].as_str().map(str::len), Some(36), "{stored}");
    assert_eq!(stored["federation_id"].as_str().map(str::len), Some(36), "{stored}");
    let (whole, upstream) = (stored["duration_ms"].as_f64().unwrap(), stored["upstream_ms"].as_f64().unwrap());
    assert!(whole >= upstream && upstream > 0.0, "{stored}");
    assert_eq!((access[2]["refusal"].as_str(), access[2]["status"].as_u64()), (Some("invalid_payload"), Some(400)));
    assert_eq!((access[3]["attempts"].as_u64(), access[3]["outcome"].as_str()), (Some(1), Some("answered")));
    assert_eq!((access[0]["attempts"].as_u64(), access[0]["region"].as_str()), (Some(2), Some("eu-west-1")));
    for line in &lines {
        assert!(!line.to_string().contains("secret-"), "{line}");
    }
}

#[tokio::test]
async fn a_failover_is_told_with_the_names_of_the_specification() {
    let lines = log_of("errors").await;
    let failovers = events(&lines, "ojs.federation.failover");
    assert_eq!(failovers.len(), 1, "{lines:?}");
    for (field, value) in
        [("from_region", "us-east-1"), ("to_region", "eu-west-1"), ("reason", "connect"), ("level", "INFO")]
    {
        assert_eq!(failovers[0][field], value);
    }
    let access = events(&lines, "ojs.federation.access");
    let told: Vec<_> = access.iter().map(|line| (line["status"].as_u64(), line["level"].as_str())).collect();
    assert_eq!(told, [(Some(201), Some("INFO")), (Some(400), Some("WARN"))], "refusals and failovers only");
    let moved = access[0];
    for (field, value) in
        [("moved_from", "us-east-1"), ("moved_to", "eu-west-1"), ("moved_because", "connect"), ("region", "eu-west-1")]
    {
        assert_eq!(moved[field], value, "{moved}");
    }
}

#[tokio::test]
async fn an_enqueue_that_was_moved_before_its_first_try_is_shown_among_errors() {
    let stage = Setup::default().yaml("health_check: { interval: 20ms }").stage().await;
    let sidecar = run(&stage, &["log.level=info", "log.access=errors"]).await;
    assert_eq!(sidecar.client.enqueue(JOB).await.region(), "us-east-1");
    let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
    stage.regions[0].faults().add(When::health(), fault);
    sidecar.wait_for_line("event=\"ojs.federation.region_unhealthy\" region=\"us-east-1\"").await;
    let answer = sidecar.client.enqueue(JOB).await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-attempts")), (201, Some("1")), "{answer:?}");
    sidecar.wait_for_line("moved_from=\"us-east-1\"").await;
    let log = sidecar.log();
    let access: Vec<_> = log.iter().filter(|line| line.contains("ojs.federation.access")).collect();
    assert_eq!(access.len(), 1, "the one that stayed is not shown: {access:?}");
}

#[tokio::test]
async fn access_off_hides_requests_and_keeps_events() {
    let lines = log_of("off").await;
    assert!(events(&lines, "ojs.federation.access").is_empty());
    for event in ["started", "ready", "region_healthy", "failover", "drain_started", "drain_finished"] {
        assert!(!events(&lines, &format!("ojs.federation.{event}")).is_empty(), "no {event} in {lines:?}");
    }
}

#[tokio::test]
async fn breakers_and_recoveries_are_told_and_text_lines_hold_the_same_words() {
    let quick = "health_check: { interval: 20ms }\ncircuit_breaker: { failure_threshold: 2, cooldown: 50ms }";
    let stage = Setup::default().yaml(quick).stage().await;
    let sidecar = run(&stage, &["log.level=info"]).await;
    stage.regions[1].stop().await;
    sidecar.wait_for_line("to=\"open\"").await;
    stage.regions[1].resume().await.unwrap();
    sidecar.wait_for_line("to=\"closed\"").await;
    let log = sidecar.log().join("\n");
    for words in [
        "event=\"ojs.federation.region_unhealthy\" region=\"eu-west-1\"",
        "from=\"closed\" to=\"open\" reason=\"probe_failures\"",
        "from=\"open\" to=\"half-open\" reason=\"cooldown_over\"",
        "from=\"half-open\" to=\"closed\" reason=\"probe_succeeded\"",
    ] {
        assert!(log.contains(words), "no {words} in\n{log}");
    }
    assert!(!log.contains('\u{1b}'), "a file gets no colours");
}

#[tokio::test]
async fn a_region_that_is_held_down_and_let_go_and_a_guard_that_opens_are_told() {
    let quick = "health_check: { interval: 20ms }\n\
        circuit_breaker: { failure_threshold: 2, cooldown: 50ms, hold_down_changes: 2, hold_down_quiet: 50ms }";
    let stage = Setup::default().yaml(quick).stage().await;
    let sidecar = run(&stage, &["log.level=info"]).await;
    stage.regions[1].stop().await;
    sidecar.wait_for_line("to=\"open\"").await;
    stage.regions[1].resume().await.unwrap();
    sidecar.wait_for_line("event=\"ojs.federation.hold_down\" region=\"eu-west-1\" held=true").await;
    sidecar.wait_for_line("event=\"ojs.federation.hold_down\" region=\"eu-west-1\" held=false").await;
    // Reads fail beside enqueues that are stored.
    let answer = FaultAnswer::balancer(http::StatusCode::BAD_GATEWAY);
    stage.regions[0].faults().add(When::path("/ojs/v1/queues"), Fault::Answer { answer, store: false });
    let told = async {
        sidecar.wait_for_line("event=\"ojs.federation.guard\" region=\"us-east-1\" class=\"read\" to=\"open\"").await;
    };
    let fail = async {
        loop {
            assert_eq!(sidecar.client.enqueue(JOB).await.status, 201);
            sidecar.client.get("/ojs/v1/queues/default/jobs?region=us-east-1").await;
        }
    };
    tokio::select! {
        () = told => {}
        () = fail => {}
    }
}

/// Calls until a line of an event says how many it stands for; the ids of the calls, and the lines of the event.
async fn until_lines_stand_for_others(
    sidecar: &Process,
    event: &str,
    call: impl AsyncFn() -> crate::support::Answer,
) -> (Vec<String>, Vec<Value>) {
    let mut sent = Vec::new();
    loop {
        sent.push(call().await.header("x-request-id").unwrap().to_owned());
        let lines: Vec<Value> = json(&sidecar.log()).into_iter().filter(|line| line["event"] == event).collect();
        if lines.last().is_some_and(|line| line["suppressed"].as_u64() > Some(0)) {
            return (sent, lines);
        }
    }
}

#[tokio::test]
async fn a_client_in_a_loop_on_a_dead_pin_writes_few_lines_that_stand_for_all() {
    let stage = Setup::default().regions(2).stage().await;
    stage.regions[1].stop().await;
    let sidecar = run(&stage, &["log.level=info", "log.format=json"]).await;
    let body = r#"{"type":"email.send","queue":"mail","args":["a"],"meta":{"ojs.federation.region":"eu-west-1"}}"#;
    let (sent, lines) =
        until_lines_stand_for_others(&sidecar, "ojs.federation.access", async || sidecar.client.enqueue(body).await)
            .await;
    // One is written last, and every call before it has a line or is counted in one.
    let last = lines.last().unwrap();
    let told = lines.iter().map(|line| 1 + line["suppressed"].as_u64().unwrap_or(0)).sum::<u64>();
    let calls = sent.iter().position(|id| last["request_id"] == **id).unwrap() + 1;
    assert_eq!(told, calls as u64, "{last}");
    assert_eq!(lines.len(), 11, "ten at once, and the first one after that");
    for (field, value) in [
        ("pin", "eu-west-1"),
        ("queue", "mail"),
        ("job_type", "email.send"),
        ("refusal", "region_unavailable"),
        ("level", "WARN"),
    ] {
        assert_eq!(last[field], value, "{last}");
    }
    let refusals = last["refusals"].as_str().unwrap();
    assert!(["eu-west-1:unhealthy", "eu-west-1:breaker_open"].contains(&refusals), "{last}");
}

#[tokio::test]
async fn a_failover_line_stands_for_those_since_the_last_one() {
    let stage = Setup::default().regions(2).yaml("limits: { worker_threads: 1 }").stage().await;
    stage.regions[0].stop().await;
    let sidecar = run(&stage, &["log.level=info", "log.format=json", "log.access=off"]).await;
    let event = "ojs.federation.failover";
    let (sent, lines) = until_lines_stand_for_others(&sidecar, event, async || sidecar.client.enqueue(JOB).await).await;
    let told = lines.iter().map(|line| 1 + line["suppressed"].as_u64().unwrap_or(0)).sum::<u64>();
    assert_eq!(lines.len(), 2, "one at once, and one a second later");
    assert!(told <= sent.len() as u64 && told > 2, "{told} of {}", sent.len());
}

#[tokio::test]
async fn an_unhealthy_region_is_told_with_its_status_and_its_address() {
    let stage = Setup::default().regions(2).yaml("health_check: { interval: 20ms }").stage().await;
    let sidecar = run(&stage, &["log.level=info"]).await;
    let answer = FaultAnswer::balancer(http::StatusCode::BAD_GATEWAY);
    stage.regions[1].faults().add(When::health(), Fault::Answer { answer, store: false });
    sidecar.wait_for_line("event=\"ojs.federation.region_unhealthy\" region=\"eu-west-1\"").await;
    let log = sidecar.log();
    let line = log.iter().find(|line| line.contains("region_unhealthy")).unwrap();
    assert!(line.contains("reason=\"http_status\""), "{line}");
    assert!(line.contains("detail=\"GET /ojs/v1/health answered 502\"") && line.contains("address=\""), "{line}");
}

#[tokio::test]
async fn heads_that_are_no_requests_have_few_lines_without_their_bytes() {
    let stage = Setup::default().regions(1).stage().await;
    let sidecar = run(&stage, &["log.level=info", "log.format=json"]).await;
    let call = async || {
        let mut wire = sidecar.client.wire().await;
        wire.send("GET /secret-path HTTP/1.1\r\nsecret header: x\r\n\r\n").await;
        wire.answer().await
    };
    let (sent, lines) = until_lines_stand_for_others(&sidecar, "ojs.federation.head_refused", call).await;
    let told = lines.iter().map(|line| 1 + line["suppressed"].as_u64().unwrap_or(0)).sum::<u64>();
    let last = lines.last().unwrap();
    let calls = sent.iter().position(|id| last["request_id"] == **id).unwrap() + 1;
    assert_eq!((told, lines.len()), (calls as u64, 11), "{last}");
    assert_eq!((&last["reason"], &last["status"]), (&"malformed".into(), &400.into()));
    assert!(!sidecar.log().iter().any(|line| line.contains("secret")), "{last}");
}
