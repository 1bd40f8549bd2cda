//! What a request counts, and that it counts nothing else.

use std::collections::BTreeMap;

use http::Request;
use ojs_testbed::{Fault, When};

use super::{JOB, pinned, still};
use crate::support::{Scrape, Setup};

/// What a request moves, beside distributions.
const REQUESTS: &[&str] = &[
    "requests_total",
    "refusals_total",
    "attempts_total",
    "enqueues_total",
    "failovers_total",
    "redirects_total",
    "unknown_outcomes_total",
    "request_duration_seconds_count",
    "overhead_seconds_count",
    "dropped_authorizations_total",
    "client_replicated_from_total",
    "unknown_federation_keys_total",
    "rejected_heads_total",
];

/// Holds that `changes` are exactly these, each by one.
fn check(what: &str, changes: &BTreeMap<String, f64>, expected: &[&str]) {
    let expected: BTreeMap<String, f64> = expected.iter().map(|series| ((*series).to_owned(), 1.0)).collect();
    assert_eq!(changes, &expected, "{what}");
}

#[tokio::test]
async fn a_stored_job_moves_its_request_its_attempt_and_its_enqueue() {
    let federation = still().await;
    let before = Scrape::of(&federation.admin).await;
    assert_eq!(federation.client.enqueue(JOB).await.status, 201);
    let changes = Scrape::of(&federation.admin).await.changes(&before, REQUESTS);
    check(
        "an ordinary job",
        &changes,
        &[
            "attempts_total{class=\"enqueue\",outcome=\"answered\",region=\"us-east-1\"}",
            "enqueues_total{region=\"us-east-1\",strategy=\"affinity\"}",
            "overhead_seconds_count{class=\"enqueue\"}",
            "request_duration_seconds_count{class=\"enqueue\",region=\"us-east-1\"}",
            "requests_total{class=\"enqueue\",status_class=\"2xx\"}",
        ],
    );
    let before = Scrape::of(&federation.admin).await;
    assert_eq!(federation.client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"]}"#).await.status, 200);
    let changes = Scrape::of(&federation.admin).await.changes(&before, REQUESTS);
    check(
        "a fetch",
        &changes,
        &[
            "attempts_total{class=\"worker\",outcome=\"answered\",region=\"us-east-1\"}",
            "overhead_seconds_count{class=\"worker\"}",
            "request_duration_seconds_count{class=\"worker\",region=\"us-east-1\"}",
            "requests_total{class=\"worker\",status_class=\"2xx\"}",
        ],
    );
}

#[tokio::test]
async fn a_dry_run_moves_no_counter_but_its_own_request() {
    let federation = still().await;
    let before = Scrape::of(&federation.admin).await;
    assert_eq!(federation.client.post("/v1/federation/route", pinned("mars")).await.status, 200);
    let changes = Scrape::of(&federation.admin).await.changes(&before, REQUESTS);
    check(
        "a dry run",
        &changes,
        &["overhead_seconds_count{class=\"federation\"}", "requests_total{class=\"federation\",status_class=\"2xx\"}"],
    );
}

#[tokio::test]
async fn each_refusal_is_counted_under_its_own_reason_and_attempts_nothing() {
    let yaml = "limits: { body_bytes: 1KiB }\nrouting: { rules: [{ match: { queue: eu }, target: { regions: [eu-west-1] } }] }";
    let federation = Setup::default().steered().yaml(yaml).start().await;
    let long = format!(r#"{{"type":"t","args":["{}"]}}"#, "a".repeat(2_000));
    let rule = r#"{"type":"t","args":[],"options":{"queue":"eu"},"meta":{"ojs.federation.region":"us-east-1"}}"#;
    let enqueue = |body: &str| (Request::post("/ojs/v1/jobs"), body.to_owned());
    for (reason, status, class, (request, body)) in [
        ("invalid_payload", "4xx", "enqueue", enqueue("{")),
        ("invalid_request", "4xx", "enqueue", enqueue(r#"{"type":"t","args":[],"Meta":{}}"#)),
        ("unknown_region", "4xx", "enqueue", enqueue(&pinned("mars"))),
        ("not_permitted", "4xx", "enqueue", enqueue(rule)),
        ("body_too_large", "4xx", "enqueue", enqueue(&long)),
        (
            "misdirected",
            "4xx",
            "enqueue",
            (Request::post("/ojs/v1/jobs").header("host", "evil.example"), JOB.to_owned()),
        ),
        ("unsupported", "4xx", "other", (Request::put("/ojs/v1/jobs"), pinned("eu-west-1"))),
        ("not_found", "4xx", "other", (Request::get("/nowhere"), String::new())),
        ("invalid_request", "4xx", "federation", (Request::get("/v1/federation/route"), String::new())),
    ] {
        // Reasons that lie in the region of a pin are counted under it.
        let region = match reason {
            "not_permitted" => "us-east-1",
            _ => "none",
        };
        let before = Scrape::of(&federation.admin).await;
        let answer = federation.client.send(request, body).await;
        let changes = Scrape::of(&federation.admin).await.changes(&before, REQUESTS);
        check(
            &format!("{reason}: {answer:?}"),
            &changes,
            &[
                &format!("overhead_seconds_count{{class=\"{class}\"}}"),
                &format!("refusals_total{{reason=\"{reason}\",region=\"{region}\"}}"),
                &format!("requests_total{{class=\"{class}\",status_class=\"{status}\"}}"),
            ],
        );
    }
}

#[tokio::test]
async fn a_failover_counts_where_it_left_and_where_it_went() {
    let federation = Setup::default().steered().yaml("failover: { prefer_regions: [eu-west-1] }").start().await;
    federation.regions[0].stop().await;
    let before = Scrape::of(&federation.admin).await;
    assert_eq!(federation.client.enqueue(JOB).await.status, 201);
    let changes = Scrape::of(&federation.admin).await.changes(&before, REQUESTS);
    check(
        "a refused connection",
        &changes,
        &[
            "attempts_total{class=\"enqueue\",outcome=\"answered\",region=\"eu-west-1\"}",
            "attempts_total{class=\"enqueue\",outcome=\"not_sent\",region=\"us-east-1\"}",
            "enqueues_total{region=\"eu-west-1\",strategy=\"affinity\"}",
            "failovers_total{from_region=\"us-east-1\",reason=\"connect\"}",
            "overhead_seconds_count{class=\"enqueue\"}",
            "redirects_total{region=\"eu-west-1\"}",
            "request_duration_seconds_count{class=\"enqueue\",region=\"eu-west-1\"}",
            "requests_total{class=\"enqueue\",status_class=\"2xx\"}",
        ],
    );
    let connections = Scrape::of(&federation.admin).await.changes(&before, &["connections_total"]);
    check(
        "connections",
        &connections,
        &[
            "connections_total{region=\"eu-west-1\",result=\"established\"}",
            "connections_total{region=\"us-east-1\",result=\"refused\"}",
        ],
    );
}

#[tokio::test]
async fn an_unknown_outcome_is_counted_as_such_and_nowhere_as_stored() {
    let federation = still().await;
    federation.mute(0);
    let before = Scrape::of(&federation.admin).await;
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: true });
    assert_eq!(federation.client.enqueue(JOB).await.status, 500);
    let mut changes = Scrape::of(&federation.admin).await.changes(&before, REQUESTS);
    // The questions for what became of it are tries like others.
    let asked = changes.remove("attempts_total{class=\"job\",outcome=\"answered\",region=\"us-east-1\"}");
    let timed = changes.remove("request_duration_seconds_count{class=\"job\",region=\"us-east-1\"}");
    assert_eq!((asked, timed), (Some(5.0), Some(5.0)));
    check(
        "a cut",
        &changes,
        &[
            "attempts_total{class=\"enqueue\",outcome=\"unknown\",region=\"us-east-1\"}",
            "overhead_seconds_count{class=\"enqueue\"}",
            "refusals_total{reason=\"outcome_unknown\",region=\"none\"}",
            "requests_total{class=\"enqueue\",status_class=\"5xx\"}",
            "unknown_outcomes_total{region=\"us-east-1\"}",
        ],
    );
}

#[tokio::test]
async fn dropped_authorizations_and_clients_replicated_from_are_counted() {
    let federation = still().await;
    let before = Scrape::of(&federation.admin).await;
    let body =
        r#"{"type":"t","args":[],"meta":{"ojs.federation.region":"eu-west-1","ojs.federation.replicated_from":"x"}}"#;
    for body in [body, JOB] {
        let request = Request::post("/ojs/v1/jobs").header("authorization", "Bearer t");
        assert_eq!(federation.client.send(request, body).await.status, 201);
    }
    let families = ["dropped_authorizations_total", "client_replicated_from_total"];
    let changes = Scrape::of(&federation.admin).await.changes(&before, &families);
    check(
        "the remote region only",
        &changes,
        &["client_replicated_from_total", "dropped_authorizations_total{region=\"eu-west-1\"}"],
    );
}

#[tokio::test]
async fn heads_that_are_not_accepted_are_counted_by_why() {
    let federation = Setup::default().regions(1).steered().start().await;
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "a: b\r\n".repeat(200));
    for (reason, head) in [
        ("malformed", "GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"),
        ("version", "GET / HTTP/3.0\r\nHost: localhost\r\n\r\n"),
        ("too_large", many.as_str()),
    ] {
        let before = Scrape::of(&federation.admin).await;
        assert!(federation.client.raw(head.as_bytes()).await.starts_with(b"HTTP/1.1 "), "{reason}");
        let changes = Scrape::of(&federation.admin).await.changes(&before, REQUESTS);
        check(reason, &changes, &[&format!("rejected_heads_total{{reason=\"{reason}\"}}")]);
    }
}
