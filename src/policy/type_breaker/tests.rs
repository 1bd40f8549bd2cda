//! The promise of a breaker: whatever ends when, one job at a time goes through a half-open one, and only its success closes it.

use proptest::prelude::*;

use super::*;
use crate::base::Share;

fn terms(ratio: u16, minimum: u64) -> BreakerTerms {
    let ratio = Share::try_from(ratio).unwrap();
    BreakerTerms { ratio, minimum, window_ms: 60_000, pause_ms: 1_000, pause_most_ms: 5_000, probe_ms: 500 }
}

fn job(name: &str) -> ProbeJob {
    ProbeJob { job_id: name.to_owned(), region: "eu".to_owned(), failures: 0, is_bound: false }
}

fn ends(succeeded: u64, failed: u64) -> EndCounts {
    EndCounts { succeeded, failed }
}

#[test]
fn it_trips_at_its_share_of_failures_and_not_by_few_ends() {
    let terms = terms(5_000, 10);
    assert!(terms.trips(ends(5, 5)) && terms.trips(ends(0, 10)) && terms.trips(ends(0, u64::MAX)));
    assert!(!terms.trips(ends(6, 5)) && !terms.trips(ends(0, 9)) && !terms.trips(ends(0, 0)));
}

#[test]
fn each_failed_probe_doubles_the_pause_up_to_the_most() {
    let terms = terms(5_000, 1);
    let (mut course, mut now) = (Course::tripped(&terms, 0), 0);
    let mut pauses = Vec::new();
    for number in 1..=4 {
        let until = course.until_ms().unwrap();
        assert!(!course.pass(&terms, until - 1, |_| Some("a".to_owned())), "the pause is not over");
        pauses.push(until - now);
        assert!(course.pass(&terms, until, |_| Some("a".to_owned())));
        assert!(course.went(&terms, number, job("j"), until));
        now = until + 10;
        assert!(course.ended(&terms, "j", false, now));
    }
    assert_eq!((pauses, course.reopened), (vec![1_000, 2_000, 4_000, 5_000], 4));
}

#[test]
fn a_probe_that_does_not_end_is_given_up_and_another_sidecar_has_its_turn() {
    let terms = terms(5_000, 1);
    let mut course = Course::tripped(&terms, 0);
    assert!(course.pass(&terms, 1_000, |_| None) && course.trial().is_none());
    assert!(!course.pass(&terms, 1_100, |_| None), "nothing new");
    assert!(course.pass(&terms, 1_100, |number| Some(format!("s{number}"))));
    assert!(course.went(&terms, 1, job("lost"), 1_500));
    assert!(!course.pass(&terms, 1_900, |_| Some("x".to_owned())), "it has its time from when it went");
    assert!(course.pass(&terms, 2_000, |number| Some(format!("s{number}"))), "it waits in its queue: once more");
    assert_eq!(course.trial().map(|it| it.sidecar.as_str()), Some("s1"));
    assert!(!course.pass(&terms, 2_400, |_| Some("x".to_owned())));
    assert!(!course.began(&terms, "other", 2_400) && course.began(&terms, "lost", 2_400));
    assert!(!course.began(&terms, "lost", 2_450), "it has its time once");
    assert!(!course.pass(&terms, 2_899, |_| Some("x".to_owned())), "from when a worker has it");
    assert!(course.pass(&terms, 2_900, |number| Some(format!("s{number}"))));
    assert_eq!(course.trial().map(|it| it.sidecar.as_str()), Some("s2"));
    assert!(!course.went(&terms, 1, job("late"), 2_901), "an earlier permission is void");
    assert!(!course.ended(&terms, "lost", true, 2_902), "its job closes nothing");
    assert!(course.went(&terms, 2, job("b"), 2_903) && !course.went(&terms, 2, job("c"), 2_903), "one job for one");
    assert!(course.ended(&terms, "b", true, 2_904) && course.is_closed());
    assert!(!course.pass(&terms, 9_000, |_| Some("x".to_owned())) && !course.close(), "closed stays closed");
}

