use proptest::prelude::*;

use super::*;
use crate::policy::testing;

const SECOND: Duration = Duration::from_secs(1);

/// A guard on a clock that the test moves, with totals that it counts.
struct Rig {
    guard: Guard,
    totals: ClassTotals,
    now: Instant,
}

impl Rig {
    fn of(class: GuardClass) -> Self {
        let config = testing::config(&["a"]).circuit_breaker;
        let mut rig = Self { guard: Guard::new(class, &config), totals: ClassTotals::default(), now: Instant::now() };
        rig.read();
        rig
    }

    fn enqueue() -> Self {
        Self::of(GuardClass::Enqueue)
    }

    fn read(&mut self) -> bool {
        self.guard.on_totals(self.now, self.totals)
    }

    /// So many calls, of which so many failed; whether the guard opened.
    fn calls(&mut self, calls: u64, failures: u64) -> bool {
        self.totals.calls += calls;
        self.totals.failures += failures;
        self.read()
    }

    /// So many calls that all end in a 500, of so many sources in turn; whether the guard opened.
    fn errors(&mut self, calls: u64, sources: u64) -> bool {
        (0..calls).any(|call| {
            self.totals.calls += 1;
            self.totals.server_errors += 1;
            self.guard.blame(call % sources, self.now);
            self.read()
        })
    }

    fn wait(&mut self, seconds: u32) -> bool {
        self.now += SECOND * seconds;
        self.read();
        self.guard.tick(self.now)
    }

    fn opened(mut self) -> Self {
        assert!(self.calls(20, 20));
        self
    }

    fn in_trial(self) -> Self {
        let mut rig = self.opened();
        assert!(!rig.wait(29) && rig.wait(1));
        rig
    }

    fn word(&self) -> &'static str {
        self.guard.state().as_str()
    }
}

#[test]
fn half_of_enough_calls_open_it_and_too_few_or_less_than_half_do_not() {
    for (calls, failures, opened) in [(19, 19, false), (20, 9, false), (20, 10, true), (1_000, 499, false)] {
        assert_eq!(Rig::enqueue().calls(calls, failures), opened, "{failures} of {calls}");
    }
}

#[test]
fn what_failed_before_the_window_is_forgotten() {
    let mut rig = Rig::enqueue();
    rig.calls(19, 19);
    rig.wait(11);
    assert!(!rig.calls(19, 19));
    assert!(rig.calls(1, 1));
}

#[test]
fn one_poisonous_job_type_opens_nothing_and_three_failing_types_do() {
    assert!(!Rig::enqueue().errors(1_000, 1));
    assert!(!Rig::enqueue().errors(1_000, 2));
    assert!(Rig::enqueue().errors(1_000, 3));
}

#[test]
fn poison_neither_hides_failures_nor_dilutes_them() {
    let mut rig = Rig::enqueue();
    rig.errors(1_000, 1);
    assert!(rig.calls(20, 12), "twelve of twenty, whatever the poison did beside them");
}

#[test]
fn a_run_of_failures_opens_it_only_while_another_class_works() {
    for (alone, opened_at) in [(true, Some(4)), (false, None)] {
        let mut rig = Rig::enqueue();
        let now = rig.now;
        assert_eq!((0..10).find(|_| rig.guard.on_failure(now, alone)), opened_at);
    }
    let mut rig = Rig::enqueue();
    for _ in 0..10 {
        let now = rig.now;
        assert!((0..4).all(|_| !rig.guard.on_failure(now, true)));
        rig.guard.on_success(now);
    }
}

#[test]
fn words_about_leased_jobs_are_counted_and_never_refused() {
    for class in [GuardClass::Ack, GuardClass::Nack, GuardClass::Heartbeat] {
        let mut rig = Rig::of(class);
        assert!(!rig.calls(1_000, 1_000) && rig.guard.failing() > 0.9);
        let now = rig.now;
        assert!((0..100).all(|_| !rig.guard.on_failure(now, true)));
        assert_eq!(rig.word(), "closed");
    }
}

#[test]
fn open_refuses_until_the_cooldown_is_over_then_a_share_tries() {
    let rig = Rig::enqueue().opened();
    let admitted = |rig: &Rig, after: u32| {
        let draws = 0..10_000;
        draws.filter(|&seed| rig.guard.state().admits(rig.now + SECOND * after, &mut Draw::from_seed(seed))).count()
    };
    assert_eq!(admitted(&rig, 29), 0);
    let rig = Rig::enqueue().in_trial();
    assert!((800..1_200).contains(&admitted(&rig, 0)));
    assert!((4_600..5_400).contains(&admitted(&rig, 15)), "the share grows where calls are few");
    assert_eq!(admitted(&rig, 30), 10_000);
}

#[test]
fn five_good_trials_close_it_and_one_bad_one_opens_it_again() {
    let mut rig = Rig::enqueue().in_trial();
    let now = rig.now;
    assert!((0..4).all(|_| !rig.guard.on_success(now)));
    assert!(rig.guard.on_success(now));
    assert_eq!(rig.guard.state(), GuardState::Closed { recovered_at: Some(now) });
    assert!(!rig.calls(19, 19), "what failed before is not held against it");
    let mut rig = Rig::enqueue().in_trial();
    let now = rig.now;
    rig.guard.on_success(now);
    assert!(rig.guard.on_failure(now, false));
    assert_eq!(rig.guard.state(), GuardState::Open { until: now + SECOND * 30 });
}

#[test]
fn a_class_proves_that_the_region_works_by_successes_without_a_failure() {
    let proves = |calls, failures| {
        let mut rig = Rig::enqueue();
        rig.calls(calls, failures);
        rig.guard.proves_work()
    };
    assert!(proves(1, 0));
    assert!(!proves(0, 0) && !proves(10, 1) && !proves(3, 3));
}

proptest! {
    #[test]
    fn it_never_opens_below_the_share_or_the_minimum_and_trials_only_follow_a_cooldown(
        steps in prop::collection::vec((0..40_u64, 0..40_u64, 0..5_u32), 1..200),
    ) {
        let mut rig = Rig::enqueue();
        let (mut sent, mut failed) = (0, 0);
        for (calls, failures, wait) in steps {
            let failures = failures.min(calls);
            let before = rig.guard.state();
            rig.wait(wait);
            if let (GuardState::Open { until }, GuardState::Trial { .. }) = (before, rig.guard.state()) {
                prop_assert!(until <= rig.now);
            }
            (sent, failed) = (sent + calls, failed + failures);
            if rig.calls(calls, failures) {
                prop_assert!(sent >= 20 && failed > 0, "{failed} of {sent}");
                (sent, failed) = (0, 0);
            }
            prop_assert!((0.0..1.0).contains(&rig.guard.failing()));
        }
    }
}
