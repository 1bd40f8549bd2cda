//! Sidecars whose regions are sidecars: chains, and circles, which come to an end.

use std::path::{Path, PathBuf};

use http::{Method, Request};
use ojs_testbed::{DemoRegion, FaultAnswer, RegionOptions, When};
use serde_json::json;

use crate::support::{Answer, Client, Federation, Process, Scrape, Setup, eventually, job};

const HOPS: &str = "ojs-federation-hops";

/// The file of a sidecar whose only region is there.
fn config(dir: &Path, name: &str, region: &str) -> PathBuf {
    let path = dir.join(name);
    let yaml = format!(
        "local_region: us-east-1\ninsecure_dev: true\nlisten: {{ clients: [\"127.0.0.1:0\"], admin: \"127.0.0.1:0\" }}\n\
         shutdown: {{ drain_idle: 0s }}\nmetrics: {{ detail: full }}\nfailover: {{ retry_budget: {{ ratio: 0, floor: 0 }} }}\n\
         regions:\n- id: us-east-1\n  url: {region}\n"
    );
    std::fs::write(&path, yaml).unwrap();
    path
}

async fn sidecar(dir: &Path, name: &str, region: &str) -> Process {
    Process::run(&config(dir, name, region), &["--set", "log.level=info"]).await
}

fn url(sidecar: &Process) -> String {
    format!("http://{}", sidecar.client_address)
}

/// The counts on the calls that a region has received, probes aside.
fn counts(region: &DemoRegion) -> Vec<String> {
    let calls = region.record().requests().into_iter().filter(|it| it.path != "/ojs/v1/health");
    calls.map(|it| it.headers.get_all(HOPS).iter().map(|count| count.to_str().unwrap()).collect()).collect()
}

#[track_caller]
fn check_refused(answer: &Answer, hops: u16) {
    let error = answer.check_error(508, "backend_error", "too_many_hops");
    assert_eq!(error["details"]["hops"], hops);
    assert_eq!(answer.header(HOPS), None);
}

async fn with_hops(client: &Client, hops: &[&str], name: &str) -> Answer {
    let request = Request::post("/ojs/v1/jobs");
    client.send(hops.iter().fold(request, |request, hops| request.header(HOPS, *hops)), job(name)).await
}

#[tokio::test]
async fn a_chain_of_three_sidecars_is_passed_and_one_of_four_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let region = DemoRegion::start(RegionOptions::new("us-east-1")).await.unwrap();
    let mut chain = vec![sidecar(dir.path(), "1.yaml", &region.url()).await];
    for name in ["2.yaml", "3.yaml", "4.yaml"] {
        chain.push(sidecar(dir.path(), name, &url(chain.last().unwrap())).await);
    }
    for (sidecar, count) in chain.iter().zip(["1", "2", "3"]) {
        region.record().clear();
        let answer = sidecar.client.enqueue(job(&format!("through-{count}"))).await;
        assert_eq!((answer.status.as_u16(), answer.header(HOPS)), (201, None), "{answer:?}");
        assert_eq!(counts(&region), [count]);
    }
    region.record().clear();
    let client = &chain[3].client;
    check_refused(&client.enqueue(job("too-far")).await, 3);
    check_refused(&client.get("/ojs/v1/queues").await, 3);
    check_refused(&client.get("/ojs/v1/webhooks/subscriptions").await, 3);
    check_refused(&client.post("/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#).await, 3);
    assert_eq!(counts(&region), [""; 0]);
    for sidecar in &chain {
        let scrape = Scrape::of(&sidecar.admin).await;
        let closed = scrape.value("breaker_state{region=\"us-east-1\",state=\"closed\"}");
        assert_eq!(closed, 1.0, "a loop is nobody's failure");
    }
}

#[tokio::test]
async fn a_sidecar_that_is_its_own_region_ends_the_circle_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let region = DemoRegion::start(RegionOptions::new("us-east-1")).await.unwrap();
    let sidecar = sidecar(dir.path(), "circle.yaml", &region.url()).await;
    config(dir.path(), "circle.yaml", &url(&sidecar));
    sidecar.wait_for_line("ojs.federation.configuration_reloaded").await;
    let before = Scrape::of(&sidecar.admin).await;
    check_refused(&sidecar.client.get("/ojs/v1/webhooks/subscriptions").await, 3);
    // By its id or key, a job is seen to have come back; it neither waits for itself nor counts as a repetition.
    check_refused(&sidecar.client.enqueue(job("round")).await, 2);
    let keyed = Request::post("/ojs/v1/jobs").header("idempotency-key", "k");
    check_refused(&sidecar.client.send(keyed, job("round")).await, 1);
    let batch = json!({ "jobs": [{ "type": "t", "args": [] }, { "type": "t", "args": [] }] });
    check_refused(&sidecar.client.post("/ojs/v1/jobs/batch", batch.to_string()).await, 3);
    let after = Scrape::of(&sidecar.admin).await;
    let changes = after.changes(&before, &["attempts_total", "refusals_total", "retry_budget_available"]);
    let attempts =
        |class: &str| format!("attempts_total{{class=\"{class}\",outcome=\"answered\",region=\"us-east-1\"}}");
    let expected = [
        (attempts("enqueue"), 3.0),
        (attempts("create"), 3.0),
        (attempts("list"), 3.0),
        ("refusals_total{reason=\"too_many_hops\",region=\"none\"}".to_owned(), 4.0),
        // Each arrival of a call that was forwarded costs one, below the limit.
        ("retry_budget_available".to_owned(), -7.0),
    ];
    assert_eq!(changes, expected.into());
    assert_eq!(counts(&region), [""; 0]);
}

