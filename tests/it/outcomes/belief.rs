//! What is believed of a region's answer, and of whose repetition: nothing that does not show this very job.

use http::{Request, StatusCode};
use ojs_testbed::{DuplicateIds, Fault, FaultAnswer, Gate, When};

use super::{OWN, is_replay, jobs, keyed, outcomes, quiet};
use crate::support::{Answer, Client, Setup, eventually, job, pinned};

fn own(args: &str) -> String {
    format!(r#"{{"id":"{OWN}","type":"email.send","args":["{args}"],"meta":{{"ojs.federation.region":"us-east-1"}}}}"#)
}

/// Two regions that do this with a taken id, and the sidecar told so.
fn guarded(what: DuplicateIds) -> Setup {
    let line = format!("duplicate_ids: {}", what.as_str());
    quiet().duplicate_ids(what).region(0, &line).region(1, &line)
}

fn check_unknown(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (500, "outcome_unknown"), "{answer:?}");
}

async fn authorized(client: Client, token: &str, body: String) -> Answer {
    let request = Request::post("/ojs/v1/jobs").header("content-type", "application/json");
    let request = request.header("idempotency-key", "k").header("authorization", format!("Bearer {token}"));
    client.send(request, body).await
}

#[tokio::test]
async fn a_2xx_that_does_not_show_the_job_is_nobodys_word_about_it_and_no_key_repeats_it() {
    for answer in [FaultAnswer::page(), FaultAnswer::other_job("another"), FaultAnswer::empty(StatusCode::CREATED)] {
        let federation = quiet().start().await;
        federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: false });
        let body = || pinned("us-east-1", "a");
        check_unknown(&keyed(federation.client, "k", body()).await);
        let through = keyed(federation.client, "k", body()).await;
        assert_eq!((through.status.as_u16(), is_replay(&through)), (201, false), "{through:?}");
        assert_eq!(federation.stored(&through.job_id()), [(0, 1)]);
        let again = keyed(federation.client, "k", body()).await;
        assert_eq!((again.job_id(), is_replay(&again)), (through.job_id(), true));
    }
}

#[tokio::test]
async fn an_empty_201_for_a_job_that_was_stored_is_answered_with_the_job() {
    let federation = quiet().start().await;
    let answer = FaultAnswer::empty(StatusCode::CREATED);
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::Answer { answer, store: true });
    let answer = federation.client.enqueue(job("a")).await;
    assert_eq!((answer.status.as_u16(), federation.stored(&answer.job_id())), (201, vec![(0, 1)]), "{answer:?}");
}

#[tokio::test]
async fn another_job_under_the_id_of_a_lost_one_is_not_taken_for_it() {
    // The region that refuses a taken id says so itself; of one that overwrites nobody knows whether the lost one is still to come.
    for (what, status) in [(DuplicateIds::Refuse, 409), (DuplicateIds::Overwrite, 201)] {
        let federation = guarded(what).start().await;
        assert_eq!(federation.client.enqueue(own("first")).await.status, 201);
        federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
        let second = federation.client.enqueue(own("second")).await;
        assert_eq!(second.status.as_u16(), status, "{what:?}: {second:?}");
        let kept = if status == 409 { "first" } else { "second" };
        assert_eq!(federation.regions[0].jobs()[0].args, format!(r#"["{kept}"]"#), "{what:?}");
    }
}

#[tokio::test]
async fn the_same_caller_gets_an_unknown_job_through_and_another_caller_does_not() {
    let federation = quiet().start().await;
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: false });
    federation.mute(0);
    let body = || pinned("us-east-1", "a");
    check_unknown(&authorized(federation.client, "x", body()).await);
    federation.regions[0].faults().clear();
    check_unknown(&authorized(federation.client, "another", body()).await);
    let through = authorized(federation.client, "x", body()).await;
    assert_eq!((through.status.as_u16(), federation.stored(&through.job_id())), (201, vec![(0, 1)]), "{through:?}");
}

