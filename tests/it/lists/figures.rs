//! Figures of all regions are added up, and every region's own stand beside the sum.

use http::{Method, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, JobState, When};
use serde_json::json;

use super::{dead_letters, fill};
use crate::support::Setup;

#[tokio::test]
async fn statistics_are_summed_with_every_regions_own_beside_them() {
    let federation = Setup::default().by_the_documents().start().await;
    fill(&federation, [3, 4, 5]);
    let answer = federation.client.get("/ojs/v1/admin/stats").await;
    assert_eq!((answer.status.as_u16(), answer.header("ojs-federation-partial")), (200, None));
    let sum = answer.json();
    assert_eq!((&sum["queues"], &sum["jobs"]["available"]), (&json!(3), &json!(12)));
    for (region, available) in [("us-east-1", 3), ("eu-west-1", 4), ("ap-south-1", 5)] {
        assert_eq!(sum["x-ojs-federation"]["regions"][region]["jobs"]["available"], available);
    }
    let answer = FaultAnswer::balancer(StatusCode::OK);
    federation.regions[2].faults().add(When::path("/ojs/v1/admin"), Fault::Answer { answer, store: false });
    let answer = federation.client.get("/ojs/v1/admin/stats").await;
    assert_eq!((answer.header("ojs-federation-partial"), &answer.json()["queues"]), (Some("ap-south-1"), &json!(2)));
    federation.regions[2].stop().await;
    let answer = federation.client.get("/ojs/v1/admin/stats").await;
    assert_eq!(
        (answer.header("ojs-federation-partial"), &answer.json()["jobs"]["available"]),
        (Some("ap-south-1"), &json!(7))
    );
    let one = federation.client.get("/ojs/v1/admin/stats?region=eu-west-1").await;
    assert_eq!((one.region(), &one.json()["jobs"]["available"]), ("eu-west-1", &json!(4)));
    federation.regions[0].stop().await;
    federation.regions[1].stop().await;
    federation.client.get("/ojs/v1/admin/stats").await.check_error(503, "backend_error", "owner_unavailable");
}

#[tokio::test]
async fn dead_letters_of_all_regions_are_counted_and_retried_and_a_region_that_did_not_follow_is_named() {
    let federation = Setup::default().by_the_documents().start().await;
    dead_letters(&federation, [1, 0, 1]).await;
    let dead = |place: usize| federation.regions[place].jobs().count_in(JobState::Discarded);
    let listed = federation.client.get("/ojs/v1/dead-letter?limit=1").await.json();
    assert_eq!((&listed["pagination"]["total"], &listed["pagination"]["has_more"]), (&json!(2), &json!(true)));
    let counted = federation.client.get("/ojs/v1/dead-letter/stats").await.json();
    assert_eq!(counted["x-ojs-federation"]["regions"].as_object().unwrap().len(), 3, "{counted}");
    let all = json!({ "filter": { "queue": "q" }, "confirm": true }).to_string();
    federation.regions[2].stop().await;
    let answer = federation.client.post("/ojs/v1/dead-letter/retry", all.clone()).await;
    let error = answer.check_error(503, "backend_error", "regions_missing");
    assert_eq!(error["details"]["followed"], json!(["us-east-1", "eu-west-1"]));
    assert_eq!(error["details"]["missing"], json!(["ap-south-1"]));
    assert_eq!((dead(0), dead(2)), (0, 1));
    federation.regions[2].resume().await.unwrap();
    let answer = federation.client.post("/ojs/v1/dead-letter/retry", all.clone()).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["total_matched"]), (200, &json!(1)), "{answer:?}");
    assert_eq!((dead(0), dead(2)), (0, 0));
    let deleted = federation.client.call(Method::DELETE, "/ojs/v1/dead-letter", all).await;
    assert_eq!((deleted.status, &deleted.json()["total_matched"]), (StatusCode::OK, &json!(0)), "{deleted:?}");
}

