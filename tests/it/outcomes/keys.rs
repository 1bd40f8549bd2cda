//! Repetitions: the same client id, the same `Idempotency-Key`; and two equal jobs, which are two jobs.

use http::{Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, Gate, When};

use super::{Cut, OWN, is_replay, jobs, keyed, newest_in, outcomes, quiet};
use crate::support::{Answer, Federation, Setup, eventually, job, pinned};

fn own() -> String {
    format!(r#"{{"id":"{OWN}","type":"email.send","args":["own"]}}"#)
}

/// Leaves a job under the client's own id unknown in the local region.
async fn leave_unknown(federation: &Federation, store: bool) {
    federation.mute(0);
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store });
    let answer = federation.client.enqueue(own()).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
}

#[tokio::test]
async fn a_repeated_id_of_an_unknown_job_is_answered_from_what_the_region_says_now() {
    let federation = quiet().steered().start().await;
    leave_unknown(&federation, true).await;
    let again = federation.client.enqueue(own()).await;
    assert_eq!((again.status.as_u16(), again.reason().as_str()), (500, "outcome_unknown"), "nobody knows more");
    federation.regions[0].faults().clear();
    for _ in 0..2 {
        let again = federation.client.enqueue(own()).await;
        assert_eq!((again.status.as_u16(), again.job_id().as_str(), again.region()), (201, OWN, "us-east-1"));
        assert!(is_replay(&again));
        assert_eq!(again.header("ojs-federation-attempts"), Some("0"));
    }
    assert_eq!((federation.stored(OWN), federation.enqueues(0)), (vec![(0, 1)], 1));
    assert_eq!(newest_in(&federation.client, "stored").await["job_id"], OWN);
    assert_eq!(federation.metric(r#"replays_total{by="job_id"}"#).await, 2.0);
}

#[tokio::test]
async fn a_repeated_id_of_a_job_that_was_never_stored_is_enqueued() {
    let federation = quiet().steered().start().await;
    leave_unknown(&federation, false).await;
    federation.regions[0].faults().clear();
    federation.advance(std::time::Duration::from_secs(1));
    let again = federation.client.enqueue(own()).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, false), "{again:?}");
    assert_eq!(federation.stored(OWN), [(0, 1)]);
    assert_eq!(outcomes(&federation.client).await["outcomes"][0]["state"], "watched", "the first one may still come");
}

#[tokio::test]
async fn a_key_is_remembered_for_what_a_refused_call_has_left_behind() {
    let federation = quiet().start().await;
    let limited = FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    // Sent, lost, proved absent, sent again and refused: and then the region stores the first one all the same.
    let mut cut = Cut::begin_with(&federation, keyed(federation.client, "k", pinned("us-east-1", "a"))).await;
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer: limited, store: false });
    let refused = cut.answer().await;
    assert_eq!(refused.status, 429, "{refused:?}");
    cut.gate.open();
    eventually("the late write", async || !federation.regions[0].jobs().is_empty()).await;
    let again = keyed(federation.client, "k", pinned("us-east-1", "a")).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true), "{again:?}");
    assert_eq!(federation.stored(&again.job_id()), [(0, 1)]);
    assert_eq!(jobs(&federation).len(), 1);
}

#[tokio::test]
async fn a_repetition_waits_for_the_first_while_that_is_under_way() {
    let federation = quiet().start().await;
    let gate = Gate::new();
    federation.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let client = federation.client;
    let first = tokio::spawn(async move { client.enqueue(own()).await });
    eventually("the first is sent", async || federation.enqueues(0) == 1).await;
    let second = tokio::spawn(async move { client.enqueue(own()).await });
    let other = tokio::spawn(async move { client.enqueue(own().replace(OWN, "another-one")).await });
    eventually("the other is sent", async || federation.enqueues(0) == 2).await;
    gate.open();
    let (first, second, other) = (first.await.unwrap(), second.await.unwrap(), other.await.unwrap());
    assert_eq!((first.status.as_u16(), second.status.as_u16(), other.status.as_u16()), (201, 201, 201));
    assert_eq!((first.job_id(), second.job_id()), (OWN.to_owned(), OWN.to_owned()));
    assert!(!is_replay(&first) && is_replay(&second) && !is_replay(&other));
    assert_eq!((federation.stored(OWN), federation.enqueues(0)), (vec![(0, 1)], 2));
}

