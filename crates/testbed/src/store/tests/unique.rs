//! Jobs that keep out others of their kind.

use super::*;

/// Submits a job and tells its id, or of a duplicate, or of the id that refuses it.
fn submit(store: &mut Store, id: &str, unique: &str) -> String {
    let source = format!(r#"{{"type":"a","args":[],"id":"{id}","options":{{"unique":{unique}}}}}"#);
    match store.submit(envelope(&source)) {
        Ok(submitted) if submitted.is_duplicate => format!("duplicate of {}", submitted.job.id),
        Ok(submitted) => submitted.job.id.clone(),
        Err(there) => format!("refused by {there}"),
    }
}

#[test]
fn the_policy_of_the_second_job_decides_what_becomes_of_both() {
    for (unique, second, first) in [
        ("{}", "refused by one", JobState::Available),
        (r#"{"on_conflict":"ignore"}"#, "duplicate of one", JobState::Available),
        (r#"{"on_conflict":"replace"}"#, "two", JobState::Cancelled),
        (r#"{"on_conflict":"replace_except_schedule"}"#, "two", JobState::Cancelled),
        (r#"{"states":["completed"]}"#, "two", JobState::Available),
        (r#"{"keys":["queue"]}"#, "two", JobState::Available),
    ] {
        let (_, mut store) = steered();
        assert_eq!(submit(&mut store, "one", "{}"), "one");
        assert_eq!(submit(&mut store, "two", unique), second, "{unique}");
        assert_eq!(state(&mut store, "one"), first, "{unique}");
        assert_eq!(store.snapshot().job("one").unwrap().stored, 1, "{unique}");
    }
}

#[test]
fn a_job_counts_while_its_state_and_the_period_say_so() {
    let (time, mut store) = steered();
    assert_eq!(submit(&mut store, "one", "{}"), "one");
    fetch(&mut store, &["default"], 1);
    assert_eq!(submit(&mut store, "two", r#"{"states":["available"]}"#), "two");
    assert_eq!(submit(&mut store, "three", r#"{"states":["active"]}"#), "refused by one");
    store.ack("one", None).unwrap();
    store.cancel("two").unwrap();
    assert_eq!(submit(&mut store, "three", "{}"), "three");
    time.advance(Duration::from_millis(1_999));
    assert_eq!(submit(&mut store, "four", r#"{"period":"PT2S"}"#), "refused by three");
    time.advance(Duration::from_millis(1));
    assert_eq!(submit(&mut store, "four", r#"{"period":"PT2S"}"#), "four");
    assert_eq!(submit(&mut store, "five", r#"{"on_conflict":"replace","states":["completed"]}"#), "five");
    assert_eq!(state(&mut store, "one"), JobState::Completed);
}

#[test]
fn a_job_that_takes_the_place_of_a_scheduled_one_can_keep_its_time() {
    let (_, mut store) = steered();
    let at = |id: &str, time: &str, on_conflict: &str| {
        let unique = format!(r#"{{"on_conflict":"{on_conflict}"}}"#);
        let options = format!(r#"{{"scheduled_at":"{time}","unique":{unique}}}"#);
        envelope(&format!(r#"{{"type":"a","args":[],"id":"{id}","options":{options}}}"#))
    };
    store.submit(at("one", "2026-03-15T11:00:00Z", "reject")).unwrap();
    let kept = store.submit(at("two", "2026-03-15T12:00:00Z", "replace_except_schedule")).unwrap();
    assert!(kept.job.document().contains(r#""scheduled_at":"2026-03-15T11:00:00.000Z""#));
    let own = store.submit(at("three", "2026-03-15T12:00:00Z", "replace")).unwrap();
    assert!(own.job.document().contains(r#""scheduled_at":"2026-03-15T12:00:00.000Z""#));
}

#[test]
fn a_repeated_id_is_told_before_anything_is_replaced() {
    let (_, mut store) = steered();
    submit(&mut store, "one", "{}");
    assert_eq!(submit(&mut store, "one", r#"{"on_conflict":"replace"}"#), "refused by one");
    assert_eq!(state(&mut store, "one"), JobState::Available);
}

#[test]
fn what_would_be_refused_is_known_before_the_first_of_several_jobs_is_stored() {
    let (_, mut store) = steered();
    submit(&mut store, "there", "{}");
    let job = |members: &str| envelope(&format!(r#"{{"args":[],{members}}}"#));
    let jobs = [
        job(r#""type":"b""#),
        job(r#""type":"a","unique":{}"#),
        job(r#""type":"a","unique":{"on_conflict":"ignore"}"#),
        job(r#""type":"c","unique":{}"#),
        job(r#""type":"c","unique":{}"#),
        job(r#""type":"b","id":"there""#),
        job(r#""type":"b","id":"new""#),
        job(r#""type":"b","id":"new""#),
    ];
    let id = |id: &str| Some(id.to_owned());
    assert_eq!(store.clashes(&jobs), [(1, id("there")), (4, None), (5, id("there")), (7, id("new"))]);
    assert_eq!(store.snapshot().len(), 1);
}

#[test]
fn a_job_that_is_forgotten_keeps_nobody_out() {
    let (_, mut store) = steered();
    let policy = r#"{"states":["discarded"]}"#;
    let options = format!(r#"{{"unique":{policy},"retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}}}"#);
    enqueue(&mut store, "one", &options);
    fetch(&mut store, &["default"], 1);
    store.nack("one", &failure(true, false)).unwrap();
    assert_eq!(submit(&mut store, "two", policy), "refused by one");
    store.delete_dead_letter("one").unwrap();
    assert_eq!(submit(&mut store, "two", policy), "two");
}
