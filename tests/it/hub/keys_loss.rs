//! Keys for all while the hub is away, hangs, is slow or gets claims late. Judged at the regions' stores.

use serde_json::json;

use super::keys::{Two, counted, held, is_replay, keyed};
use super::postgres::Postgres;
use super::stage::{HubStage, post};
use crate::support::{Answer, Process, Scrape, eventually, job};

async fn is_refused_for_the_hub(answer: &Answer) {
    answer.check_error(503, "backend_error", "hub_unavailable");
    answer.check_retry_after(2);
}

/// Waits until the hub has the end of every key of a sidecar.
async fn is_settled(sidecar: &Process) {
    eventually("the hub has the ends of all keys", async || {
        Scrape::of(&sidecar.admin).await.value("hub_keys_unsettled") == 0.0
    })
    .await;
}

#[tokio::test]
async fn a_hub_that_is_killed_within_a_call_changes_neither_its_answer_nor_that_of_a_repetition() {
    let (two, mut hub) = Two::with("refuse").await;
    let (one, other) = (two.run("one").await, two.run("other").await);
    let (gate, call) = held(&two, &one, "k").await;
    hub.kill();
    gate.open();
    let first = call.await.unwrap();
    assert_eq!((first.status.as_u16(), is_replay(&first)), (201, false), "{first:?}");
    is_refused_for_the_hub(&keyed(&other.client, "k", job("a")).await).await;
    is_refused_for_the_hub(&keyed(&one.client, "new", job("a")).await).await;
    // Its own sidecar needs no hub for it, and a job without a key neither.
    assert!(is_replay(&keyed(&one.client, "k", job("a")).await));
    assert_eq!(other.client.enqueue(job("b")).await.status, 201);
    let _hub = two.hubs.run().await;
    is_settled(&one).await;
    let mut again = None;
    eventually("the other sidecar has the answer", async || {
        again = Some(keyed(&other.client, "k", job("a")).await);
        again.as_ref().unwrap().status == 201
    })
    .await;
    let again = again.unwrap();
    assert_eq!((again.job_id(), is_replay(&again)), (first.job_id(), true));
    assert_eq!(two.jobs().len(), 2);
    one.wait_for_line("ojs.federation.hub_keys_reached").await;
}

#[tokio::test]
async fn a_hub_that_is_away_refuses_keys_or_leaves_them_to_one_sidecar_as_configured() {
    let (two, mut hub) = Two::with("refuse").await;
    let one = two.run("one").await;
    hub.kill();
    for _ in 0..2 {
        is_refused_for_the_hub(&keyed(&one.client, "k", job("a")).await).await;
    }
    assert_eq!((two.jobs().len(), counted(&one, "refused").await), (0, 2.0));
    let lost = one.log().iter().filter(|line| line.contains("ojs.federation.hub_keys_lost")).count();
    assert_eq!(lost, 1, "once for each loss");

    let (two, mut hub) = Two::with("local").await;
    let (one, other) = (two.run("one").await, two.run("other").await);
    hub.kill();
    let first = keyed(&one.client, "k", job("a")).await;
    assert_eq!((first.status.as_u16(), is_replay(&first), counted(&one, "local").await), (201, false, 1.0));
    assert!(is_replay(&keyed(&one.client, "k", job("a")).await));
    let both = [keyed(&one.client, "both", job("b")).await, keyed(&other.client, "both", job("b")).await];
    assert_ne!(both[0].job_id(), both[1].job_id(), "each sidecar has its own keys");
    // Back, the hub has the keys of the time between, and one of two with the same key is reported.
    let _hub = two.hubs.run().await;
    is_settled(&one).await;
    is_settled(&other).await;
    let again = keyed(&other.client, "k", job("a")).await;
    assert_eq!((again.status.as_u16(), again.job_id(), is_replay(&again)), (201, first.job_id(), true), "{again:?}");
    assert_eq!(counted(&one, "doubled").await + counted(&other, "doubled").await, 1.0);
}