#[test]
fn a_half_open_breaker_without_a_job_is_idle_after_some_pauses_and_at_least_an_hour() {
    let terms = terms(5_000, 1);
    let (hour, another) = (60 * 60 * 1_000, |_| Some("a".to_owned()));
    let mut course = Course::tripped(&terms, 0);
    assert!(!course.is_idle(10 * hour), "it is not half-open");
    assert!(course.pass(&terms, 1_000, another));
    assert!(course.pass(&terms, 2_000, another), "another permission");
    assert!(!course.is_idle(hour) && course.is_idle(hour + 1_000), "from the first permission on");
    assert!(course.went(&terms, 2, job("j"), 3_000) && !course.is_idle(10 * hour));
    assert!(course.began(&terms, "j", 3_000) && course.pass(&terms, 4_000, another));
    assert!(!course.is_idle(hour + 3_000) && course.is_idle(hour + 4_000), "the last one did not end");
    course.pause_ms = hour;
    assert!(!course.is_idle(8 * hour) && course.is_idle(8 * hour + 4_000));
}

#[derive(Debug, Clone)]
enum Happening {
    Time(u64),
    Went(u64, u8),
    Began(u8),
    Ended(u8, bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0_u64..1_500).prop_map(Happening::Time),
        (0_u64..6, 0_u8..6).prop_map(|(number, job)| Happening::Went(number, job)),
        (0_u8..6).prop_map(Happening::Began),
        (0_u8..6, any::<bool>()).prop_map(|(job, is_success)| Happening::Ended(job, is_success)),
    ]
}

proptest! {
    #[test]
    fn one_probe_at_a_time_and_only_its_success_closes(all in prop::collection::vec(happening(), 1..80)) {
        let terms = terms(5_000, 1);
        let (mut course, mut now) = (Course::tripped(&terms, 0), 0);
        let mut out: Option<u64> = None;
        for it in all {
            let before = course.clone();
            match it {
                Happening::Time(ms) => {
                    now += ms;
                    if course.pass(&terms, now, |_| Some("a".to_owned())) {
                        // An earlier permission is over by its time, or there was none.
                        prop_assert!(before.until_ms().is_some_and(|until| now >= until));
                        let is_extended = |it: &Course| it.trial().is_some_and(|it| it.is_extended);
                        let is_more_time = is_extended(&course) && !is_extended(&before);
                        prop_assert!(is_more_time || course.trial().map(|it| it.number) > out);
                        out = course.trial().map(|it| it.number);
                    }
                }
                Happening::Went(number, name) => {
                    let is_its = before.trial().is_some_and(|it| it.number == number && it.job.is_none());
                    prop_assert_eq!(course.went(&terms, number, job(&name.to_string()), now), is_its);
                }
                Happening::Began(name) => {
                    let is_its = before.trial().is_some_and(|it| {
                        !it.is_begun && it.job.as_ref().is_some_and(|job| job.job_id == name.to_string())
                    });
                    prop_assert_eq!(course.began(&terms, &name.to_string(), now), is_its);
                }
                Happening::Ended(name, is_success) => {
                    let probe = before.trial().and_then(|it| it.job.clone()).map(|it| it.job_id);
                    let is_probe = probe == Some(name.to_string());
                    prop_assert_eq!(course.ended(&terms, &name.to_string(), is_success, now), is_probe);
                    prop_assert_eq!(course.is_closed(), before.is_closed() || (is_probe && is_success));
                    if is_probe && !is_success {
                        prop_assert!(course.pause_ms <= terms.pause_most_ms && course.pause_ms >= before.pause_ms);
                        prop_assert_eq!(course.until_ms(), Some(now + course.pause_ms));
                    }
                }
            }
        }
    }
}
