mod cron;
mod failing;
mod unique;
mod workflow;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::*;
use crate::envelope::Reading;
use crate::failure::Failure;
use crate::members::Members;
use crate::retry::Retry;
use ojs_handles::SteeredTime;

const START_MS: u64 = 1_773_570_600_000;

fn speaking(dialect: Dialect) -> (Arc<SteeredTime>, Store) {
    let time = SteeredTime::starting_at(START_MS);
    let store = Store::new(Clock::new(Arc::new(Arc::clone(&time))), dialect);
    (time, store)
}

fn steered() -> (Arc<SteeredTime>, Store) {
    speaking(Dialect::Spec)
}

fn envelope(source: &str) -> Envelope {
    let retry = Retry::doubling(3, Duration::from_secs(1), false);
    Envelope::parse(Bytes::from(source.to_owned()), &Reading { dialect: Dialect::Spec, any_id: true, retry }).unwrap()
}

fn try_enqueue(store: &mut Store, id: &str, options: &str) -> Result<(), Refused> {
    let source = format!(r#"{{"type":"a","args":[],"id":"{id}","options":{options}}}"#);
    store.enqueue(envelope(&source)).map(|_| ())
}

fn enqueue(store: &mut Store, id: &str, options: &str) {
    try_enqueue(store, id, options).unwrap();
}

fn fetch(store: &mut Store, queues: &[&str], count: usize) -> Vec<String> {
    let queues = queues.iter().map(|&name| name.to_owned()).collect();
    let claim = Claim { queues, count, worker_id: None, visibility_ms: None, tenant: None };
    store.fetch(&claim).into_iter().map(|job| job.id.clone()).collect()
}

fn failure(retryable: bool, requeue: bool) -> Failure {
    Failure { error: Members::default(), retryable, requeue }
}

fn state(store: &mut Store, id: &str) -> JobState {
    store.job(id).unwrap().state
}

#[test]
fn queues_are_emptied_in_the_order_asked_for_then_by_priority_then_by_arrival() {
    let (_, mut store) = steered();
    for (id, options) in [
        ("low", r#"{"queue":"b","priority":-1}"#),
        ("first", r#"{"queue":"b"}"#),
        ("second", r#"{"queue":"b"}"#),
        ("urgent", r#"{"queue":"b","priority":9}"#),
        ("other", r#"{"queue":"a"}"#),
    ] {
        enqueue(&mut store, id, options);
    }
    assert_eq!(fetch(&mut store, &["a", "b", "none"], 3), ["other", "urgent", "first"]);
    assert_eq!(fetch(&mut store, &["b", "b"], 9), ["second", "low"]);
}

#[test]
fn a_lease_that_runs_out_makes_the_job_available_and_a_heartbeat_extends_it() {
    let (time, mut store) = steered();
    enqueue(&mut store, "one", "{}");
    assert_eq!(fetch(&mut store, &["default"], 1), ["one"]);
    time.advance(Duration::from_secs(29));
    assert_eq!(store.heartbeat(vec!["one".to_owned(), "none".to_owned()], Some(10_000)), ["one"]);
    time.advance(Duration::from_millis(9_999));
    assert_eq!(state(&mut store, "one"), JobState::Active);
    time.advance(Duration::from_millis(1));
    assert_eq!(state(&mut store, "one"), JobState::Available);
    assert_eq!(store.ack("one", None).unwrap_err(), Refused::Conflict(JobState::Available));
    assert_eq!(fetch(&mut store, &["default"], 1), ["one"]);
    assert_eq!(store.job("one").unwrap().attempt, 2);
}

#[test]
fn a_failed_job_backs_off_and_is_discarded_after_its_last_attempt() {
    let (time, mut store) = steered();
    enqueue(&mut store, "one", "{}");
    for wait_s in [1, 2] {
        fetch(&mut store, &["default"], 1);
        assert_eq!(store.nack("one", &failure(true, false)).unwrap().state, JobState::Retryable);
        time.advance(Duration::from_millis(wait_s * 1_000 - 1));
        assert!(fetch(&mut store, &["default"], 1).is_empty());
        time.advance(Duration::from_millis(1));
    }
    fetch(&mut store, &["default"], 1);
    let job = store.nack("one", &failure(true, false)).unwrap();
    assert_eq!((job.state, job.attempt), (JobState::Discarded, 3));
}

#[test]
fn a_job_that_is_handed_back_is_next_at_once_and_one_that_must_not_be_retried_is_not() {
    let (_, mut store) = steered();
    enqueue(&mut store, "one", "{}");
    enqueue(&mut store, "two", "{}");
    assert_eq!(fetch(&mut store, &["default"], 1), ["one"]);
    store.nack("one", &failure(true, true)).unwrap();
    assert_eq!(fetch(&mut store, &["default"], 1), ["one"]);
    assert_eq!(store.nack("one", &failure(false, false)).unwrap().state, JobState::Discarded);
    assert_eq!(fetch(&mut store, &["default"], 9), ["two"]);
}

#[test]
fn a_delayed_job_waits_for_its_time() {
    let (time, mut store) = steered();
    enqueue(&mut store, "late", r#"{"delay_until":"2026-03-15T10:30:05Z"}"#);
    enqueue(&mut store, "past", r#"{"scheduled_at":"2026-03-15T10:29:59Z"}"#);
    assert_eq!(state(&mut store, "late"), JobState::Scheduled);
    assert_eq!(fetch(&mut store, &["default"], 9), ["past"]);
    time.advance(Duration::from_secs(5));
    assert_eq!(fetch(&mut store, &["default"], 9), ["late"]);
}

#[test]
fn a_job_that_waits_longer_than_it_is_worth_is_discarded_at_its_time_and_one_with_a_worker_is_not() {
    let (time, mut store) = steered();
    for (id, options) in [
        ("late", r#"{"expires_at":"+PT2S","delay_until":"+PT5S"}"#),
        ("ready", r#"{"expires_at":"2026-03-15T10:30:02Z"}"#),
        ("past", r#"{"expires_at":"2026-03-15T10:29:00Z"}"#),
        ("kept", r#"{"expires_at":"+PT60S"}"#),
    ] {
        enqueue(&mut store, id, options);
    }
    enqueue(&mut store, "active", r#"{"queue":"other","expires_at":"+PT2S","retry":{"initial_interval":"PT1S"}}"#);
    fetch(&mut store, &["other"], 1);
    time.advance(Duration::from_secs(10));
    for id in ["late", "ready", "past"] {
        let job = store.job(id).unwrap();
        assert_eq!((job.state, job.is_expired, job.is_dead), (JobState::Discarded, true, false), "{id}");
        assert!(!job.document().contains("completed_at"), "{id}");
    }
    assert!(store.job("ready").unwrap().document().contains(r#""discarded_at":"2026-03-15T10:30:02.000Z""#));
    assert_eq!(fetch(&mut store, &["default"], 9), ["kept"]);
    assert_eq!(store.nack("active", &failure(true, false)).unwrap().state, JobState::Retryable);
    assert_eq!(state(&mut store, "active"), JobState::Discarded);
}

#[test]
fn a_queue_hands_out_no_more_jobs_than_its_last_limit_allows() {
    let (time, mut store) = steered();
    for id in ["one", "two", "three"] {
        enqueue(&mut store, id, r#"{"rate_limit":{"max_per_second":2}}"#);
    }
    enqueue(&mut store, "free", r#"{"queue":"other","rate_limit":{"max_per_second":0}}"#);
    assert_eq!(fetch(&mut store, &["default", "other"], 9), ["one", "free"]);
    time.advance(Duration::from_millis(499));
    assert!(fetch(&mut store, &["default"], 9).is_empty());
    time.advance(Duration::from_millis(1));
    assert_eq!(fetch(&mut store, &["default"], 9), ["two"]);
    time.advance(Duration::from_secs(1));
    assert_eq!(fetch(&mut store, &["default"], 9), ["three"]);
}

#[test]
fn an_answer_is_kept_for_a_day_and_given_to_the_same_request_only() {
    let (time, mut store) = steered();
    let (one, other) = (Bytes::from_static(b"1"), Bytes::from_static(b"2"));
    assert_eq!(store.answer_to("k", &one), Known::Nothing);
    store.keep_answer("k".to_owned(), &one, StatusCode::CREATED, "a".to_owned());
    time.advance(Duration::from_secs(86_399));
    assert_eq!(store.answer_to("k", &one), Known::Answer(StatusCode::CREATED, "a".to_owned()));
    assert_eq!(store.answer_to("k", &other), Known::OtherRequest);
    time.advance(Duration::from_secs(1));
    assert_eq!(store.answer_to("k", &other), Known::Nothing);
    for number in 0..1_000 {
        store.keep_answer(format!("n{number}"), &one, StatusCode::OK, String::new());
    }
    assert_eq!(store.answer_to("k", &one), Known::Nothing);
    assert_ne!(store.answer_to("n0", &one), Known::Nothing);
}

#[test]
fn only_what_is_not_final_can_be_cancelled_and_only_what_is_active_acknowledged() {
    let (_, mut store) = steered();
    enqueue(&mut store, "one", "{}");
    assert_eq!(store.ack("one", None).unwrap_err(), Refused::Conflict(JobState::Available));
    assert_eq!(store.cancel("one").unwrap().state, JobState::Cancelled);
    assert_eq!(store.cancel("one").unwrap_err(), Refused::Conflict(JobState::Cancelled));
    assert_eq!(store.cancel("none").unwrap_err(), Refused::NotFound);
    assert!(fetch(&mut store, &["default"], 1).is_empty());
}

#[test]
fn a_repeated_id_overwrites_the_job_even_an_active_one_where_servers_in_go_do_so() {
    let (time, mut store) = speaking(Dialect::Reference);
    enqueue(&mut store, "one", r#"{"queue":"old"}"#);
    fetch(&mut store, &["old"], 1);
    enqueue(&mut store, "one", r#"{"queue":"new"}"#);
    time.advance(Duration::from_secs(60));
    assert_eq!(store.queue("old").counts.of(JobState::Active), 0);
    assert_eq!(store.queue("old").counts.of(JobState::Available), 0);
    assert_eq!(fetch(&mut store, &["old", "new"], 9), ["one"]);
    let jobs = store.snapshot();
    assert_eq!((jobs.len(), jobs[0].stored, jobs[0].attempt), (1, 2, 1));
}

#[test]
fn finished_jobs_beyond_the_bound_are_forgotten_but_stay_counted() {
    let (_, mut store) = steered();
    let job = envelope(r#"{"type":"a","args":[]}"#);
    for _ in 0..=FINISHED_MAX {
        let id = store.enqueue(job.clone()).unwrap().id.clone();
        store.cancel(&id).unwrap();
    }
    assert_eq!(store.snapshot().len(), FINISHED_MAX);
    let counted = store.queue("default").counts.of(JobState::Cancelled);
    assert_eq!(usize::try_from(counted), Ok(FINISHED_MAX + 1));
}

#[test]
fn a_repeated_id_is_a_conflict_by_the_documents_and_is_counted_all_the_same() {
    let (_, mut store) = steered();
    enqueue(&mut store, "one", r#"{"queue":"old"}"#);
    assert_eq!(try_enqueue(&mut store, "one", r#"{"queue":"new"}"#), Err(Refused::Duplicate));
    let jobs = store.snapshot();
    assert_eq!((jobs.len(), jobs[0].stored, jobs[0].queue.as_str()), (1, 2, "old"));
    let batch = ["two", "one"].map(|id| envelope(&format!(r#"{{"type":"a","args":[],"id":"{id}"}}"#)));
    assert_eq!(store.first_duplicate(&batch), Some((1, "one".to_owned())));
    let twins = [batch[0].clone(), batch[0].clone()];
    assert_eq!(store.first_duplicate(&twins), Some((1, "two".to_owned())));
    assert_eq!(store.snapshot().len(), 1);
}

#[test]
fn a_job_that_is_only_put_down_waits_for_its_activation() {
    let (_, mut store) = steered();
    enqueue(&mut store, "one", r#"{"pending":true}"#);
    assert_eq!(state(&mut store, "one"), JobState::Pending);
    assert!(fetch(&mut store, &["default"], 1).is_empty());
    assert_eq!(store.activate("one").unwrap().state, JobState::Available);
    assert_eq!(store.activate("one").unwrap_err(), Refused::Conflict(JobState::Available));
    assert_eq!(fetch(&mut store, &["default"], 1), ["one"]);
}

#[test]
fn a_worker_is_told_the_strictest_of_what_was_said_to_it_and_of_what_its_jobs_ask_for() {
    let (_, mut store) = steered();
    enqueue(&mut store, "plain", r#"{"metadata":{"n":1}}"#);
    enqueue(&mut store, "quiet", r#"{"metadata":{"test_directive":"quiet"}}"#);
    let ids = |ids: &[&str]| ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
    assert_eq!(store.directive("w", &ids(&["plain", "none"])), Directive::Continue);
    assert_eq!(store.directive("w", &ids(&["plain", "quiet"])), Directive::Quiet);
    store.direct("w", Directive::Terminate);
    assert_eq!(store.directive("w", &ids(&["quiet"])), Directive::Terminate);
    assert_eq!(store.directive("other", &[]), Directive::Continue);
}

#[test]
fn the_events_tell_a_jobs_life_and_can_be_asked_for_in_parts() {
    use crate::events::Asked;
    let (_, mut store) = steered();
    enqueue(&mut store, "one", r#"{"queue":"q","retry":{"max_attempts":1}}"#);
    enqueue(&mut store, "late", r#"{"queue":"other","delay_until":"2030-01-01T00:00:00Z"}"#);
    fetch(&mut store, &["q"], 1);
    store.heartbeat(vec!["one".to_owned()], None);
    store.nack("one", &failure(true, false)).unwrap();
    store.cancel("late").unwrap();
    store.pause("q", true);
    store.pause("q", true);
    store.pause("q", false);
    let kinds = |store: &mut Store, asked: Asked| {
        let (events, more) = store.events().asked(&asked);
        (events.iter().map(|event| event.kind).collect::<Vec<_>>(), more)
    };
    let of_q = || Asked { queues: vec!["q".to_owned()], limit: 99, ..Asked::default() };
    let life = [
        "job.enqueued",
        "job.started",
        "job.heartbeat",
        "job.failed",
        "job.discarded",
        "queue.paused",
        "queue.resumed",
    ];
    assert_eq!(kinds(&mut store, of_q()), (life.to_vec(), false));
    assert_eq!(kinds(&mut store, Asked { limit: 2, ..of_q() }), (life[..2].to_vec(), true));
    let second = store.events().since(0).filter(|event| event.queue == "q").nth(1).unwrap().id.clone();
    assert_eq!(kinds(&mut store, Asked { after: Some(second), ..of_q() }), (life[2..].to_vec(), false));
    let asked =
        Asked { kinds: vec!["job.cancelled".to_owned(), "job.scheduled".to_owned()], limit: 9, ..Asked::default() };
    assert_eq!(kinds(&mut store, asked), (vec!["job.scheduled", "job.cancelled"], false));
}