#[tokio::test]
async fn dead_letters_of_all_regions_are_retried_and_deleted_by_the_administration_too() {
    let body = json!({ "filter": {}, "confirm": true }).to_string();
    for (method, path) in
        [(Method::POST, "/ojs/v1/admin/dead-letter/retry"), (Method::DELETE, "/ojs/v1/admin/dead-letter")]
    {
        let federation = Setup::default().by_the_documents().start().await;
        dead_letters(&federation, [1, 2, 1]).await;
        let listed = federation.client.get("/ojs/v1/admin/dead-letter").await.json();
        assert_eq!(listed["pagination"]["total"], 4);
        let answer = federation.client.call(method.clone(), path, body.clone()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let left = federation.client.get("/ojs/v1/admin/dead-letter").await.json();
        assert_eq!(left["pagination"]["total"], 0, "{method} {path}: {answer:?}");
        federation.regions[2].stop().await;
        let answer = federation.client.call(method, path, body.clone()).await;
        let error = answer.check_error(503, "backend_error", "regions_missing");
        assert_eq!(error["details"]["missing"], json!(["ap-south-1"]));
    }
}

#[tokio::test]
async fn maintenance_is_set_in_all_regions_and_shown_while_it_is_on_in_one() {
    const PATH: &str = "/ojs/v1/admin/system/maintenance";
    let federation = Setup::default().by_the_documents().start().await;
    let set = async |enabled: bool, region: &str| {
        let body = json!({ "enabled": enabled }).to_string();
        federation.client.call(Method::PUT, &format!("{PATH}{region}"), body).await
    };
    let shown = async || federation.client.get(PATH).await.json();
    let answer = set(true, "").await;
    assert_eq!((answer.status.as_u16(), answer.region(), &answer.json()["enabled"]), (200, "us-east-1", &json!(true)));
    for region in crate::support::IDS {
        assert_eq!(shown().await["x-ojs-federation"]["regions"][region]["enabled"], true);
    }
    assert_eq!(set(false, "").await.status, 200);
    assert_eq!(shown().await["enabled"], false);
    assert_eq!(set(true, "?region=eu-west-1").await.status, 200);
    let now = shown().await;
    assert_eq!(
        (&now["enabled"], &now["x-ojs-federation"]["regions"]["us-east-1"]["enabled"]),
        (&json!(true), &json!(false))
    );
    federation.regions[2].stop().await;
    set(false, "").await.check_error(503, "backend_error", "regions_missing");
}

#[tokio::test]
async fn the_history_of_figures_is_added_up_time_by_time() {
    let federation = Setup::default().start().await;
    let history = [
        r#"{"period":"1h","data":[{"timestamp":"2026-01-01T10:00:00Z","completed":1},{"timestamp":"2026-01-01T11:00:00Z","completed":2}]}"#,
        r#"{"period":"1h","data":[{"timestamp":"2026-01-01T09:00:00Z","completed":4},{"timestamp":"2026-01-01T10:00:00Z","completed":5}]}"#,
    ];
    for (place, body) in history.into_iter().enumerate() {
        let mut answer = FaultAnswer::error_document(StatusCode::OK, "scripted");
        answer.body = body.into();
        federation.regions[place]
            .faults()
            .add(When::path("/ojs/v1/admin/stats/"), Fault::Answer { answer, store: false });
    }
    // A region whose server has no history.
    let answer = FaultAnswer::error_document(StatusCode::NOT_FOUND, "not_found");
    federation.regions[2].faults().add(When::path("/ojs/v1/admin/stats/"), Fault::Answer { answer, store: false });
    let answer = federation.client.get("/ojs/v1/admin/stats/history?period=1h").await.json();
    let expected = json!([
        { "timestamp": "2026-01-01T09:00:00Z", "completed": 4 },
        { "timestamp": "2026-01-01T10:00:00Z", "completed": 6 },
        { "timestamp": "2026-01-01T11:00:00Z", "completed": 2 },
    ]);
    assert_eq!((&answer["period"], &answer["data"]), (&json!("1h"), &expected), "{answer}");
}

#[tokio::test]
async fn a_queue_is_not_found_only_when_every_region_has_said_so() {
    let federation = Setup::default().by_the_documents().start().await;
    let calls = [
        (Method::GET, "/ojs/v1/queues/q/stats"),
        (Method::GET, "/ojs/v1/queues/q/jobs"),
        (Method::POST, "/ojs/v1/queues/q/pause"),
    ];
    let says = |place: usize, status: StatusCode| {
        let answer = FaultAnswer::error_document(status, "scripted");
        federation.regions[place].faults().add(When::path("/ojs/v1/queues/q/"), Fault::Answer { answer, store: false });
    };
    says(0, StatusCode::NOT_FOUND);
    [1, 2].into_iter().for_each(|place| says(place, StatusCode::INTERNAL_SERVER_ERROR));
    for (method, path) in &calls {
        let answer = federation.client.call(method.clone(), path, "").await;
        assert_eq!((answer.status.as_u16(), answer.region()), (500, "eu-west-1"), "{method} {path}: {answer:?}");
    }
    [1, 2].into_iter().for_each(|place| federation.regions[place].faults().clear());
    says(1, StatusCode::NOT_FOUND);
    says(2, StatusCode::NOT_FOUND);
    for (method, path) in &calls {
        let answer = federation.client.call(method.clone(), path, "").await;
        assert_eq!((answer.status.as_u16(), answer.region()), (404, "us-east-1"), "{method} {path}: {answer:?}");
    }
    federation.regions[2].stop().await;
    for (method, path) in &calls {
        let answer = federation.client.call(method.clone(), path, "").await;
        assert_eq!(answer.status, 503, "{method} {path}: {answer:?}");
    }
}
