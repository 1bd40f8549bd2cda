//! What must be proved before an enqueue is answered 2xx, or sent again: a region's word about this very job.

use std::collections::HashSet;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, Gate, When};

use super::{OWN, advance_until, jobs, open, outcomes, quiet};
use crate::support::{Answer, Client, Federation, Setup, eventually, job, pinned};

fn own(args: &str) -> String {
    format!(r#"{{"id":"{OWN}","type":"email.send","args":["{args}"]}}"#)
}

async fn send(client: Client, headers: &[(&str, &str)], body: String) -> Answer {
    let request = headers.iter().fold(Request::post("/ojs/v1/jobs"), |it, (name, value)| it.header(*name, *value));
    client.send(request, body).await
}

fn is_replay(answer: &Answer) -> bool {
    answer.header("ojs-federation-replayed") == Some("true")
}

#[track_caller]
fn check_unknown(answer: &Answer, region: &str) {
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    assert_eq!(answer.json()["error"]["details"]["region"], region);
}

#[track_caller]
fn check_sent(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), is_replay(answer)), (201, false), "{answer:?}");
}

/// Unknown outcomes of flexible jobs go on to the next region.
fn redirecting() -> Setup {
    Setup::default()
        .regions(2)
        .yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
        .yaml("failover: { on_unknown: redirect, late_write_grace: 50ms, retry_budget: { floor: 1000 } }")
}

fn lose_next(federation: &Federation, place: usize, store: bool) {
    federation.regions[place].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store });
}

#[tokio::test]
async fn that_one_region_has_nothing_says_nothing_about_the_next_one() {
    let federation = redirecting().steered().start().await;
    for place in [0, 1] {
        federation.mute(place);
        lose_next(&federation, place, false);
    }
    check_unknown(&federation.client.enqueue(own("a")).await, "eu-west-1");
    federation.regions[0].faults().clear();
    federation.advance(Duration::from_secs(16 * 60));
    advance_until(&federation, "the first region is cleared up", async || open(&federation.client).await == 1).await;
    check_unknown(&federation.client.enqueue(own("a")).await, "eu-west-1");
    assert!(jobs(&federation).is_empty());
    // Once the second has proved it, too, the job is sent.
    federation.regions[1].faults().clear();
    check_sent(&federation.client.enqueue(own("a")).await);
    assert_eq!(federation.stored(OWN), [(0, 1)]);
}

#[tokio::test]
async fn a_key_leads_to_the_place_that_decided_its_answer() {
    let federation = redirecting().start().await;
    // The first has stored it and does not say so; the second proves that it has not, and then refuses it.
    federation.mute(0);
    lose_next(&federation, 0, true);
    lose_next(&federation, 1, false);
    let refusal = FaultAnswer::error_document(StatusCode::UNPROCESSABLE_ENTITY, "unsupported");
    federation.regions[1].faults().add(When::enqueue().next(1), Fault::Answer { answer: refusal, store: false });
    check_unknown(&send(federation.client, &[("idempotency-key", "k")], job("a")).await, "us-east-1");
    assert_eq!(federation.enqueues(1), 2, "sent, and sent again");
    federation.regions[0].faults().clear();
    let again = send(federation.client, &[("idempotency-key", "k")], job("a")).await;
    assert_eq!((again.status.as_u16(), is_replay(&again), again.region()), (201, true, "us-east-1"), "{again:?}");
    assert_eq!(federation.stored(&again.job_id()), [(0, 1)]);
    assert_eq!(jobs(&federation).len(), 1);
}

#[tokio::test]
async fn of_two_places_where_nobody_knew_of_a_job_each_is_cleared_up_for_itself() {
    for [first, second] in [[true, false], [false, true], [true, true]] {
        let federation = redirecting().steered().start().await;
        for (place, store) in [(0, first), (1, second)] {
            federation.mute(place);
            lose_next(&federation, place, store);
        }
        check_unknown(&federation.client.enqueue(own("a")).await, "eu-west-1");
        federation.regions.iter().for_each(|region| region.faults().clear());
        let again = federation.client.enqueue(own("a")).await;
        assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true), "{again:?}");
        federation.advance(Duration::from_secs(16 * 60));
        advance_until(&federation, "all is known", async || open(&federation.client).await == 0).await;
        let waiting: Vec<_> = jobs(&federation).into_iter().filter(|(.., state)| state == "available").collect();
        assert_eq!(waiting.len(), 1, "{first} {second}: {:?}", jobs(&federation));
        assert_eq!((federation.enqueues(0), federation.enqueues(1)), (1, 1));
    }
}

