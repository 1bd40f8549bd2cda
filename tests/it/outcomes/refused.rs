//! A job under the client's own id that was sent, lost, proved absent, sent again and refused: the region may still store the first
//! one, under the id that its client was told is not there.

use http::{Request, StatusCode};
use ojs_testbed::{Fault, FaultAnswer, When};

use super::{Cut, OWN, advance_until, background_has_asked, is_replay, jobs, keyed, outcomes, quiet, start_next};
use crate::support::{Answer, Federation, Setup, eventually, pinned};

fn own(needle: &str) -> String {
    format!(
        r#"{{"id":"{OWN}","type":"email.send","args":["{needle}"],"meta":{{"ojs.federation.region":"us-east-1"}}}}"#
    )
}

/// With a credential, by which a region may judge who sees a job; the background has none.
fn enqueue(federation: &Federation, body: String) -> impl Future<Output = Answer> + Send + 'static {
    let client = federation.client;
    let request = Request::post("/ojs/v1/jobs").header("content-type", "application/json");
    async move { client.send(request.header("authorization", "Bearer one"), body).await }
}

fn limited() -> Fault {
    let answer = FaultAnswer::error_document(StatusCode::TOO_MANY_REQUESTS, "rate_limited");
    Fault::Answer { answer, store: false }
}

/// Sends the job, cuts its connection, and lets the region refuse the second one.
async fn refused(federation: &Federation) -> Cut {
    refused_with(federation, enqueue(federation, own("a"))).await
}

async fn refused_with(federation: &Federation, enqueue: impl Future<Output = Answer> + Send + 'static) -> Cut {
    let cut = refused_after(federation, enqueue).await;
    assert_eq!(federation.enqueues(0), 2);
    cut
}

async fn refused_after(federation: &Federation, enqueue: impl Future<Output = Answer> + Send + 'static) -> Cut {
    let mut cut = Cut::begin_with(federation, enqueue).await;
    federation.regions[0].faults().add(When::enqueue().next(1), limited());
    let answer = cut.answer().await;
    assert_eq!(answer.status, 429, "{answer:?}");
    cut
}

#[tokio::test]
async fn a_late_write_after_the_refusal_is_told() {
    let federation = quiet().steered().start().await;
    let cut = refused(&federation).await;
    let shown = outcomes(&federation.client).await["outcomes"][0].take();
    assert_eq!((&shown["job_id"], &shown["state"]), (&OWN.into(), &"watched".into()), "{shown}");
    assert_eq!((&shown["region"], &shown["told"]), (&"us-east-1".into(), &"refused".into()), "{shown}");
    cut.gate.open();
    eventually("the late write", async || !federation.regions[0].jobs().is_empty()).await;
    let has_landed = async || outcomes(&federation.client).await["outcomes"][0]["state"] == "stored";
    advance_until(&federation, "it is told", has_landed).await;
    let jobs = jobs(&federation);
    assert_eq!(jobs, [(0, OWN.to_owned(), 1, "available".to_owned())], "and it stays");
    // Who repeats the job now learns of it, and it is not stored again.
    let again = enqueue(&federation, own("a")).await;
    assert_eq!((again.status.as_u16(), again.job_id().as_str(), federation.enqueues(0)), (201, OWN, 2), "{again:?}");
}

#[tokio::test]
async fn what_does_not_come_late_is_let_go_and_counted_as_absent() {
    let federation = quiet().steered().start().await;
    let client = federation.client;
    let _cut = refused_with(&federation, async move { client.enqueue(own("a")).await }).await;
    let state = async || outcomes(&federation.client).await["outcomes"][0]["state"].clone();
    federation.advance(std::time::Duration::from_secs(14 * 60));
    let asked = || federation.regions[0].record().requests_to(&format!("/ojs/v1/jobs/{OWN}")).len();
    let before = asked();
    federation.advance_until("it is asked for again", || asked() > before + 2).await;
    assert_eq!(state().await, "watched", "it may still come");
    // What is said in the region's place, or before the wait is over, lets nothing go.
    federation.mute(0);
    federation.advance(std::time::Duration::from_secs(10 * 60));
    let before = asked();
    federation.advance_until("it is asked for again", || asked() > before + 1).await;
    assert_eq!(state().await, "watched", "nobody has said that it is not there");
    federation.regions[0].faults().clear();
    advance_until(&federation, "it is let go", async || state().await == "absent").await;
    assert!(jobs(&federation).is_empty());
}

#[tokio::test]
async fn what_the_background_may_not_see_is_never_told_as_absent() {
    let federation = quiet().steered().start().await;
    let _cut = refused(&federation).await;
    federation.advance(std::time::Duration::from_secs(25 * 60 * 60));
    let is_over = async || outcomes(&federation.client).await["outcomes"][0]["state"] != "watched";
    advance_until(&federation, "it is let go", is_over).await;
    assert_eq!(outcomes(&federation.client).await["outcomes"][0]["state"], "expired");
}

