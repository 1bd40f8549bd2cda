//! Attempts that fail, and what becomes of their jobs.

use super::*;
use crate::filter::Filter;

#[test]
fn an_attempt_that_takes_too_long_fails_whatever_its_worker_says() {
    let (time, mut store) = steered();
    enqueue(&mut store, "one", r#"{"timeout_ms":40000,"retry":{"max_attempts":2}}"#);
    fetch(&mut store, &["default"], 1);
    time.advance(Duration::from_secs(29));
    store.heartbeat(vec!["one".to_owned()], None);
    time.advance(Duration::from_millis(10_999));
    assert_eq!(state(&mut store, "one"), JobState::Active);
    time.advance(Duration::from_millis(1));
    let job = store.job("one").unwrap();
    assert_eq!((job.state, job.due_ms), (JobState::Retryable, Some(START_MS + 41_000)));
    assert!(job.errors[0].contains(r#""type":"timeout""#), "{:?}", job.errors);
}

#[test]
fn what_is_due_happens_at_its_own_moment_however_late_somebody_looks() {
    let (time, mut store) = steered();
    enqueue(&mut store, "one", r#"{"timeout_ms":2000}"#);
    fetch(&mut store, &["default"], 1);
    time.advance(Duration::from_secs(60));
    let job = store.job("one").unwrap();
    assert_eq!(job.state, JobState::Available);
    assert!(job.errors[0].contains("2026-03-15T10:30:02.000Z"), "{:?}", job.errors);
}

#[test]
fn a_worker_that_vanishes_costs_an_attempt_by_the_documents_and_none_at_servers_in_go() {
    let go = JobState::Available;
    for (dialect, last) in [(Dialect::Spec, JobState::Discarded), (Dialect::Reference, go), (Dialect::Redis, go)] {
        let (time, mut store) = speaking(dialect);
        enqueue(&mut store, "one", r#"{"retry":{"max_attempts":2}}"#);
        for expected in [JobState::Available, last] {
            fetch(&mut store, &["default"], 1);
            time.advance(Duration::from_secs(30));
            assert_eq!(state(&mut store, "one"), expected, "{dialect:?}");
        }
    }
}

#[test]
fn the_last_attempt_is_the_same_whether_attempts_count_when_they_begin_or_fail() {
    let failure = |requeue| Failure { error: Members::default(), retryable: true, requeue };
    for dialect in Dialect::ALL {
        let (time, mut store) = speaking(dialect);
        let counts_at_fetch = u32::from(dialect != Dialect::Redis);
        enqueue(&mut store, "one", r#"{"retry":{"max_attempts":2,"jitter":false}}"#);
        for (failed, next) in [(0, JobState::Retryable), (1, JobState::Discarded)] {
            fetch(&mut store, &["default"], 1);
            assert_eq!(store.job("one").unwrap().attempt, failed + counts_at_fetch, "{dialect:?}");
            let job = store.nack("one", &failure(false)).unwrap();
            assert_eq!((job.attempt, job.state), (failed + 1, next), "{dialect:?}");
            time.advance(Duration::from_secs(60));
        }
        // Given back, a job has used up no attempt where they count when they fail.
        enqueue(&mut store, "two", r#"{"retry":{"max_attempts":1}}"#);
        for given_back in 1..3 {
            fetch(&mut store, &["default"], 1);
            let job = store.nack("two", &failure(true)).unwrap();
            assert_eq!((job.attempt, job.state), (given_back * counts_at_fetch, JobState::Available), "{dialect:?}");
        }
        fetch(&mut store, &["default"], 1);
        assert_eq!(store.nack("two", &failure(false)).unwrap().state, JobState::Discarded, "{dialect:?}");
    }
}

#[test]
fn a_heartbeat_without_a_number_extends_by_what_the_worker_was_given() {
    let (time, mut store) = steered();
    enqueue(&mut store, "one", r#"{"visibility_timeout_ms":3000}"#);
    fetch(&mut store, &["default"], 1);
    time.advance(Duration::from_millis(2_000));
    store.heartbeat(vec!["one".to_owned()], None);
    time.advance(Duration::from_millis(2_999));
    assert_eq!(state(&mut store, "one"), JobState::Active);
    time.advance(Duration::from_millis(1));
    assert_eq!(state(&mut store, "one"), JobState::Available);
}

fn check_end(retry: &str, error: &str, retryable: bool, expected: (JobState, bool)) {
    let (_, mut store) = steered();
    enqueue(&mut store, "one", &format!(r#"{{"retry":{retry}}}"#));
    fetch(&mut store, &["default"], 1);
    let failure = Failure { error: Members::parse(error.as_bytes()).unwrap(), retryable, requeue: false };
    let job = store.nack("one", &failure).unwrap();
    assert_eq!((job.state, job.is_dead), expected, "{retry} {error} {retryable}");
}

#[test]
fn policy_and_error_decide_together_whether_a_failed_job_is_retried_discarded_or_kept() {
    use JobState::{Discarded, Retryable};
    check_end("{}", "{}", true, (Retryable, false));
    check_end("{}", "{}", false, (Discarded, false));
    check_end(r#"{"max_attempts":0}"#, "{}", true, (Discarded, false));
    check_end(r#"{"max_attempts":1,"on_exhaustion":"dead_letter"}"#, "{}", true, (Discarded, true));
    check_end(r#"{"on_exhaustion":"dead_letter"}"#, "{}", false, (Discarded, true));
    check_end(r#"{"non_retryable_errors":["auth.*"]}"#, r#"{"type":"auth.expired"}"#, true, (Discarded, false));
    let class = r#"{"code":"handler_error","details":{"error_class":"Fatal"}}"#;
    check_end(r#"{"non_retryable_errors":["Fatal"]}"#, class, true, (Discarded, false));
    check_end(r#"{"on_exhaustion":"dead_letter"}"#, r#"{"code":"DISCARD"}"#, true, (Discarded, false));
    check_end("{}", r#"{"code":"DEAD_LETTER"}"#, true, (Discarded, true));
}

#[test]
fn a_dead_letter_can_be_listed_retried_with_all_its_attempts_and_deleted() {
    let (time, mut store) = steered();
    for id in ["one", "two"] {
        enqueue(&mut store, id, r#"{"retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}}"#);
        fetch(&mut store, &["default"], 1);
        store.nack(id, &failure(true, false)).unwrap();
        time.advance(Duration::from_secs(1));
    }
    let ids = |store: &mut Store, filter: &Filter| -> Vec<String> {
        store.select_dead(filter).into_iter().map(|(_, job)| job.id.clone()).collect()
    };
    let all = Filter::default();
    assert_eq!(ids(&mut store, &all), ["one", "two"]);
    assert!(ids(&mut store, &Filter { queue: Some("other".to_owned()), ..Filter::default() }).is_empty());
    let retried = store.retry_dead_letter("one").unwrap();
    assert_eq!((retried.state, retried.attempt, retried.errors.len()), (JobState::Available, 0, 1));
    assert_eq!(store.retry_dead_letter("one").unwrap_err(), Refused::NotFound);
    store.delete_dead_letter("two").unwrap();
    assert!(store.job("two").is_none());
    assert!(ids(&mut store, &all).is_empty());
    assert_eq!(fetch(&mut store, &["default"], 1), ["one"]);
}