#[tokio::test]
async fn a_job_that_went_on_and_was_refused_there_is_unknown_still_and_so_is_its_key() {
    for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
        let federation = redirecting().steered().start().await;
        federation.mute(0);
        lose_next(&federation, 0, true);
        let answer = FaultAnswer::error_document(status, "refused");
        federation.regions[1].faults().add(When::enqueue(), Fault::Answer { answer, store: false });
        let key = [("idempotency-key", "k")];
        for _ in 0..2 {
            check_unknown(&send(federation.client, &key, job("a")).await, "us-east-1");
        }
        federation.regions[0].faults().clear();
        let again = send(federation.client, &key, job("a")).await;
        assert_eq!((again.status.as_u16(), is_replay(&again), again.region()), (201, true, "us-east-1"), "{again:?}");
        assert_eq!((federation.enqueues(0), federation.enqueues(1)), (1, 1), "{status}");
        assert_eq!(federation.stored(&again.job_id()), [(0, 1)]);
    }
}

#[tokio::test]
async fn a_minted_id_goes_to_a_region_once_also_with_a_key_and_without_hints() {
    for (yaml, headers) in [("", &[("idempotency-key", "k")][..]), ("routing: { id_hint: false }", &[])] {
        let federation = quiet().steered().yaml(yaml).start().await;
        lose_next(&federation, 0, false);
        let answer = send(federation.client, headers, pinned("us-east-1", "a")).await;
        check_sent(&answer);
        let sent = federation.regions[0].record().requests_to("/ojs/v1/jobs");
        let id = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).unwrap()["id"].to_string();
        let ids: Vec<String> = sent.iter().filter(|it| it.method == Method::POST).map(|it| id(&it.body)).collect();
        assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (2, 2), "{yaml} {ids:?}");
        let journalled = outcomes(&federation.client).await["outcomes"][0].take();
        assert_eq!(
            (&journalled["job_id"], &journalled["state"]),
            (&answer.job_id().into(), &"watched".into()),
            "the first one is watched for: {journalled}"
        );
        if !headers.is_empty() {
            let again = send(federation.client, headers, pinned("us-east-1", "a")).await;
            assert_eq!((again.job_id(), is_replay(&again)), (answer.job_id(), true));
        }
    }
}

