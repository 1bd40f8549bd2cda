//! Late writes: the region stores the job after it was taken for absent, or after the client was told that nobody knows.

use http::Method;
use ojs_testbed::{Fault, FaultAnswer, Gate, When};

use super::{
    Cut, OWN, advance_until, background_has_asked, is_replay, jobs, newest_in, open, outcomes, quiet, start_next,
};
use crate::support::{Federation, eventually, job, pinned};

async fn advance_until_state(federation: &Federation, state: &str) {
    advance_until(federation, state, async || outcomes(&federation.client).await["outcomes"][0]["state"] == state)
        .await;
}

/// Lets a job that was taken for absent go elsewhere; the gate stores it where it was first.
async fn gone_elsewhere(federation: &Federation, body: String) -> (Gate, String) {
    let mut cut = Cut::begin(federation, body).await;
    let answer = cut.answer().await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
    let shown = outcomes(&federation.client).await["outcomes"][0].take();
    assert_eq!((&shown["state"], &shown["region"]), (&"watched".into(), &"eu-west-1".into()), "{shown}");
    assert_eq!((&shown["job_id"], &shown["copies"][0]["detail"]), (&answer.job_id().into(), &"watched".into()));
    background_has_asked(federation).await;
    (cut.gate, answer.job_id())
}

async fn land(federation: &Federation, gate: &Gate) {
    gate.open();
    eventually("the late write", async || !federation.regions[0].jobs().is_empty()).await;
}

