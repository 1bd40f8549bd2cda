//! The index of the hub names the region of a job, which alone is asked.

use std::fs;

use http::Method;
use ojs_testbed::{Fault, FaultAnswer, When};
use rcgen::{KeyPair, PKCS_ED25519};
use serde_json::json;

use super::{BEA, Bed, why};
use crate::hub::INFO;
use crate::hub::index::recorded;
use crate::hub::ledger;
use crate::hub::stage::{HubStage, post};
use crate::hub::views::regions;
use crate::support::{Process, Setup, pinned};

#[tokio::test]
async fn a_region_that_the_index_names_is_asked_alone_and_the_others_where_it_does_not_have_the_job() {
    let mut hubs = HubStage::new("");
    let section = hubs.section("one").replace("hub: {", "hub: { report_jobs: true,");
    let stage = Setup::default().yaml(&section).stage().await;
    hubs.set_more(&format!("{BEA}index: {{ region: us-east-1 }}\n{}", regions(&stage, |_| None)));
    let _hub = hubs.run().await;
    let sidecar = Process::run(&stage.config, &INFO).await;
    hubs.follows("one").await;
    let bed = Bed { hubs, stage };
    let id = sidecar.client.enqueue(pinned("us-east-1", "a")).await.json()["job"]["id"].as_str().unwrap().to_owned();
    recorded(&bed.hubs, &id, "available").await;
    let looks = || {
        let path = format!("/ojs/v1/jobs/{id}");
        [0, 1, 2].map(|place| bed.stage.regions[place].record().requests_to(&path).len())
    };
    let before = looks();
    let (code, done) = post(&bed.hubs, "ann", &format!("/api/jobs/{id}/cancel"), &why(json!({}))).await;
    assert_eq!((code, &done["job"]["region"]), (200, &"us-east-1".into()), "{done}");
    let after = looks();
    assert_eq!([after[0] - before[0], after[1], after[2]], [2, 0, 0], "a look and the order");
    recorded(&bed.hubs, &id, "cancelled").await;
    // The region has lost it, and another one has a job with this id, of which the index has not heard.
    let answer = FaultAnswer::error_document(http::StatusCode::NOT_FOUND, "not_found");
    bed.stage.regions[0].faults().add(When::lookup(), Fault::Answer { answer, store: false });
    bed.stage.regions[2].put(&format!(r#"{{"id":"{id}","type":"a.b","args":[1 ]}}"#), 1);
    let (code, done) = post(&bed.hubs, "ann", &format!("/api/jobs/{id}/replay"), &why(json!({}))).await;
    assert_eq!((code, &done["job"]["region"]), (200, &"ap-south-1".into()), "{done}");
    assert_eq!(bed.counts(&Method::POST), [1, 0, 1], "the first enqueue, and the new job");
}

#[tokio::test]
async fn arguments_that_the_ledger_knows_otherwise_are_run_again_where_the_order_leaves_it_out() {
    let mut hubs = HubStage::new("");
    let key = hubs.path("audit.key");
    fs::write(&key, KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem()).unwrap();
    let section = hubs.section("one").replace("hub: {", "hub: { report_jobs: true, ledger: metadata,");
    let stage = Setup::default().yaml(&section).stage().await;
    let kept = format!("index: {{ region: us-east-1 }}\nledger: {{}}\naudit: {{ key: {key:?}, log: hub.test }}\n");
    hubs.set_more(&format!("{kept}{}", regions(&stage, |_| None)));
    let _hub = hubs.run().await;
    let sidecar = Process::run(&stage.config, &INFO).await;
    hubs.follows("one").await;
    let id = sidecar.client.enqueue(pinned("us-east-1", "a")).await.json()["job"]["id"].as_str().unwrap().to_owned();
    let copy = ledger::recorded(&hubs, &id, "enqueued").await;
    let known = copy["payloadDigest"].as_str().unwrap();
    // The region writes JSON anew when it is asked.
    let body = format!(r#"{{"job":{{"id":"{id}","state":"available","type":"a.b","args":[ "anew" ]}}}}"#);
    let answer = FaultAnswer { body: body.into(), ..FaultAnswer::page() };
    stage.regions[0].faults().add(When::lookup(), Fault::Answer { answer, store: false });
    let path = format!("/api/jobs/{id}/replay?region=us-east-1");
    for more in [json!({}), json!({ "ledger": "compare" })] {
        let (code, refused) = post(&hubs, "ann", &path, &why(more)).await;
        assert_eq!((code, &refused["error"]["code"]), (409, &"digest_differs".into()), "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(known) && message.contains("--ignore-ledger"), "{message}");
    }
    let (code, done) = post(&hubs, "ann", &path, &why(json!({ "ledger": "ignore" }))).await;
    assert_eq!((code, &done["job"]["step"]), (200, &"replayed".into()), "{done}");
}
