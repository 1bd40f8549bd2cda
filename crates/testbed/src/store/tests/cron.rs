//! Cron jobs that fire.

use super::*;
use crate::cron::Plan;

fn plan(dialect: Dialect, members: &str) -> Plan {
    let retry = Retry::doubling(3, Duration::from_secs(1), false);
    let source = Bytes::from(format!(
        r#"{{"name":"n","expression":"* * * * *","job_template":{{"type":"a","args":[1],"meta":{{"m":1}}}}{members}}}"#
    ));
    Plan::read(&source, &Reading { dialect, any_id: true, retry }).unwrap()
}

fn register(store: &mut Store, members: &str) -> bool {
    let plan = plan(store.dialect, members);
    store.register(plan).unwrap().0
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_cron_job_fires_at_its_times_and_says_so_in_the_jobs_meta() {
    let (time, mut store) = steered();
    assert!(register(&mut store, r#","overlap_policy":"allow""#));
    time.advance(MINUTE - Duration::from_millis(1));
    assert!(store.snapshot().is_empty());
    time.advance(MINUTE + MINUTE);
    let jobs = store.snapshot();
    let meta = r#"{"m":1,"cron_name":"n","cron_triggered_at":"2026-03-15T10:31:00.000Z"}"#;
    assert_eq!((jobs.len(), jobs[0].meta.as_deref(), jobs[0].args.as_str()), (2, Some(meta), "[1]"));
    let cron = store.cron("n").unwrap();
    let (start, minute) = (START_MS, 60_000);
    assert_eq!((cron.runs, cron.last_ms, cron.next_ms), (2, Some(start + 2 * minute), Some(start + 3 * minute)));
    assert_eq!(store.due_in_ms(), Some(1));
}

#[test]
fn what_is_still_there_when_the_next_run_is_due_is_dealt_with_by_the_policy() {
    use JobState::{Active, Available, Cancelled};
    let (spec, reference) = (Dialect::Spec, Dialect::Reference);
    for (dialect, policy, fetched, expected) in [
        (spec, "", true, &[Active][..]),
        (spec, r#","overlap_policy":"skip""#, true, &[Active]),
        (spec, r#","overlap_policy":"skip""#, false, &[Available]),
        (reference, r#","overlap_policy":"skip""#, false, &[Available]),
        (reference, "", true, &[Active, Available]),
        (spec, r#","overlap_policy":"allow""#, true, &[Active, Available]),
        (spec, r#","overlap_policy":"enqueue""#, true, &[Active, Available]),
        (spec, r#","overlap_policy":"cancel_previous""#, true, &[Cancelled, Available]),
        (spec, r#","overlap_policy":"cancel_previous""#, false, &[Cancelled, Available]),
    ] {
        let (time, mut store) = speaking(dialect);
        register(&mut store, policy);
        time.advance(MINUTE);
        if fetched {
            assert_eq!(fetch(&mut store, &["default"], 9).len(), 1);
        }
        time.advance(MINUTE);
        let states: Vec<_> = store.snapshot().iter().map(|job| job.state).collect();
        assert_eq!(states, expected, "{dialect:?} {policy}");
        assert_eq!(store.cron("n").unwrap().next_ms, Some(START_MS + 180_000), "{policy}");
    }
}

#[test]
fn a_name_that_is_there_gets_another_plan_and_keeps_its_history() {
    let (time, mut store) = steered();
    register(&mut store, "");
    time.advance(MINUTE);
    assert!(!register(&mut store, r#","timezone":"Asia/Tokyo""#));
    let cron = store.cron("n").unwrap();
    assert_eq!((cron.runs, cron.created_ms, cron.plan.timezone.as_str()), (1, START_MS, "Asia/Tokyo"));
    assert_eq!(store.crons().len(), 1);
    assert!(store.remove_cron("n").is_some() && store.remove_cron("n").is_none());
    time.advance(MINUTE);
    assert_eq!(store.snapshot().len(), 1);
}

#[test]
fn a_cron_job_that_is_off_does_not_fire_and_goes_on_from_when_it_is_switched_on() {
    let (time, mut store) = steered();
    register(&mut store, r#","enabled":false"#);
    time.advance(10 * MINUTE);
    assert!(store.snapshot().is_empty());
    assert_eq!(store.enable_cron("n", true).unwrap().next_ms, Some(START_MS + 11 * 60_000));
    assert_eq!(store.enable_cron("n", false).unwrap().next_ms, None);
    let job = store.trigger_cron("n").unwrap();
    assert_eq!((job.state, job.envelope.visibility_ms), (JobState::Available, Some(600_000)));
    assert_eq!(store.cron("n").unwrap().runs, 1);
    assert!(store.enable_cron("none", true).is_none() && store.trigger_cron("none").is_none());
}

#[test]
fn runs_that_nobody_looked_at_for_long_are_made_up_for_once() {
    let (time, mut store) = steered();
    register(&mut store, r#","overlap_policy":"allow""#);
    time.advance(Duration::from_secs(3_600));
    assert_eq!(store.snapshot().len(), 60);
    time.advance(Duration::from_secs(365 * 86_400));
    // One for the first of them, then those of the last hour do not come either: it goes on from now.
    assert_eq!(store.snapshot().len(), 61);
    time.advance(MINUTE);
    assert_eq!(store.snapshot().len(), 62);
}

#[test]
fn what_fires_and_what_is_passed_over_is_told_as_an_event() {
    let (time, mut store) = steered();
    register(&mut store, "");
    time.advance(MINUTE);
    fetch(&mut store, &["default"], 1);
    time.advance(MINUTE);
    let kinds: Vec<_> = store.events().since(0).map(|event| event.kind).collect();
    assert_eq!(kinds, ["job.enqueued", "cron.triggered", "job.started", "cron.skipped"]);
}