#[tokio::test]
async fn a_key_whose_outcome_is_unknown_makes_no_room_for_those_without_a_key() {
    let setup = quiet().steered().yaml("journal: { rows_max: 100 }").yaml("limits: { call_timeout: 6s }");
    let federation = setup.start().await;
    let client = federation.client;
    federation.mute(0);
    federation.regions[0].faults().add(When::enqueue(), Fault::CutAfterRequest { store: false });
    let key = [("idempotency-key", "k")];
    check_unknown(&send(client, &key, job("keyed")).await, "us-east-1");
    let others: tokio::task::JoinSet<_> =
        (0..110).map(|number| async move { client.enqueue(job(&number.to_string())).await }).collect();
    assert!(others.join_all().await.iter().all(|answer| answer.status == 500));
    assert_eq!(federation.metric(r#"journal_evictions_total{kind="pending"}"#).await, 10.0);
    assert_eq!(federation.metric(r#"outcomes_pending{state="unknown"}"#).await, 101.0);
    federation.regions[0].faults().clear();
    let sent = federation.enqueues(0);
    for is_known in [false, true] {
        let again = send(client, &key, job("keyed")).await;
        assert_eq!((again.status.as_u16(), is_replay(&again)), (201, is_known), "{again:?}");
    }
    assert_eq!((federation.enqueues(0), federation.enqueues(1)), (sent + 1, 0), "asked for first, and sent once");
}

#[tokio::test]
async fn an_id_is_its_tenants_own_and_another_body_under_it_is_another_job() {
    let federation = quiet().steered().start().await;
    federation.mute(0);
    lose_next(&federation, 0, true);
    let (a, b) = ([("x-ojs-tenant", "a")], [("x-ojs-tenant", "b")]);
    check_unknown(&send(federation.client, &a, own("first")).await, "us-east-1");
    let other = send(federation.client, &a, own("second")).await;
    assert_eq!((other.status.as_u16(), other.reason().as_str()), (503, "id_in_use"), "{other:?}");
    assert_eq!(other.json()["error"]["details"]["region"], "us-east-1");
    assert_eq!(federation.enqueues(0), 1, "while nobody knows of the first, no second is sent under its id");
    federation.regions[0].faults().clear();
    let again = send(federation.client, &a, own("first")).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true), "{again:?}");
    check_sent(&send(federation.client, &b, own("of b")).await);
    check_sent(&send(federation.client, &a, own("second")).await);
    assert_eq!(federation.enqueues(0), 3);
    federation.advance(Duration::from_secs(25 * 60 * 60));
    check_sent(&send(federation.client, &a, own("first")).await);
}

#[tokio::test]
async fn two_bodies_under_one_id_at_once_are_two_jobs() {
    let federation = quiet().start().await;
    let (client, gate) = (federation.client, Gate::new());
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let first = tokio::spawn(async move { client.enqueue(own("first")).await });
    eventually("the first is sent", async || federation.enqueues(0) == 1).await;
    let second = tokio::spawn(async move { client.enqueue(own("second")).await });
    gate.open();
    check_sent(&first.await.unwrap());
    check_sent(&second.await.unwrap());
    assert_eq!(federation.enqueues(0), 2, "what the second is worth is the region's to judge");
}

#[tokio::test]
async fn another_job_under_an_id_that_is_under_way_is_not_sent_when_its_time_is_over() {
    let federation = quiet().yaml("limits: { call_timeout: 700ms }").start().await;
    let (client, gate) = (federation.client, Gate::new());
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
    let slow = [("ojs-block-timeout", "60")];
    let first = tokio::spawn(async move { send(client, &slow, own("first")).await });
    eventually("the first is sent", async || federation.enqueues(0) == 1).await;
    let answer = client.enqueue(own("second")).await;
    answer.check_error(503, "backend_error", "no_time_left");
    gate.open();
    check_sent(&first.await.unwrap());
    assert_eq!(federation.enqueues(0), 1);
}

#[tokio::test]
async fn an_id_whose_outcome_nobody_could_tell_for_a_day_is_enqueued_again() {
    let federation = quiet().steered().start().await;
    federation.mute(0);
    lose_next(&federation, 0, false);
    check_unknown(&federation.client.enqueue(own("a")).await, "us-east-1");
    federation.advance(Duration::from_secs(25 * 60 * 60));
    advance_until(&federation, "expired", async || {
        outcomes(&federation.client).await["outcomes"][0]["state"] == "expired"
    })
    .await;
    check_sent(&federation.client.enqueue(own("a")).await);
}

#[tokio::test]
async fn a_balancers_word_proves_no_end_so_that_nothing_is_ever_absent_behind_it() {
    let federation = quiet().yaml("limits: { call_timeout: 700ms }").start().await;
    for status in [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::FOUND] {
        let answer = FaultAnswer::balancer(status);
        federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
        check_unknown(&federation.client.enqueue(job("a")).await, "us-east-1");
    }
    assert_eq!((federation.enqueues(0), federation.enqueues(1)), (3, 0));
}

#[tokio::test]
async fn a_balancers_word_is_unknown_as_soon_as_its_region_has_said_no() {
    let federation = quiet().yaml("limits: { call_timeout: 10min }").start().await;
    let answer = FaultAnswer::balancer(StatusCode::BAD_GATEWAY);
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
    check_unknown(&federation.client.enqueue(job("a")).await, "us-east-1");
    let asked = federation.regions[0].record().requests_to("/ojs/v1/jobs/").len();
    assert!(asked >= 3, "at once, and twice after the time that a late write takes: {asked}");
    assert_eq!(open(&federation.client).await, 1, "the background asks on");
}

#[tokio::test]
async fn a_redirected_job_goes_on_at_once_and_its_client_sees_no_redirect() {
    let federation = quiet().start().await;
    for status in [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT] {
        let answer = FaultAnswer::balancer(status).header("location", "https://elsewhere.example/");
        federation.regions[0].faults().add(When::enqueue().next(2), Fault::Answer { answer, store: false });
        let answer = federation.client.enqueue(job("a")).await;
        assert_eq!(federation.stored(&answer.job_id()), [(1, 1)], "{answer:?}");
        let answer = federation.client.enqueue(pinned("us-east-1", "b")).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "region_unavailable"), "{answer:?}");
        assert_eq!(answer.header("location"), None);
    }
    assert_eq!(federation.regions[0].record().requests_to("/ojs/v1/jobs/").len(), 0, "nothing is to be found out");
}

#[tokio::test]
async fn a_replay_has_no_tracking_id_that_no_job_has() {
    let federation = quiet().start().await;
    let key = [("idempotency-key", "k")];
    let first = send(federation.client, &key, job("a")).await;
    let again = send(federation.client, &key, job("a")).await;
    assert!(first.header("ojs-federation-id").is_some() && is_replay(&again));
    assert_eq!(again.header("ojs-federation-id"), None, "{again:?}");
}
