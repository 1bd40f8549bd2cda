//! Calls about several jobs: each region hears of its own ones only, and the answers become one.

use serde_json::json;

use crate::support::{Federation, Setup};

fn pinned(region: &str) -> String {
    json!({ "type": "a", "args": [], "meta": { "ojs.federation.region": region } }).to_string()
}

async fn three(federation: &Federation) -> Vec<String> {
    let mut ids = Vec::new();
    for region in ["ap-south-1", "us-east-1", "eu-west-1"] {
        ids.push(federation.client.enqueue(pinned(region)).await.job_id());
    }
    for region in &federation.regions {
        region.record().clear();
    }
    ids
}

#[tokio::test]
async fn results_of_jobs_in_three_regions_come_in_one_answer_in_the_order_asked_for() {
    let federation = Setup::default().by_the_documents().start().await;
    let ids = three(&federation).await;
    let answer = federation.client.post("/ojs/v1/jobs/results", json!({ "ids": ids }).to_string()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let places: Vec<_> =
        ids.iter().map(|id| memchr::memmem::find(&answer.body, id.as_bytes()).expect("in the answer")).collect();
    assert!(places.is_sorted(), "{places:?} in {:?}", answer.body);
    assert_eq!(answer.json()["results"].as_object().unwrap().len(), 3);
    for (id, place) in ids.iter().zip([2, 0, 1]) {
        assert_eq!(federation.seen(id), [place]);
    }
}

#[tokio::test]
async fn an_id_that_nobody_knows_is_left_out_and_a_region_that_is_down_is_no_answer() {
    let federation = Setup::default().by_the_documents().start().await;
    let mut ids = three(&federation).await;
    ids.push("019461a8-0000-7000-8000-000000000000".to_owned());
    let body = json!({ "ids": ids }).to_string();
    let answer = federation.client.post("/ojs/v1/jobs/results", body.clone()).await;
    assert_eq!((answer.status.as_u16(), answer.json()["results"].as_object().unwrap().len()), (200, 3));
    federation.regions[2].stop().await;
    let answer = federation.client.post("/ojs/v1/jobs/results", body).await;
    answer.check_error(503, "backend_error", "owner_unavailable");
    assert_eq!(answer.region(), "ap-south-1");
}
