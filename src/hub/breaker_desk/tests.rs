//! Ends are counted by type and tenant, in a bounded number of both.

use super::*;

fn desk(text: &str) -> BreakerDesk {
    BreakerDesk::new(serde_saphyr::from_str(text).unwrap(), None)
}

fn seen(tenant: Option<&str>, step: Step, at_ms: u64) -> Seen {
    Seen {
        job_type: Some("mail".to_owned()),
        tenant: tenant.map(str::to_owned),
        step,
        is_new_end: true,
        job: ProbeJob { job_id: format!("j{at_ms}"), region: "eu".to_owned(), failures: 0, is_bound: false },
        at_ms,
        by: Some("pod".to_owned()),
        trial: None,
    }
}

fn key(tenant: &str) -> Key {
    ("mail".to_owned(), Some(tenant.to_owned()))
}

const NOW: u64 = 10_000_000;

#[test]
fn the_ends_of_one_tenant_trip_its_breaker_alone_and_not_from_before_its_window() {
    let desk = desk("[{ job_type: mail, minimum: 4, window: 10s }]");
    let failed = |tenant, at_ms| seen(Some(tenant), Step::Retried, at_ms);
    desk.note((0..4).map(|it| failed("a", NOW - it)).collect(), NOW);
    desk.note((0..9).map(|it| failed("late", NOW - 10_001 - it)).collect(), NOW);
    desk.note((0..9).map(|it| seen(Some("b"), Step::Succeeded, NOW - it)).collect(), NOW);
    let found = desk.tripping(NOW);
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].0, found[0].1.failed, found[0].2.len()), (&key("a"), 4, 4));
    assert!(desk.tripping(NOW + 10_001).is_empty(), "the window has passed");
    assert_eq!(desk.sidecars(&key("a"), true), ["pod"]);
    assert!(desk.sidecars(&key("a"), false).is_empty());
}

#[test]
fn ends_from_before_a_close_open_no_further_incident() {
    let desk = desk("[{ job_type: mail, minimum: 2, window: 10s }]");
    desk.note((0..4).map(|it| seen(Some("a"), Step::Failed, NOW - it)).collect(), NOW);
    desk.begin_anew(&key("a"), NOW + 1);
    assert!(desk.tripping(NOW + 1).is_empty());
    desk.note((0..2).map(|it| seen(Some("a"), Step::Failed, NOW + 2_000 + it)).collect(), NOW + 3_000);
    assert_eq!(desk.tripping(NOW + 3_000).len(), 1);
}

#[test]
fn after_many_windows_the_spans_of_one_are_kept_whether_the_record_is_shared_or_answers() {
    let desk = desk("[{ job_type: mail, minimum: 4, window: 10s }]");
    let spans = || desk.counted.borrow()[&key("a")].spans.len();
    for second in 0..200 {
        let now_ms = NOW + second * 1_000;
        desk.note(vec![seen(Some("a"), Step::Failed, now_ms)], now_ms);
        desk.tripping(now_ms);
        assert!(spans() <= 11, "{}", spans());
    }
    for second in 200..400 {
        let now_ms = NOW + second * 1_000;
        desk.note(vec![seen(Some("a"), Step::Failed, now_ms)], now_ms);
        assert!(spans() <= 12, "{}", spans());
    }
    desk.tripping(NOW + 900_000);
    assert_eq!(spans(), 0);
}

#[test]
fn an_end_from_before_the_window_is_counted_as_late_and_a_bound_job_is_not_named() {
    let desk = desk("[{ job_type: mail, minimum: 1, window: 10s }]");
    let (late, mut bound) = (seen(Some("a"), Step::Failed, NOW - 20_000), seen(Some("a"), Step::Failed, NOW));
    bound.job.is_bound = true;
    desk.note(vec![late, bound], NOW);
    let found = desk.tripping(NOW);
    assert_eq!((found[0].1.failed, found[0].2.len(), desk.late.get()), (1, 0, 1));
}

#[test]
fn types_that_find_no_place_are_counted_once_each_and_the_first_ones_are_said() {
    let desk = desk("[{ job_type: mail }]");
    let set = |tenants: &[&str]| desk.set_unplaced(tenants.iter().map(|it| key(it)).collect());
    assert!(!set(&[]) && set(&["a"]) && !set(&["a", "b"]) && !set(&[]) && set(&["b"]));
    assert_eq!(desk.unplaced_ever.get(), 3);
}

#[test]
fn nothing_is_said_about_open_incidents_before_the_record_was_read() {
    let desk = desk("[{ job_type: mail }]");
    let mut followed = desk.follow();
    assert!(followed.borrow_and_update().is_none() && desk.open().is_empty());
    desk.set_open(Vec::new());
    assert!(followed.has_changed().unwrap() && followed.borrow_and_update().is_some());
    desk.set_open(Vec::new());
    assert!(!followed.has_changed().unwrap());
}

#[test]
fn the_words_of_clients_give_a_bounded_number_of_counts_and_idle_ones_make_room() {
    let desk = desk("[{ job_type: mail, window: 10s }]");
    let all = |at_ms| -> Vec<Seen> {
        (0..KEYS_MAX + 7).map(|it| seen(Some(&format!("{at_ms}-{it}")), Step::Failed, at_ms)).collect()
    };
    desk.note(all(NOW), NOW);
    assert_eq!((desk.counted.borrow().len(), desk.uncounted.get()), (KEYS_MAX, 7));
    desk.note(all(NOW + 20_000), NOW + 20_000);
    assert_eq!((desk.counted.borrow().len(), desk.uncounted.get()), (KEYS_MAX, 14));
}

#[test]
fn what_other_hubs_have_heard_counts_too() {
    let desk = desk("[{ job_type: mail, minimum: 4, window: 10s }]");
    desk.note((0..2).map(|it| seen(Some("a"), Step::Failed, NOW - it)).collect(), NOW);
    let unsaved = desk.take_unsaved();
    assert!(!unsaved.is_empty() && desk.take_unsaved().is_empty());
    desk.give_back(&unsaved);
    assert_eq!(desk.take_unsaved(), unsaved);
    assert!(desk.tripping(NOW).is_empty());
    desk.take_elsewhere(unsaved);
    let found = desk.tripping(NOW);
    assert_eq!((found[0].1.failed, found[0].2.len()), (4, 4));
}