#[tokio::test]
async fn a_refused_job_is_sent_when_its_client_repeats_it_whatever_its_body_is_then() {
    for needle in ["a", "mended"] {
        let federation = quiet().start().await;
        let _cut = refused(&federation).await;
        let again = enqueue(&federation, own(needle)).await;
        assert_eq!((again.status.as_u16(), again.job_id().as_str()), (201, OWN), "{again:?}");
        assert!(!is_replay(&again));
        assert_eq!((federation.stored(OWN), federation.enqueues(0)), (vec![(0, 1)], 3));
        assert_eq!(
            outcomes(&federation.client).await["outcomes"][0]["state"],
            "watched",
            "the first one may still come"
        );
    }
}

#[tokio::test]
async fn a_late_write_is_no_answer_to_another_job_under_its_id() {
    let federation = quiet().steered().start().await;
    let cut = refused(&federation).await;
    background_has_asked(&federation).await;
    cut.gate.open();
    eventually("the late write", async || !federation.regions[0].jobs().is_empty()).await;
    let mended = enqueue(&federation, own("mended")).await;
    assert!(!is_replay(&mended), "{mended:?}");
    assert_eq!(federation.enqueues(0), 3, "its region judges what the id is worth");
}

fn flexible(needle: &str) -> String {
    format!(r#"{{"id":"{OWN}","type":"email.send","args":["{needle}"]}}"#)
}

/// Lost in the first region and refused by the second one; then sent again, and stored by the second one.
async fn elsewhere(federation: &Federation, again: &str) -> Cut {
    let mut cut = Cut::begin_with(federation, enqueue(federation, flexible("a"))).await;
    federation.regions[1].faults().add(When::enqueue().next(1), limited());
    let answer = cut.answer().await;
    assert_eq!((answer.status.as_u16(), federation.enqueues(1)), (429, 1), "{answer:?}");
    let down = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer: down, store: false });
    let again = enqueue(federation, flexible(again)).await;
    assert_eq!((again.status.as_u16(), again.region()), (201, "eu-west-1"), "{again:?}");
    cut
}

#[tokio::test]
async fn a_late_write_never_cancels_another_job_under_its_id() {
    let federation = quiet().steered().start().await;
    let cut = elsewhere(&federation, "mended").await;
    cut.gate.open();
    eventually("the late write", async || !federation.regions[0].jobs().is_empty()).await;
    start_next(&federation, 0).await;
    let has_landed = async || outcomes(&federation.client).await["outcomes"][0]["state"] == "stored";
    advance_until(&federation, "it is told", has_landed).await;
    let states: Vec<_> = jobs(&federation).into_iter().map(|(place, .., state)| (place, state)).collect();
    assert_eq!(states, [(0, "active".to_owned()), (1, "available".to_owned())]);
    // Nobody doubts where the one that was stored is, so that a repetition is its region's to judge.
    let again = enqueue(&federation, flexible("mended")).await;
    assert_ne!(again.status, 500, "{again:?}");
}

#[tokio::test]
async fn a_job_that_was_proved_absent_everywhere_is_sent_when_its_client_repeats_it() {
    let federation = quiet().start().await;
    let lost = Fault::CutAfterRequest { store: false };
    federation.regions[0].faults().add(When::enqueue().next(1), lost.clone());
    federation.regions[1].faults().add(When::enqueue().next(2), lost);
    let answer = enqueue(&federation, flexible("a")).await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
    assert_eq!((federation.enqueues(0), federation.enqueues(1)), (1, 2));
    let again = enqueue(&federation, flexible("a")).await;
    assert_eq!((again.status.as_u16(), again.region()), (201, "us-east-1"), "{again:?}");
    assert_eq!(federation.stored(OWN), [(0, 1)]);
}

#[tokio::test]
async fn another_body_is_not_sent_under_the_id_of_a_job_whose_late_copy_is_watched_for_its_sake() {
    let federation = quiet().start().await;
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
    let stored = enqueue(&federation, flexible("a")).await;
    assert_eq!((stored.status.as_u16(), stored.region()), (201, "eu-west-1"), "{stored:?}");
    let other = enqueue(&federation, flexible("b")).await;
    assert_eq!((other.status.as_u16(), other.reason().as_str()), (503, "id_in_use"), "{other:?}");
    assert!(other.headers.contains_key("retry-after"), "{other:?}");
    assert_eq!((federation.enqueues(0), federation.enqueues(1)), (1, 1), "one could be cancelled for the other");
}