#[tokio::test]
async fn two_equal_jobs_are_two_jobs() {
    let federation = quiet().start().await;
    let (first, second) = tokio::join!(federation.client.enqueue(job("a")), federation.client.enqueue(job("a")));
    assert_ne!(first.job_id(), second.job_id());
    assert_eq!(jobs(&federation).len(), 2);
}

#[tokio::test]
async fn a_key_gives_the_same_answer_for_the_same_body_and_a_conflict_for_another() {
    let federation = quiet().start().await;
    let client = federation.client;
    let first = keyed(client, "k-1", pinned("eu-west-1", "a")).await;
    assert_eq!((first.status.as_u16(), is_replay(&first)), (201, false));
    let id = first.job_id();
    for _ in 0..2 {
        let again = keyed(client, "k-1", pinned("eu-west-1", "a")).await;
        assert_eq!((again.status.as_u16(), again.job_id(), again.region()), (201, id.clone(), "eu-west-1"));
        assert!(is_replay(&again));
    }
    let other = keyed(client, "k-1", pinned("eu-west-1", "b")).await;
    assert_eq!((other.status.as_u16(), other.reason().as_str()), (409, "idempotency_key_reused"), "{other:?}");
    let new = keyed(client, "k-2", pinned("eu-west-1", "a")).await;
    assert!(new.status == 201 && new.job_id() != id);
    assert_eq!((federation.enqueues(1), federation.stored(&id)), (2, vec![(1, 1)]));
    assert_eq!(federation.seen("\"a\""), [1], "pinned stays pinned");
    // A region that has forgotten the job, or does not answer, does not make it another one.
    federation.mute(1);
    let again = keyed(client, "k-1", pinned("eu-west-1", "a")).await;
    assert_eq!((again.status.as_u16(), again.job_id()), (201, id));
    for key in ["", &"k".repeat(256)] {
        let answer = keyed(client, key, job("c")).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (400, "idempotency_key_invalid"), "{answer:?}");
    }
}

#[tokio::test]
async fn calls_with_one_key_at_once_are_one_job() {
    let federation = quiet().start().await;
    let client = federation.client;
    let calls: tokio::task::JoinSet<_> =
        (0..20).map(|_| async move { keyed(client, "crowd", job("crowd")).await }).collect();
    let answers = calls.join_all().await;
    let ids: std::collections::HashSet<String> = answers.iter().map(Answer::job_id).collect();
    assert!(answers.iter().all(|answer| answer.status == 201));
    assert_eq!((ids.len(), jobs(&federation).len(), federation.enqueues(0)), (1, 1, 1));
}

#[tokio::test]
async fn a_key_whose_job_was_refused_is_free_again() {
    let federation = quiet().start().await;
    let client = federation.client;
    let refusal = ojs_testbed::FaultAnswer::error_document(http::StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer: refusal, store: false });
    assert_eq!(keyed(client, "k", job("a")).await.status, 429);
    let again = keyed(client, "k", job("b")).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, false), "{again:?}");
    assert_eq!(jobs(&federation).len(), 1);
}

#[tokio::test]
async fn a_key_whose_job_is_unknown_is_cleared_up_and_never_sent_again_before() {
    let federation = quiet().steered().start().await;
    let client = federation.client;
    federation.mute(0);
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: true });
    for _ in 0..2 {
        let answer = keyed(client, "k", job("a")).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    }
    federation.regions[0].faults().clear();
    let again = keyed(client, "k", job("a")).await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true), "{again:?}");
    assert_eq!((federation.enqueues(0), federation.stored(&again.job_id())), (1, vec![(0, 1)]));
    assert_eq!(keyed(client, "k", job("b")).await.status, 409);
}

#[tokio::test]
async fn keys_are_a_tenants_own_and_nobodys_where_they_are_switched_off() {
    let federation = quiet().start().await;
    let tenant = |name: &'static str| {
        let request = Request::post("/ojs/v1/jobs").header("idempotency-key", "k").header("x-ojs-tenant", name);
        async move { federation.client.send(request, job(name)).await.status.as_u16() }
    };
    assert_eq!((tenant("a").await, tenant("b").await), (201, 201));
    let off = Setup::default().regions(1).yaml("idempotency: { enabled: false }").start().await;
    assert_eq!(keyed(off.client, "k", job("a")).await.status, 201);
    assert_eq!(keyed(off.client, "k", job("b")).await.status, 201);
    assert_eq!(jobs(&off).len(), 2);
}
