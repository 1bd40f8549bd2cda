//! Calls about one worker reach the regions that know it, not the one that happens to be local.

use http::{Method, StatusCode};
use ojs_testbed::{Dialect, Fault, FaultAnswer, When};
use serde_json::json;

use crate::support::{Federation, Setup};

const WORKERS: &str = "/ojs/v1/admin/workers";

/// Three regions, and a worker that beats in `eu-west-1` only, by a sidecar that is not ours.
async fn elsewhere(dialect: Dialect) -> Federation {
    let setup = if dialect == Dialect::Spec { Setup::default().by_the_documents() } else { Setup::default() };
    let federation = setup.start().await;
    let beside = federation.sidecar_in("eu-west-1", &[]).await;
    beat(&beside.client).await;
    federation
}

async fn beat(client: &crate::support::Client) -> String {
    let body = json!({ "worker_id": "w1", "active_jobs": [] }).to_string();
    let answer = client.post(super::BEAT, body).await.json();
    answer["directive"].as_str().or(answer["state"].as_str()).unwrap().to_owned()
}

fn quiets(federation: &Federation) -> Vec<usize> {
    federation.calls(&format!("{WORKERS}/w1/quiet"))
}

#[tokio::test]
async fn a_worker_is_made_quiet_in_the_region_that_lists_it_and_in_no_other() {
    for dialect in [Dialect::Reference, Dialect::Spec] {
        let federation = elsewhere(dialect).await;
        let answer = federation.client.post(&format!("{WORKERS}/w1/quiet"), "").await;
        assert_eq!((answer.status.as_u16(), answer.region()), (200, "eu-west-1"), "{answer:?}");
        assert_eq!(answer.json()["state"], "quiet");
        assert_eq!(quiets(&federation), [0, 1, 0], "{dialect:?}");
        let beside = federation.sidecar_in("eu-west-1", &[]).await;
        assert_eq!(beat(&beside.client).await, "quiet", "the worker hears of it");
    }
}

#[tokio::test]
async fn a_worker_is_shown_and_removed_where_it_is() {
    let federation = elsewhere(Dialect::Spec).await;
    for path in [format!("{WORKERS}/w1"), "/ojs/v1/workers/w1/health".to_owned()] {
        let shown = federation.client.get(&path).await;
        assert_eq!((shown.status.as_u16(), shown.region()), (200, "eu-west-1"), "{path}: {shown:?}");
        assert!(shown.json().get("x-ojs-federation").is_none(), "one region's answer stays as it is");
    }
    let removed = federation.client.call(Method::DELETE, &format!("{WORKERS}/w1"), "").await;
    assert_eq!((removed.status, removed.region()), (StatusCode::NO_CONTENT, "eu-west-1"));
    assert_eq!(federation.client.get(&format!("{WORKERS}/w1")).await.status, 404);
}

#[tokio::test]
async fn a_worker_that_beats_in_two_regions_is_made_quiet_in_both() {
    let federation = elsewhere(Dialect::Spec).await;
    let beside = federation.sidecar_in("ap-south-1", &[]).await;
    beat(&beside.client).await;
    let answer = federation.client.post(&format!("{WORKERS}/w1/quiet"), "").await;
    assert_eq!((answer.status.as_u16(), answer.region()), (200, "eu-west-1, ap-south-1"), "{answer:?}");
    assert_eq!(quiets(&federation), [0, 1, 1]);
    let fault = FaultAnswer::error_document(StatusCode::INTERNAL_SERVER_ERROR, "scripted");
    let when = When::path(&format!("{WORKERS}/w1/quiet"));
    federation.regions[2].faults().add(when, Fault::Answer { answer: fault, store: false });
    let answer = federation.client.post(&format!("{WORKERS}/w1/quiet"), "").await;
    let error = answer.check_error(503, "backend_error", "regions_missing");
    assert_eq!(
        (&error["details"]["followed"], &error["details"]["missing"]),
        (&json!(["eu-west-1"]), &json!(["ap-south-1"]))
    );
}

#[tokio::test]
async fn a_word_for_a_worker_that_no_region_knows_goes_to_all_once_all_have_said_so() {
    let federation = elsewhere(Dialect::Spec).await;
    let answer = federation.client.post(&format!("{WORKERS}/w2/quiet"), "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(federation.calls(&format!("{WORKERS}/w2/quiet")), [1, 1, 1]);
    federation.regions[2].stop().await;
    federation.client.post(&format!("{WORKERS}/w3/quiet"), "").await.check_error(
        503,
        "backend_error",
        "owner_unavailable",
    );
    assert_eq!(federation.calls(&format!("{WORKERS}/w3/quiet")), [0, 0, 0]);
    // Where a region knows the worker, one that is down is named.
    let answer = federation.client.post(&format!("{WORKERS}/w1/quiet"), "").await;
    let partial = answer.header("ojs-federation-partial");
    assert_eq!((answer.status.as_u16(), answer.region(), partial), (200, "eu-west-1", Some("ap-south-1")));
}