#[tokio::test]
async fn a_late_write_after_the_repetition_ended_unknown_elsewhere_is_cancelled() {
    let federation = quiet().steered().start().await;
    let client = federation.client;
    let mut cut = Cut::begin_with(&federation, async move { client.enqueue(flexible("a")).await }).await;
    federation.regions[1].faults().add(When::enqueue().next(1), limited());
    assert_eq!(cut.answer().await.status, 429);
    let down = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer: down, store: false });
    federation.regions[1].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: true });
    federation.mute(1);
    let again = client.enqueue(flexible("a")).await;
    assert_eq!((again.status.as_u16(), again.reason().as_str()), (500, "outcome_unknown"), "{again:?}");
    federation.regions[1].faults().clear();
    cut.gate.open();
    eventually("the late write", async || !federation.regions[0].jobs().is_empty()).await;
    let states = || jobs(&federation).into_iter().map(|(place, .., state)| (place, state)).collect::<Vec<_>>();
    let expected = [(0, "cancelled".to_owned()), (1, "available".to_owned())];
    advance_until(&federation, "one of them is cancelled", async || states() == expected).await;
}

#[tokio::test]
async fn a_key_leads_to_whatever_its_calls_have_left() {
    for which in ["the first", "the second", "the first, after one that was refused at once"] {
        let federation = quiet().start().await;
        let client = federation.client;
        let with_key = || keyed(client, "k", pinned("us-east-1", "a"));
        // Twice: sent, lost, proved absent, sent again under a new id, and refused.
        let first = refused_after(&federation, with_key()).await;
        let late = match which {
            "the first" => {
                refused_after(&federation, with_key()).await;
                first
            }
            "the second" => refused_after(&federation, with_key()).await,
            _ => {
                federation.regions[0].faults().add(When::enqueue().next(1), limited());
                assert_eq!(with_key().await.status, 429);
                first
            }
        };
        let sent = federation.enqueues(0);
        late.gate.open();
        eventually("the late write", async || !federation.regions[0].jobs().is_empty()).await;
        let again = with_key().await;
        assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true), "{which}: {again:?}");
        assert_eq!((federation.regions[0].jobs().len(), federation.enqueues(0)), (1, sent), "{which}");
    }
}

#[tokio::test]
async fn a_late_write_after_the_repetition_went_elsewhere_is_cancelled() {
    let federation = quiet().steered().start().await;
    let cut = elsewhere(&federation, "a").await;
    cut.gate.open();
    eventually("the late write", async || !federation.regions[0].jobs().is_empty()).await;
    let has_landed = async || outcomes(&federation.client).await["outcomes"][0]["state"] == "stored";
    advance_until(&federation, "it is told", has_landed).await;
    let states: Vec<_> = jobs(&federation).into_iter().map(|(place, .., state)| (place, state)).collect();
    assert_eq!(states, [(0, "cancelled".to_owned()), (1, "available".to_owned())]);
}

#[tokio::test]
async fn a_late_write_of_a_job_that_the_budget_kept_back_is_told_too() {
    let poor = "failover: { late_write_grace: 50ms, retry_budget: { ratio: 0, floor: 0 } }";
    let patient = "circuit_breaker: { failure_threshold: 1000, failure_ratio: 2 }";
    // However long a probe takes on a busy machine, the region stays healthy.
    let probed = "health_check: { timeout: 10min }";
    let federation = Setup::default().regions(2).steered().yaml(poor).yaml(patient).yaml(probed).start().await;
    let client = federation.client;
    let with_key = || keyed(client, "k", pinned("us-east-1", "b"));
    // The balance is ten at first, and each second send takes one.
    for round in 0..10 {
        federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
        let answer = client.enqueue(pinned("us-east-1", &format!("spent-{round}"))).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let has_landed = async || outcomes(&federation.client).await["outcomes"][0]["state"] == "stored";
    let mut cut = Cut::begin_with(&federation, async move { client.enqueue(own("a")).await }).await;
    let answer = cut.answer().await;
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (503, "retry_budget"), "{answer:?}");
    cut.gate.open();
    advance_until(&federation, "it is told", has_landed).await;
    assert_eq!((federation.stored(OWN), federation.enqueues(0)), (vec![(0, 1)], 21));
    // With a key and without an id of its own, who repeats it gets the late one, and no second one.
    let mut cut = Cut::begin_with(&federation, with_key()).await;
    assert_eq!(cut.answer().await.status, 503);
    cut.gate.open();
    eventually("the late write", async || federation.regions[0].jobs().len() == 12).await;
    let again = with_key().await;
    assert_eq!((again.status.as_u16(), is_replay(&again)), (201, true), "{again:?}");
    assert_eq!((federation.regions[0].jobs().len(), federation.enqueues(0)), (12, 22));
}
