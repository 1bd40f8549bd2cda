//! Liveness, readiness and the edges of the admin listener.

use http::{Method, Request};
use ojs_testbed::{Fault, Gate, When};
use serde_json::json;

use crate::support::{Answer, Process, Setup, eventually};

#[tokio::test]
async fn readiness_waits_for_the_first_round_of_probes_and_liveness_does_not() {
    let stage = Setup::default().steered().stage().await;
    let gate = Gate::new();
    stage.regions[2].faults().add(When::health().next(1), Fault::Hold { gate: gate.clone() });
    let federation = stage.launch();
    federation.regions[2].record().wait_for(|record| !record.requests_to("/ojs/v1/health").is_empty()).await;
    eventually("two regions are known", async || {
        federation.health(0) == "healthy" && federation.health(1) == "healthy"
    })
    .await;
    let answer = federation.admin.get("/readyz").await;
    assert_eq!(answer.status, 503, "{answer:?}");
    let body = answer.json();
    assert_eq!((&body["ready"], &body["waiting_for"]), (&json!(false), &json!(["first round of probes"])));
    let region = json!({"id": "ap-south-1", "status": "unknown", "circuit_breaker": "closed", "last_error": null});
    assert_eq!(body["regions"][2], region);
    let live = federation.admin.get("/livez").await;
    assert_eq!((live.status.as_u16(), &live.body[..]), (200, &b"ok\n"[..]));
    gate.open();
    eventually("it is ready", async || federation.admin.get("/readyz").await.status == 200).await;
}

#[tokio::test]
async fn an_outage_of_every_region_does_not_hold_readiness_back() {
    let stage = Setup::default().steered().stage().await;
    for region in &stage.regions {
        region.stop().await;
    }
    let federation = stage.launch();
    let mut answer = None::<Answer>;
    eventually("it is ready", async || {
        answer = Some(federation.admin.get("/readyz").await);
        answer.as_ref().is_some_and(|answer| answer.status == 200)
    })
    .await;
    let body = answer.unwrap().json();
    assert_eq!((&body["ready"], &body["waiting_for"], &body["draining"]), (&json!(true), &json!([]), &json!(false)));
    for place in 0..3 {
        assert_eq!(body["regions"][place]["status"], "unhealthy");
    }
    assert_eq!(federation.client.get("/ojs/v1/health").await.status, 503, "clients are told the truth");
}

#[tokio::test]
async fn readiness_that_requires_a_region_follows_the_regions() {
    let yaml = "readiness: { require_region: true }\nhealth_check: { interval: 20ms }\n\
                circuit_breaker: { failure_threshold: 1000000 }";
    let stage = Setup::default().regions(2).yaml(yaml).stage().await;
    for region in &stage.regions {
        region.stop().await;
    }
    let federation = stage.launch();
    let waits_for = async |what: serde_json::Value| {
        let answer = federation.admin.get("/readyz").await;
        (answer.status == 503) == (what != json!([])) && answer.json()["waiting_for"] == what
    };
    eventually("it waits for a region only", async || waits_for(json!(["a usable region"])).await).await;
    federation.regions[1].resume().await.unwrap();
    eventually("one region is enough", async || waits_for(json!([])).await).await;
    federation.regions[1].stop().await;
    eventually("readiness goes with the last region", async || waits_for(json!(["a usable region"])).await).await;
}

#[tokio::test]
async fn a_drain_turns_readiness_off_and_leaves_liveness_on() {
    let mut federation = Setup::default().steered().start().await;
    federation.begin_drain();
    eventually("it is not ready", async || federation.admin.get("/readyz").await.status == 503).await;
    let body = federation.admin.get("/readyz").await.json();
    assert_eq!((&body["draining"], &body["waiting_for"]), (&json!(true), &json!([])));
    assert_eq!(federation.admin.get("/livez").await.status, 200);
    let scrape = federation.admin.get("/metrics").await;
    assert!(String::from_utf8_lossy(&scrape.body).contains("\nojs_federation_draining 1\n"));
    assert_eq!(federation.client.enqueue(r#"{"type":"t","args":[]}"#).await.status, 201, "it serves on");
}

#[tokio::test]
async fn unknown_paths_are_404_and_other_methods_405_both_in_json() {
    let federation = Setup::default().regions(1).start().await;
    for path in ["/", "/metrics/", "/ready", "/ojs/v1/jobs", "/v1/federation/regions"] {
        let answer = federation.admin.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.header("content-type")), (404, Some("application/json")), "{path}");
        let error = &answer.json()["error"];
        assert_eq!(error["code"], "not_found");
        assert!(error["message"].as_str().unwrap().contains("/metrics, /livez and /readyz"));
    }
    for (method, path) in [(Method::POST, "/metrics"), (Method::DELETE, "/livez"), (Method::PUT, "/readyz")] {
        let answer = federation.admin.call(method, path, "{}").await;
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, Some("GET, HEAD")), "{path}");
        assert_eq!(answer.json()["error"]["code"], "invalid_request");
    }
    let head = federation.admin.call(Method::HEAD, "/metrics", "").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(head.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let query = federation.admin.get("/livez?verbose=1").await;
    assert_eq!((query.status.as_u16(), query.header("cache-control")), (200, Some("no-store")));
}

#[tokio::test]
async fn any_host_may_scrape_because_pods_are_scraped_by_address() {
    let federation = Setup::default().regions(1).start().await;
    let request = Request::get("/livez").header("host", "10.1.2.3:9464");
    assert_eq!(federation.admin.send(request, "").await.status, 200);
}

#[tokio::test]
async fn readiness_of_a_process_is_told_in_its_log_once() {
    let stage = Setup::default().stage().await;
    let sidecar = Process::run(&stage.config, &["--set", "log.level=info"]).await;
    sidecar.wait_for_line("ojs.federation.ready").await;
    assert_eq!(sidecar.log().iter().filter(|line| line.contains("event=\"ojs.federation.ready\"")).count(), 1);
}
