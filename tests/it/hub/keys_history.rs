//! Keys for all over faults: hubs and the primary of their database are killed, paused and replaced while both sidecars get every key at once.

use std::cell::Cell;
use std::time::Duration;

use super::keys::{Two, keyed};
use super::postgres::Postgres;
use super::stage::HubStage;
use crate::support::{Client, eventually, job};

/// Clients that enqueue at once.
const CLIENTS: usize = 4;

/// Repeats a call until it has its answer; returns the id of the job.
async fn answered(client: &Client, key: &str) -> String {
    let mut id = None;
    eventually(&format!("{key} has its answer"), async || {
        let answer = keyed(client, key, job(key)).await;
        let reason = answer.reason();
        let is_known = answer.status == 201 || ["hub_unavailable", "outcome_unknown"].contains(&reason.as_str());
        assert!(is_known, "{answer:?}");
        id = (answer.status == 201).then(|| answer.job_id());
        id.is_some()
    })
    .await;
    id.unwrap()
}

/// Sends each key through both sidecars at once until the faults are over; returns how many.
async fn enqueue(clients: [Client; 2], number: usize, done: &Cell<usize>, is_over: &Cell<bool>) -> usize {
    let mut keys = 0;
    while !is_over.get() {
        let key = format!("{number}-{keys}");
        let (one, other) = tokio::join!(answered(&clients[0], &key), answered(&clients[1], &key));
        assert_eq!(one, other, "{key}");
        keys += 1;
        done.set(done.get() + 1);
    }
    keys
}

/// Runs the faults under load; then each key is one job. `faults` gets a wait for ten more keys.
async fn survives(two: &Two, faults: impl AsyncFnOnce(&dyn Fn() -> usize)) {
    let (one, other) = (two.run("one").await, two.run("other").await);
    let clients = [one.client, other.client];
    let (done, is_over) = (Cell::new(0), Cell::new(false));
    let load = async {
        let all = (0..CLIENTS).map(|number| enqueue(clients, number, &done, &is_over));
        futures_util::future::join_all(all).await.into_iter().sum::<usize>()
    };
    let breaking = async {
        faults(&|| done.get()).await;
        is_over.set(true);
    };
    let (keys, ()) = tokio::join!(load, breaking);
    let jobs = two.jobs();
    assert!(jobs.iter().all(|(_, stored)| *stored == 1), "{jobs:?}");
    assert_eq!(jobs.len(), keys, "one job a key");
}

async fn goes_on(done: &dyn Fn() -> usize) {
    let before = done();
    eventually("keys get their answers", async || done() >= before + 10).await;
}

#[tokio::test]
async fn each_key_is_one_job_over_kills_and_pauses_of_a_hub() {
    let (two, hub) = Two::before(HubStage::new(""), "refuse", "limits: { call_timeout: 3s }").await;
    let mut hub = Some(hub);
    survives(&two, async |done| {
        for _ in 0..3 {
            goes_on(done).await;
            // kill -9.
            drop(hub.take());
            hub = Some(two.hubs.again(0).await);
            goes_on(done).await;
            let running = hub.as_ref().unwrap();
            running.pause(true);
            tokio::time::sleep(Duration::from_secs(3)).await;
            running.pause(false);
        }
        goes_on(done).await;
    })
    .await;
}

#[tokio::test]
async fn each_key_is_one_job_over_the_loss_of_the_primary_and_kills_of_hubs() {
    let hubs = HubStage::new("");
    let Some(mut primary) = Postgres::start(&hubs.authority).await else { return };
    let standby = primary.standby().await;
    let record = Postgres::section(&[&primary, &standby], &hubs.path(""), &hubs.path("hub.ca.pem"));
    let hubs = hubs.on_record(record);
    let mut second = Some(hubs.again(1).await);
    let (two, first) = Two::before(hubs, "refuse", "limits: { call_timeout: 3s }").await;
    let mut first = Some(first);
    survives(&two, async |done| {
        goes_on(done).await;
        drop(first.take());
        goes_on(done).await;
        first = Some(two.hubs.again(0).await);
        primary.pause(true);
        tokio::time::sleep(Duration::from_secs(3)).await;
        primary.pause(false);
        goes_on(done).await;
        primary.kill();
        standby.promote();
        goes_on(done).await;
        drop(second.take());
        second = Some(two.hubs.again(1).await);
        goes_on(done).await;
    })
    .await;
}

#[tokio::test]
async fn keys_go_on_when_a_standby_takes_over_from_a_primary_that_hangs() {
    let hubs = HubStage::new("");
    let Some(primary) = Postgres::start(&hubs.authority).await else { return };
    let standby = primary.standby().await;
    let record = Postgres::section(&[&primary, &standby], &hubs.path(""), &hubs.path("hub.ca.pem"));
    let hubs = hubs.on_record(record);
    let _second = hubs.again(1).await;
    let (two, _first) = Two::before(hubs, "refuse", "limits: { call_timeout: 3s }").await;
    survives(&two, async |done| {
        goes_on(done).await;
        // Its kernel still takes connections and bytes.
        primary.pause(true);
        standby.promote();
        goes_on(done).await;
    })
    .await;
}
