//! FETCHes that name bounded queues together with others.

use std::time::Duration;

use bytes::Bytes;
use ojs_testbed::{Fault, Gate, JobState, When};
use serde_json::json;
use tokio::task::JoinSet;

use super::super::stage::HubStage;
use super::{FETCH, WORKERS, ack, asked, fetch, jobs, put, shown, sidecar};
use crate::support::{eventually, rises};

#[tokio::test(flavor = "multi_thread")]
async fn slots_go_to_others_where_another_queue_of_the_same_fetches_is_never_empty() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    let region = &federation.regions[0];
    put(&stage, &json!([{ "jobType": "report", "maxActive": 3, "queues": ["reports"] }])).await;
    region.fill("default", 60_000);
    let (mut greedy, mut workers) = (Vec::new(), JoinSet::new());
    for name in ["one", "two", "three"] {
        let process = sidecar(&federation, name).await;
        process.wait_for_line("ojs.federation.hub_quotas_in_force").await;
        for _ in 0..WORKERS {
            let client = process.client;
            workers.spawn(async move {
                loop {
                    let came = jobs(&client.post(FETCH, asked(&["default", "reports"], 5, 600_000)).await);
                    assert!(came.iter().all(|(_, queue)| queue == "default"), "{came:?}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            });
        }
        greedy.push(process);
    }
    rises("the greedy sidecars have the slots", 3, async || {
        usize::try_from(shown(&stage, 0).await["activeGranted"].as_u64().unwrap()).unwrap()
    })
    .await;
    let four = sidecar(&federation, "four").await;
    four.wait_for_line("ojs.federation.hub_quotas_in_force").await;
    region.fill("reports", 1);
    eventually("the fourth sidecar has a slot", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        fetch(&four, &["reports"], 1).await.len() == 1
    })
    .await;
    let ended = workers.try_join_next();
    assert!(ended.is_none(), "a worker had another answer: {ended:?}");
    workers.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_do_not_wait_for_a_region_that_holds_the_second_call() {
    const SHORT: u64 = 15_000;
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    let region = &federation.regions[0];
    put(&stage, &json!([{ "jobType": "report", "maxActive": 1, "queues": ["reports"] }])).await;
    region.fill("reports", 2);
    let one = sidecar(&federation, "one").await;
    one.wait_for_line("ojs.federation.hub_quotas_in_force").await;
    eventually("the slot is granted", async || {
        let came = fetch(&one, &["reports"], 1).await;
        for (id, _) in &came {
            ack(&one, id).await;
        }
        came.len() == 1
    })
    .await;
    let gate = Gate::new();
    region.faults().add(When::path(FETCH).after(1).next(1), Fault::Hold { gate: gate.clone() });
    let came = jobs(&one.client.post(FETCH, asked(&["reports", "default"], 5, SHORT)).await);
    assert_eq!(came.len(), 1, "{came:?}");
    assert_eq!(region.faults().struck(), 1, "the second call was held");
    // A job whose lease had ended would be another worker's.
    let jobs = region.jobs();
    let job = jobs.iter().find(|job| job.id == came[0].0).unwrap();
    assert_eq!(job.state, JobState::Active);
    ack(&one, &came[0].0).await;
    gate.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unclear_fetch_of_queues_that_no_quota_bounds_is_its_regions_to_judge() {
    let stage = HubStage::new("");
    let _hub = stage.run().await;
    let federation = stage.federation("one", "").await;
    let region = &federation.regions[0];
    let is_sent = async |process: &crate::support::Process, body: &'static str| {
        let before = region.record().requests_to(FETCH).len();
        process.client.post(FETCH, Bytes::from(body)).await;
        region.record().requests_to(FETCH).len() > before
    };
    let odd = [
        r#"{"queues":["default"],"count":"many","worker_id":"w"}"#,
        r#"{"queues":["default"],"count":1,"worker_id":"w","visibility_timeout_ms":"3000"}"#,
    ];
    // No queue has shards here, so that the tenant is not bounded.
    put(&stage, &json!([{ "tenant": "acme", "maxActive": 2 }])).await;
    let one = sidecar(&federation, "one").await;
    one.wait_for_line("ojs.federation.hub_quotas_in_force").await;
    for body in odd.into_iter().chain([r#"{"queues":[],"count":1,"worker_id":"w"}"#]) {
        assert!(is_sent(&one, body).await, "{body}");
    }
    put(&stage, &json!([{ "jobType": "report", "maxActive": 2, "queues": ["reports"] }])).await;
    eventually("the other quota is in force", async || {
        !is_sent(&one, r#"{"queues":["reports"],"count":"many","worker_id":"w"}"#).await
    })
    .await;
    for body in odd {
        assert!(is_sent(&one, body).await, "{body}");
    }
    assert!(!is_sent(&one, r#"{"queues":[],"count":1,"worker_id":"w"}"#).await);
    let both = r#"{"queues":["default","reports"],"count":1,"worker_id":"w","visibility_timeout_ms":"3000"}"#;
    assert!(!is_sent(&one, both).await);
}