#[tokio::test]
async fn a_call_that_a_region_has_swallowed_blocks_its_key_no_longer_than_a_late_write_takes() {
    let federation = quiet().yaml("limits: { call_timeout: 2s }").start().await;
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::HangAfterBody { store: false });
    let body = || pinned("us-east-1", "a");
    check_unknown(&keyed(federation.client, "k", body()).await);
    let through = keyed(federation.client, "k", body()).await;
    assert_eq!((through.status.as_u16(), federation.stored(&through.job_id())), (201, vec![(0, 1)]), "{through:?}");
    let row = outcomes(&federation.client).await["outcomes"][0].take();
    assert_eq!((&row["state"], &row["copies"][0]["detail"]), (&"watched".into(), &"watched".into()), "{row}");
}

#[tokio::test]
async fn where_taken_ids_are_refused_or_returned_a_lost_job_is_stored_once_by_proof() {
    for what in [DuplicateIds::Refuse, DuplicateIds::Same] {
        for store in [false, true] {
            let federation = guarded(what).start().await;
            federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store });
            let answer = federation.client.enqueue(job("a")).await;
            assert_eq!((answer.status.as_u16(), answer.region()), (201, "us-east-1"), "{what:?} {store}: {answer:?}");
            assert_eq!(jobs(&federation).len(), 1, "{what:?} {store}");
            assert_eq!(federation.enqueues(0), 2, "the same job, sent again");
        }
    }
}

#[tokio::test]
async fn a_region_that_has_refused_a_taken_id_is_known_to_refuse_them() {
    let federation = quiet().duplicate_ids(DuplicateIds::Refuse).start().await;
    for status in [201, 409] {
        assert_eq!(federation.client.enqueue(own("a")).await.status.as_u16(), status);
    }
    federation.regions[0].faults().add(When::enqueue().next(1), Fault::CutAfterRequest { store: true });
    let answer = federation.client.enqueue(pinned("us-east-1", "b")).await;
    assert_eq!((answer.status.as_u16(), federation.enqueues(0)), (201, 4), "it was sent again: {answer:?}");
    assert_eq!(federation.regions[0].jobs().len(), 2);
}

#[tokio::test]
async fn a_job_leaves_a_region_that_refuses_taken_ids_only_behind_a_tombstone() {
    for what in [DuplicateIds::Refuse, DuplicateIds::Same] {
        let federation = guarded(what).start().await;
        let gate = Gate::new();
        let faults = federation.regions[0].faults();
        faults.add(When::enqueue().next(1), Fault::Hold { gate: gate.clone() });
        let full = FaultAnswer::error_document(StatusCode::SERVICE_UNAVAILABLE, "backend_error");
        faults.add(When::enqueue().next(1), Fault::Answer { answer: full, store: false });
        let client = federation.client;
        let call = tokio::spawn(async move { client.enqueue(job("a")).await });
        federation.regions[0]
            .record()
            .wait_for(|record| record.requests_to("/ojs/v1/jobs").iter().any(|it| it.complete))
            .await;
        federation.regions[0].cut_connections().await;
        let answer = call.await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.region()), (201, "eu-west-1"), "{what:?}: {answer:?}");
        gate.open();
        eventually("the tombstone is cancelled", async || {
            let there = federation.regions[0].jobs();
            there.iter().all(|it| it.state.as_str() == "cancelled") && !there.is_empty()
        })
        .await;
        let there = federation.regions[0].jobs();
        let kinds: Vec<_> = there.iter().map(|it| (it.id.clone(), it.kind.clone())).collect();
        assert_eq!(kinds, [(there[0].id.clone(), "ojs.federation.fence".to_owned())], "{what:?}");
        assert_eq!(federation.stored(&answer.job_id()).iter().filter(|(place, _)| *place == 1).count(), 1);
        assert_eq!(federation.metric("fences_total").await, 1.0);
    }
}

#[tokio::test]
async fn a_page_in_the_place_of_an_answer_to_a_batch_is_no_word_about_its_jobs() {
    for answer in [FaultAnswer::page(), FaultAnswer::other_job("another")] {
        let federation = quiet().start().await;
        let enqueue = When::path("/ojs/v1/jobs/batch");
        federation.regions[0].faults().add(enqueue, Fault::Answer { answer, store: false });
        let body = format!(r#"{{"jobs":[{},{}]}}"#, job("a"), job("b"));
        check_unknown(&federation.client.post("/ojs/v1/jobs/batch", body).await);
        let row = outcomes(&federation.client).await["outcomes"][0].take();
        assert_eq!((&row["state"], &row["region"]), (&"unknown".into(), &"us-east-1".into()), "{row}");
    }
}