#[tokio::test]
async fn a_hub_that_hangs_holds_no_call_up() {
    let (two, hub) = Two::with("local").await;
    let one = two.run("one").await;
    hub.pause(true);
    for key in ["a", "b", "c"] {
        let answer = keyed(&one.client, key, job(key)).await;
        assert_eq!((answer.status.as_u16(), is_replay(&answer)), (201, false), "{answer:?}");
    }
    hub.pause(false);
    is_settled(&one).await;
    let other = two.run("other").await;
    for key in ["a", "b", "c"] {
        assert!(is_replay(&keyed(&other.client, key, job(key)).await), "{key}");
    }
    assert_eq!(two.jobs().len(), 3);
}

#[tokio::test]
async fn one_slow_claim_and_slow_ends_keep_no_other_key_from_the_hub() {
    let (two, hub) = Two::before(HubStage::new(""), "refuse", "limits: { call_timeout: 10s }").await;
    let one = two.run("one").await;
    hub.pause(true);
    is_refused_for_the_hub(&keyed(&one.client, "slow", job("a")).await).await;
    hub.pause(false);
    let next = keyed(&one.client, "next", job("b")).await;
    assert_eq!(next.status, 201, "{next:?}");
    // The hub takes none of four ends in their time.
    let mut held_up = Vec::new();
    for key in ["1", "2", "3", "4"] {
        held_up.push(held(&two, &one, key).await);
    }
    hub.pause(true);
    for (gate, call) in held_up {
        gate.open();
        assert_eq!(call.await.unwrap().status, 201);
    }
    hub.pause(false);
    let next = keyed(&one.client, "last", job("c")).await;
    assert_eq!(next.status, 201, "{next:?}");
}

/// A claim that comes after its release, as from a network that has kept it, takes nothing; judged at the hub's answers.
async fn takes_no_late_claim(hubs: HubStage) {
    let (two, _hub) = Two::before(hubs, "refuse", "limits: { call_timeout: 5s }").await;
    let _one = two.run("one").await;
    let request = |token: &str, sent_unix_ms: u64| {
        let (key, body, token) = ("a".repeat(64), "b".repeat(64), token.repeat(64));
        json!({ "sidecar": "one", "started_unix_ms": 1, "key": key, "body": body, "token": token, "attempt": 1,
                "ttl_ms": 60_000, "sent_unix_ms": sent_unix_ms })
    };
    let claim = async |token, sent| post(&two.hubs, "pod", "/v1/hub/keys/claim", &request(token, sent)).await.1;
    let now = async || claim("c", 0).await["late"]["now_unix_ms"].as_u64().unwrap();
    let sent = now().await;
    let mut end = request("c", 0);
    end["verdict"] = json!({ "is": "absent" });
    assert_eq!(post(&two.hubs, "pod", "/v1/hub/keys/settle", &end).await.1, json!({ "settled": true }));
    for token in ["c", "d"] {
        let late = claim(token, sent).await;
        assert_eq!(late["decided"]["claim"], "held", "{late}");
        assert!(claim(token, sent - 40_000).await["late"].is_object());
    }
    eventually("the key is taken by a claim that was sent later", async || {
        claim("c", now().await).await["decided"]["claim"] == "taken"
    })
    .await;
    assert_eq!(claim("d", now().await).await["decided"]["claim"], "held");
}

#[tokio::test]
async fn a_claim_that_comes_after_its_release_takes_no_key() {
    takes_no_late_claim(HubStage::new("")).await;
}

#[tokio::test]
async fn a_claim_that_comes_after_its_release_takes_no_key_in_a_database() {
    let hubs = HubStage::new("");
    let Some(server) = Postgres::start(&hubs.authority).await else { return };
    let record = Postgres::section(&[&server], &hubs.path(""), &hubs.path("hub.ca.pem"));
    takes_no_late_claim(hubs.with_record(record)).await;
}
