//! `GET regions` and `GET health`, their other names, and what is no such path.

use http::Method;
use ojs_testbed::{Fault, When};
use serde_json::{Value, json};

use super::{PREFIXES, members, ours};
use crate::support::{Federation, IDS, Setup};

async fn get(federation: &Federation, path: &str) -> Value {
    let answer = federation.client.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    ours(&answer);
    answer.json()
}

fn unwell(federation: &Federation, place: usize) {
    let fault = Fault::LyingHealth { status_text: "degraded".to_owned() };
    federation.regions[place].faults().add(When::health(), fault);
}

#[tokio::test]
async fn regions_lists_the_registry_with_its_health() {
    let federation = Setup::default().steered().start().await;
    let document = get(&federation, "/v1/federation/regions").await;
    assert_eq!(members(&document), ["cut_off", "federation_id", "regions", "topology"]);
    assert_eq!((&document["topology"], &document["cut_off"]), (&json!("mesh"), &json!(false)));
    assert_eq!(document["federation_id"], "test");
    let regions = document["regions"].as_array().unwrap();
    assert_eq!(regions.len(), 3);
    for ((region, id), demo) in regions.iter().zip(IDS).zip(&federation.regions) {
        assert_eq!(
            members(region),
            [
                "circuit_breaker",
                "cut_off",
                "health_source",
                "id",
                "in_flight",
                "is_hub",
                "last_error",
                "last_health_check",
                "latency_ms",
                "latency_us",
                "local",
                "next_health_check",
                "source",
                "status",
                "switch",
                "tags",
                "url",
                "weight"
            ]
        );
        assert_eq!((region["id"].as_str(), region["url"].as_str()), (Some(id), Some(demo.url().as_str())));
        assert_eq!((&region["status"], &region["circuit_breaker"]), (&json!("healthy"), &json!("closed")));
        assert_eq!(region["source"], "static");
        assert_eq!(region["last_health_check"], "2027-01-15T08:00:00.000Z");
        assert!(region["latency_ms"].is_u64(), "{region}");
    }
}

#[tokio::test]
async fn a_region_that_never_answered_has_no_latency_and_one_with_an_open_breaker_is_unhealthy() {
    let federation = Setup::default().steered().region(1, "url: https://localhost:1").start().await;
    let region = &get(&federation, "/v1/federation/regions").await["regions"][1];
    assert_eq!((&region["status"], &region["latency_ms"]), (&json!("unhealthy"), &Value::Null));
    assert_eq!(region["circuit_breaker"], "closed");
    federation.advance_until("the breaker opens", || federation.breaker(1) == "open").await;
    let region = &get(&federation, "/v1/federation/regions").await["regions"][1];
    assert_eq!((&region["status"], &region["circuit_breaker"]), (&json!("unhealthy"), &json!("open")));
}

#[tokio::test]
async fn an_unhealthy_region_has_no_latency_in_milliseconds() {
    let federation = Setup::default().steered().start().await;
    assert!(get(&federation, "/v1/federation/regions").await["regions"][1]["latency_ms"].is_u64());
    unwell(&federation, 1);
    federation.advance_until_health(1, "unhealthy").await;
    let region = &get(&federation, "/v1/federation/regions").await["regions"][1];
    assert_eq!((&region["status"], &region["latency_ms"]), (&json!("unhealthy"), &Value::Null));
}

#[tokio::test]
async fn health_is_healthy_degraded_or_unhealthy_and_always_200() {
    let federation = Setup::default().steered().start().await;
    for (down, word) in ["healthy", "degraded", "degraded", "unhealthy"].into_iter().enumerate() {
        if let Some(place) = down.checked_sub(1) {
            unwell(&federation, place);
            federation.advance_until_health(place, "unhealthy").await;
        }
        let document = get(&federation, "/v1/federation/health").await;
        assert_eq!(members(&document), ["healthy_regions", "regions", "self_suspect", "status", "total_regions"]);
        assert_eq!((&document["status"], &document["self_suspect"]), (&json!(word), &json!(false)));
        assert_eq!((&document["healthy_regions"], &document["total_regions"]), (&json!(3 - down), &json!(3)));
        for (place, region) in document["regions"].as_array().unwrap().iter().enumerate() {
            let status = if place < down { "unhealthy" } else { "healthy" };
            assert_eq!(*region, json!({ "id": IDS[place], "status": status, "replication_lag_ms": null }));
        }
    }
    for place in 0..3 {
        federation.regions[place].faults().clear();
        federation
            .advance_until("a recovery", || {
                federation.health(place) == "healthy" && federation.breaker(place) == "closed"
            })
            .await;
    }
    assert_eq!(get(&federation, "/v1/federation/health").await["status"], "healthy");
}

#[tokio::test]
async fn the_api_answers_under_each_of_its_names() {
    let federation = Setup::default().steered().start().await;
    let regions = get(&federation, "/v1/federation/regions").await;
    let health = get(&federation, "/v1/federation/health").await;
    for prefix in PREFIXES {
        assert_eq!(get(&federation, &format!("{prefix}/regions")).await, regions);
        assert_eq!(get(&federation, &format!("{prefix}/regions?pretty")).await, regions);
        assert_eq!(get(&federation, &format!("{prefix}/health")).await, health);
        let route = federation.client.post(&format!("{prefix}/route"), r#"{"type":"t"}"#).await;
        assert_eq!(route.json()["target_region"], "us-east-1");
        let head = federation.client.call(Method::HEAD, &format!("{prefix}/regions"), "").await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    }
    assert_eq!(get(&federation, "/ojs/federation/backends").await, regions);
    assert!(federation.seen("/federation").is_empty(), "nothing of this is a region's to answer");
}

#[tokio::test]
async fn another_method_is_405_with_allow_and_another_path_404() {
    let federation = Federation::start().await;
    for prefix in PREFIXES {
        for (method, path, allow) in [
            (Method::POST, "regions", "GET, HEAD"),
            (Method::DELETE, "regions", "GET, HEAD"),
            (Method::PUT, "health", "GET, HEAD"),
            (Method::OPTIONS, "health", "GET, HEAD"),
            (Method::GET, "route", "POST"),
            (Method::PUT, "route", "POST"),
        ] {
            let answer = federation.client.call(method.clone(), &format!("{prefix}/{path}"), "").await;
            let error = answer.check_error(405, "invalid_request", "method_not_allowed");
            assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
            assert_eq!(error["details"]["allow"], allow);
        }
        for path in ["x", "regions/us-east-1", "route/x"] {
            let answer = federation.client.get(&format!("{prefix}/{path}")).await;
            answer.check_error(404, "not_found", "no_such_path");
            assert_eq!(answer.header("allow"), None);
        }
    }
    for path in ["/", "/v1/federation", "/v1/jobs", "/x/../v1/federation"] {
        federation.client.get(path).await.check_error(404, "not_found", "no_such_path");
    }
    assert!(federation.seen("/federation").is_empty());
}