#[tokio::test]
async fn a_copy_that_lands_late_is_cancelled_before_anybody_starts_it() {
    let federation = quiet().steered().start().await;
    let (gate, id) = gone_elsewhere(&federation, job("a")).await;
    land(&federation, &gate).await;
    advance_until_state(&federation, "stored").await;
    let states: Vec<_> =
        jobs(&federation).into_iter().map(|(place, _, stored, state)| (place, stored, state)).collect();
    assert_eq!(states, [(0, 1, "cancelled".to_owned()), (1, 1, "available".to_owned())]);
    assert_eq!(federation.stored(&id), [(1, 1)], "the one that the client knows is the one that stays");
    let shown = newest_in(&federation.client, "stored").await;
    assert_eq!(shown["cancelled_in"], "us-east-1");
    assert_eq!(federation.metric(r#"outcomes_resolved_total{result="cancelled"}"#).await, 1.0);
}

#[tokio::test]
async fn of_two_copies_the_one_that_waits_is_cancelled_and_two_that_started_are_said_loudly() {
    for both in [false, true] {
        let federation = quiet().steered().start().await;
        let (gate, _) = gone_elsewhere(&federation, job("a")).await;
        land(&federation, &gate).await;
        start_next(&federation, 0).await;
        if both {
            start_next(&federation, 1).await;
        }
        let (state, expected, cancelled_in) = if both {
            ("doubled", ["active", "active"], serde_json::Value::Null)
        } else {
            ("stored", ["active", "cancelled"], "eu-west-1".into())
        };
        advance_until_state(&federation, state).await;
        let states: Vec<_> = jobs(&federation).into_iter().map(|(.., state)| state).collect();
        assert_eq!(states, expected);
        assert_eq!(newest_in(&federation.client, state).await["cancelled_in"], cancelled_in);
        let doubled = federation.metric(r#"outcomes_resolved_total{result="doubled"}"#).await;
        assert_eq!(doubled, f64::from(u8::from(both)));
    }
}

#[tokio::test]
async fn while_a_cancellation_of_one_copy_is_under_way_the_other_one_stays() {
    let federation = quiet().steered().start().await;
    let (gate, _) = gone_elsewhere(&federation, job("a")).await;
    stays_while_told(&federation, &gate).await;
}

#[tokio::test]
async fn of_two_copies_under_one_id_in_one_region_none_is_cancelled_and_a_double_is_said() {
    let federation = quiet().steered().start().await;
    let client = federation.client;
    let enqueue = || async move { client.enqueue(format!(r#"{{"id":"{OWN}","type":"a","args":[]}}"#)).await };
    // Lost in the first region and refused by the second one; then lost in the first one again, and stored by the second one.
    let mut first = Cut::begin_with(&federation, enqueue()).await;
    let limited = FaultAnswer::error_document(http::StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    let limited = Fault::Answer { answer: limited, store: false };
    federation.regions[1].faults().add(When::enqueue().next(1), limited);
    assert_eq!(first.answer().await.status, 429);
    let mut second = Cut::begin_with(&federation, enqueue()).await;
    let answer = second.answer().await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{answer:?}");
    // Whoever cancelled the one that came late could cancel the other, which may come over it.
    land(&federation, &first.gate).await;
    advance_until_state(&federation, "doubled").await;
    assert_eq!(states(&federation), [(0, "available".to_owned()), (1, "available".to_owned())]);
    let again = enqueue().await;
    assert_eq!((again.status.as_u16(), again.region(), is_replay(&again)), (201, "eu-west-1", true), "{again:?}");
}

/// The late copy is told to go, that is held back, and a worker takes it: the other one stays until it is over.
async fn stays_while_told(federation: &Federation, gate: &Gate) {
    let cancellation = told_and_started(federation, gate).await;
    let before = asked(federation, &Method::GET);
    let again = || asked(federation, &Method::GET) > before + 8;
    federation.advance_until("both are looked at again", again).await;
    assert_eq!(states(federation), [(0, "active".to_owned()), (1, "available".to_owned())]);
    cancellation.open();
    eventually("the late one is cancelled", async || states(federation)[0].1 == "cancelled").await;
    // What the worker did of it before it was cancelled, nobody knows.
    advance_until_state(federation, "doubled").await;
    assert_eq!(states(federation), [(0, "cancelled".to_owned()), (1, "available".to_owned())]);
    assert_eq!(federation.metric(r#"outcomes_resolved_total{result="doubled"}"#).await, 1.0);
}

#[tokio::test]
async fn a_late_copy_that_was_told_to_go_and_is_completed_stays_and_the_other_one_goes() {
    let federation = quiet().steered().start().await;
    let (gate, _) = gone_elsewhere(&federation, job("a")).await;
    let _cancellation = told_and_started(&federation, &gate).await;
    let other = federation.sidecar_in("us-east-1", &[]).await;
    let id = &federation.regions[0].jobs()[0].id;
    let done = other.client.post("/ojs/v1/workers/ack", format!(r#"{{"job_id":"{id}","result":{{}}}}"#)).await;
    assert_eq!(done.status, 200, "{done:?}");
    advance_until_state(&federation, "stored").await;
    assert_eq!(states(&federation), [(0, "completed".to_owned()), (1, "cancelled".to_owned())]);
}

/// Stores the late copy, holds back that it is told to go, and lets a worker take it. The gate lets that through.
async fn told_and_started(federation: &Federation, gate: &Gate) -> Gate {
    let region = &federation.regions[0];
    let cancellation = Gate::new();
    let deleted = When::path("/ojs/v1/jobs/").method(Method::DELETE);
    region.faults().add(deleted, Fault::Hold { gate: cancellation.clone() });
    land(federation, gate).await;
    // Where two rows speak of it, only one of them sees it before it is started.
    let answer = FaultAnswer::error_document(http::StatusCode::INTERNAL_SERVER_ERROR, "internal_error");
    let first = When::path("/ojs/v1/jobs/").method(Method::GET).next(1);
    region.faults().add(first, Fault::Answer { answer, store: false });
    federation.advance_until("the late one is told to go", || asked(federation, &Method::DELETE) > 0).await;
    region.cut_connections().await;
    start_next(federation, 0).await;
    cancellation
}

/// How often the first region was asked about jobs. One that was read whole is in a hold, so that cutting its connection takes its
/// answer and not its effect.
fn asked(federation: &Federation, method: &Method) -> usize {
    let requests = federation.regions[0].record().requests_to("/ojs/v1/jobs/");
    requests.iter().filter(|it| it.method == *method && it.complete).count()
}

fn states(federation: &Federation) -> Vec<(usize, String)> {
    jobs(federation).into_iter().map(|(place, .., state)| (place, state)).collect()
}

#[tokio::test]
async fn a_pinned_job_that_lands_late_beside_its_second_send_is_cancelled_in_its_region() {
    let federation = quiet().steered().start().await;
    let mut cut = Cut::begin(&federation, pinned("us-east-1", "needle")).await;
    let answer = cut.answer().await;
    assert_eq!((answer.status.as_u16(), answer.region()), (201, "us-east-1"), "{answer:?}");
    cut.gate.open();
    eventually("the late write", async || federation.regions[0].jobs().len() == 2).await;
    advance_until_state(&federation, "stored").await;
    let mut states: Vec<_> = jobs(&federation).into_iter().map(|(_, id, stored, state)| (id, stored, state)).collect();
    states.sort_by_key(|(id, ..)| *id != answer.job_id());
    assert_eq!(states[0], (answer.job_id(), 1, "available".to_owned()));
    assert_eq!((states[1].1, states[1].2.as_str()), (1, "cancelled"));
    assert_eq!(federation.seen("needle"), [0]);
}

#[tokio::test]
async fn a_job_that_its_region_has_stored_and_shows_no_more_is_not_taken_for_gone() {
    let federation = quiet().steered().start().await;
    let (gate, _) = gone_elsewhere(&federation, job("a")).await;
    let answer = FaultAnswer::error_document(http::StatusCode::NOT_FOUND, "not_found");
    let asked = When::path("/ojs/v1/jobs/").method(Method::GET);
    federation.regions[1].faults().add(asked, Fault::Answer { answer, store: false });
    land(&federation, &gate).await;
    advance_until_state(&federation, "stored").await;
    assert_eq!(states(&federation), [(0, "cancelled".to_owned()), (1, "available".to_owned())]);
}

#[tokio::test]
async fn a_late_copy_of_a_job_that_its_client_has_cancelled_is_cancelled_too() {
    let federation = quiet().steered().start().await;
    let (gate, id) = gone_elsewhere(&federation, job("a")).await;
    let cancelled = federation.client.call(Method::DELETE, &format!("/ojs/v1/jobs/{id}"), "").await;
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    // Nobody tells the sidecar of it but the region, which is asked when the late copy has come.
    land(&federation, &gate).await;
    advance_until_state(&federation, "absent").await;
    assert_eq!(states(&federation), [(0, "cancelled".to_owned()), (1, "cancelled".to_owned())]);
}

#[tokio::test]
async fn two_copies_of_which_one_cannot_be_judged_are_asked_about_ever_less_and_let_go_after_a_day() {
    let federation = quiet().steered().start().await;
    let (gate, _) = gone_elsewhere(&federation, job("a")).await;
    federation.mute(1);
    land(&federation, &gate).await;
    federation.advance(std::time::Duration::from_secs(25 * 60 * 60));
    advance_until_state(&federation, "expired").await;
    assert_eq!(open(&federation.client).await, 0);
}

#[tokio::test]
async fn what_never_lands_late_is_let_go() {
    let federation = quiet().steered().start().await;
    let (_gate, id) = gone_elsewhere(&federation, job("a")).await;
    advance_until_state(&federation, "stored").await;
    assert_eq!(federation.stored(&id), [(1, 1)]);
    assert_eq!(open(&federation.client).await, 0);
}

#[tokio::test]
async fn a_job_that_timed_out_is_sent_nowhere_else_and_is_shown_as_stored_once_it_is() {
    for http2 in [false, true] {
        let setup = quiet().steered().yaml("limits: { call_timeout: 700ms }");
        let federation = if http2 { setup.http2() } else { setup }.start().await;
        let gate = Gate::new();
        federation.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
        let answer = federation.client.enqueue(job("a")).await;
        assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
        let id = answer.json()["error"]["details"]["job_id"].as_str().unwrap().to_owned();
        let asked = || federation.regions[0].record().requests_to(&format!("/ojs/v1/jobs/{id}")).len();
        let before = asked();
        federation.advance_until("it is asked for again", || asked() > before + 4).await;
        assert_eq!(open(&federation.client).await, 1);
        gate.open();
        advance_until_state(&federation, "stored").await;
        assert_eq!((federation.stored(&id), federation.enqueues(1)), (vec![(0, 1)], 0));
        assert_eq!(federation.metric(r#"outcomes_resolved_total{result="landed"}"#).await, 1.0);
    }
}

#[tokio::test]
async fn with_redirect_a_flexible_job_goes_on_and_a_pinned_one_does_not() {
    let redirect = "failover: { on_unknown: redirect, late_write_grace: 50ms }";
    let federation = crate::support::Setup::default()
        .regions(2)
        .steered()
        .yaml("circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }")
        .yaml(redirect)
        .yaml("limits: { call_timeout: 2s }")
        .start()
        .await;
    let gate = Gate::new();
    federation.regions[0].faults().add(When::enqueue(), Fault::Hold { gate: gate.clone() });
    let (flexible, pinned) =
        tokio::join!(federation.client.enqueue(job("a")), federation.client.enqueue(pinned("us-east-1", "needle")));
    assert_eq!((flexible.status.as_u16(), flexible.region()), (201, "eu-west-1"), "{flexible:?}");
    assert_eq!((pinned.status.as_u16(), pinned.reason().as_str()), (500, "outcome_unknown"));
    assert_eq!(federation.seen("needle"), [0]);
    gate.open();
    eventually("the late writes", async || federation.regions[0].jobs().len() == 2).await;
    advance_until(&federation, "all known", async || open(&federation.client).await == 0).await;
    let cancelled = jobs(&federation).into_iter().filter(|(.., state)| state == "cancelled").count();
    assert_eq!((cancelled, federation.stored(&flexible.job_id())), (1, vec![(1, 1)]));
}
