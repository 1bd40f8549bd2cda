//! Queues that hold jobs of a stopped type alone: they are left out of FETCH, and one job of them is the probe.

use serde_json::Value;

use super::super::stage::HubStage;
use super::{FETCH, Receiver, ended, enqueued, federation, fetched, job, only, rows, says, settings, sidecar};
use crate::support::{Stage, eventually};

/// The queues that the FETCH calls to the region have named since the last look.
fn asked(federation: &Stage) -> Vec<Vec<String>> {
    let record = federation.regions[0].record();
    let calls = record.requests_to(FETCH);
    record.clear();
    let queues = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap()["queues"].clone();
    calls.iter().map(|it| serde_json::from_value(queues(&it.body)).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_a_stopped_type_alone_gives_one_job_over_the_kill_of_the_hub() {
    let (mut stage, receiver) = (HubStage::new(""), Receiver::start().await);
    stage.set_more(&settings("tenant: acme, queues: [mails]", &receiver.url));
    let mut hub = stage.run().await;
    let federation = federation(&stage).await;
    let one = sidecar(&stage, &federation, "one", &[]).await;
    for _ in 0..4 {
        let (id, _) = enqueued(&federation, &one, job("mail.send", "acme", "mails")).await;
        ended(&one, "mails", &id, "nack").await;
    }
    let id = only(&stage, "open").await["id"].clone();
    hub.kill();
    let hub = stage.again(0).await;
    stage.follows("one").await;
    assert_eq!(only(&stage, "open").await["id"], id, "the record has it");
    asked(&federation);
    // Left out, or the one job of the permission: never the two queues together.
    let mut came = Vec::new();
    eventually("one job comes", async || {
        came.extend(fetched(&one, &["mails", "other"]).await);
        !came.is_empty()
    })
    .await;
    for _ in 0..3 {
        came.extend(fetched(&one, &["mails", "other"]).await);
    }
    assert_eq!(came.len(), 1, "{came:?}");
    for queues in asked(&federation) {
        assert!(queues == ["other"] || queues == ["mails"], "{queues:?}");
    }
    says(&one, "ack", &came[0]).await;
    assert_eq!(only(&stage, "closed").await["id"], id);
    eventually("both queues are asked for again", async || {
        fetched(&one, &["mails", "other"]).await;
        asked(&federation).iter().any(|queues| queues == &["mails", "other"])
    })
    .await;
    // The killed hub may have begun to add it.
    eventually("the trail has both rows", async || rows(&stage).await.len() == 2).await;
    drop(hub);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_queue_without_jobs_keeps_no_job_of_other_queues_from_workers() {
    let (mut stage, receiver) = (HubStage::new(""), Receiver::start().await);
    stage.set_more(&settings("tenant: acme, queues: [empty, mails]", &receiver.url));
    let _hub = stage.run().await;
    let federation = federation(&stage).await;
    let one = sidecar(&stage, &federation, "one", &[]).await;
    for _ in 0..4 {
        let (id, _) = enqueued(&federation, &one, job("mail.send", "acme", "mails")).await;
        ended(&one, "mails", &id, "nack").await;
    }
    only(&stage, "open").await;
    eventually("it is half-open", async || only(&stage, "open").await["breaker"]["state"] == "half_open").await;
    asked(&federation);
    let mut calls = Vec::new();
    eventually("the empty queue was tried twice", async || {
        let (id, _) = enqueued(&federation, &one, job("sms.send", "acme", "other")).await;
        assert_eq!(fetched(&one, &["empty", "other"]).await, [id], "in the same FETCH");
        calls.extend(asked(&federation));
        calls.iter().filter(|queues| *queues == &["empty"]).count() >= 2
    })
    .await;
    assert!(calls.iter().all(|queues| queues == &["empty"] || queues == &["other"]), "{calls:?}");
    let mut came = Vec::new();
    eventually("the probe comes once there is one", async || {
        came = fetched(&one, &["mails", "other"]).await;
        !came.is_empty()
    })
    .await;
    assert_eq!(came.len(), 1, "{came:?}");
}