#[tokio::test]
async fn every_call_that_is_made_of_a_clients_says_how_many_sidecars_it_has_passed() {
    let federation = Setup::default().steered().start().await;
    let client = &federation.client;
    let id = client.enqueue(job("a")).await.job_id();
    let calls = [
        (Method::POST, "/ojs/v1/jobs/batch", r#"{"jobs":[{"type":"t","args":[]}]}"#.to_owned()),
        (Method::POST, "/ojs/v1/workflows", r#"{"name":"w","steps":[{"id":"s","type":"t","args":[]}]}"#.to_owned()),
        (Method::POST, "/ojs/v1/cron", r#"{"name":"c","cron":"0 0 1 1 *","type":"t","args":[]}"#.to_owned()),
        (Method::POST, "/ojs/v1/workers/fetch", r#"{"queues":["default"],"worker_id":"w"}"#.to_owned()),
        (Method::POST, "/ojs/v1/workers/heartbeat", r#"{"worker_id":"w","active_jobs":[]}"#.to_owned()),
        (Method::POST, "/ojs/v1/workers/ack", json!({ "job_id": id }).to_string()),
        (Method::POST, "/ojs/v1/workers/ack", r#"{"job_id":"0190a2b4-7c1e-7000-8000-000000000000"}"#.to_owned()),
        (Method::GET, "/ojs/v1/jobs/0190a2b4-7c1e-7000-8000-000000000001", String::new()),
        (Method::GET, "/ojs/v1/queues", String::new()),
        (Method::GET, "/ojs/v1/dead-letter", String::new()),
        (Method::GET, "/ojs/manifest", String::new()),
        (Method::POST, "/ojs/v1/queues/q/pause", String::new()),
        (Method::POST, "/ojs/v1/any/other", "{}".to_owned()),
        (Method::GET, "/ojs/v1/events/stream?channel=job:none", String::new()),
    ];
    for (method, path, body) in calls {
        let before: usize = federation.regions.iter().map(|region| counts(region).len()).sum();
        let answer = client.call(method.clone(), path, body).await;
        assert_eq!(answer.header(HOPS), None, "{path}");
        let after: usize = federation.regions.iter().map(|region| counts(region).len()).sum();
        assert!(after > before, "{path} has reached no region: {answer:?}");
    }
    // One that is not counted, if a client could have it removed, would not end a circle.
    let stripped = Request::post("/ojs/v1/jobs").header("connection", HOPS);
    assert_eq!(client.send(stripped, job("b")).await.status, 201);
    for region in &federation.regions {
        assert!(counts(region).iter().all(|count| count == "1"), "{:?}", counts(region));
    }
}

#[tokio::test]
async fn a_websocket_says_how_many_sidecars_it_has_passed() {
    let federation = Federation::start().await;
    let mut wire = federation.client.wire().await;
    let offer = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOJS-Federation-Hops: 1\r\n";
    wire.send(format!("GET /ojs/v1/ws HTTP/1.1\r\nHost: localhost\r\n{offer}\r\n")).await;
    let _ = wire.head().await;
    assert_eq!(counts(&federation.regions[0]), ["2"]);
}

#[tokio::test]
async fn a_count_that_cannot_be_read_is_refused_and_one_at_the_limit_reaches_no_region() {
    let federation = Setup::default().steered().yaml("limits: { hops: 2 }").start().await;
    for hops in [&["two"][..], &[""], &["-1"], &["1.5"], &["1000"], &["99999999999999999999"], &["1, 1"], &["1", "1"]] {
        let answer = with_hops(&federation.client, hops, "unreadable").await;
        let error = answer.check_error(400, "invalid_request", "hops_unreadable");
        assert_eq!(error["details"]["field"], "OJS-Federation-Hops", "{hops:?}");
    }
    for hops in ["2", "3", "999"] {
        with_hops(&federation.client, &[hops], "circling").await.check_error(508, "backend_error", "too_many_hops");
    }
    assert_eq!((federation.seen("unreadable"), federation.seen("circling")), (vec![], vec![]));
    for hops in ["0", "1", "01"] {
        assert_eq!(with_hops(&federation.client, &[hops], "fine").await.status, 201);
    }
    assert_eq!(counts(&federation.regions[0]), ["1", "2", "2"]);
    // What the sidecar answers itself goes nowhere.
    for path in ["/ojs/v1/health", "/v1/federation/regions"] {
        assert_eq!(federation.client.send(Request::get(path).header(HOPS, "9"), "").await.status, 200);
    }
}

#[tokio::test]
async fn forwarded_calls_draw_on_the_retry_budget_and_pass_when_it_is_empty() {
    let setup = Setup::default().steered().yaml("failover: { retry_budget: { ratio: 0, floor: 0 } }");
    let federation = setup.start().await;
    let available = async || Scrape::of(&federation.admin).await.value("retry_budget_available");
    assert_eq!(federation.client.enqueue(job("own")).await.status, 201);
    assert_eq!(available().await, 10.0, "a client's own call costs nothing");
    for left in [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0, 0.0, 0.0] {
        assert_eq!(with_hops(&federation.client, &["1"], "forwarded").await.status, 201);
        assert_eq!(available().await, left);
    }
}

#[tokio::test]
async fn a_region_that_echoes_the_count_does_not_show_it_to_the_client() {
    let federation = Federation::start().await;
    let answer = FaultAnswer::balancer(http::StatusCode::OK).header(HOPS, "1");
    let fault = ojs_testbed::Fault::Answer { answer, store: false };
    federation.regions[0].faults().add(When::always(), fault);
    for path in ["/ojs/v1/webhooks/subscriptions", "/ojs/v1/jobs/x"] {
        assert_eq!(federation.client.get(path).await.header(HOPS), None, "{path}");
    }
    eventually("the region was asked", async || !counts(&federation.regions[0]).is_empty()).await;
}
