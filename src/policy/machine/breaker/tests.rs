use proptest::prelude::*;

use super::*;
use crate::policy::testing;

const SECOND: Duration = Duration::from_secs(1);

/// A breaker on a clock that the test moves.
struct Rig {
    breaker: Breaker,
    now: Instant,
}

impl Rig {
    fn new(change: impl FnOnce(&mut CircuitBreaker)) -> Self {
        let mut config = testing::config(&["a"]).circuit_breaker;
        change(&mut config);
        Self { breaker: Breaker::new(&config), now: Instant::now() }
    }

    fn probe(&mut self, ok: bool) -> Option<Transition> {
        let permit = self.breaker.probe_permitted().expect("a probe is permitted");
        self.breaker.on_probe(self.now, permit, ok)
    }

    fn request(&mut self, outcome: RequestOutcome) -> Option<Transition> {
        self.breaker.on_request(self.now, outcome)
    }

    fn wait(&mut self, seconds: u32) -> Option<Transition> {
        self.now += SECOND * seconds;
        self.breaker.tick(self.now)
    }

    fn opened(mut self) -> Self {
        while self.breaker.state() == BreakerState::Closed {
            self.request(RequestOutcome::Failure);
        }
        self
    }

    fn half_open(self) -> Self {
        let mut rig = self.opened();
        while rig.breaker.state() == BreakerState::Open {
            rig.wait(1);
        }
        rig
    }
}

/// Plays `p`/`P` (probe fails, succeeds) and `r`/`R`/`5` (request fails, succeeds, a 500); compares the step that opened it.
fn check(steps: &str, opened_at: Option<usize>) {
    let mut rig = Rig::new(|config| config.failure_threshold = 3);
    let opened = steps.chars().position(|step| {
        match step {
            'p' => rig.probe(false),
            'P' => rig.probe(true),
            'r' => rig.request(RequestOutcome::Failure),
            'R' => rig.request(RequestOutcome::Success),
            _ => rig.request(RequestOutcome::RatioOnly),
        }
        .is_some()
    });
    assert_eq!(opened, opened_at, "{steps}");
}

#[test]
fn a_run_of_failures_of_one_kind_opens_it_and_only_success_of_that_kind_ends_the_run() {
    check("ppp", Some(2));
    check("rrr", Some(2));
    check("ppPpp", None);
    check("rrRrr", None);
    check("rPrPr", Some(4));
    check("pRpRp", Some(4));
    check("prpr", None);
}

#[test]
fn a_500_neither_lengthens_nor_ends_a_run() {
    check("555555", None);
    check("r5r5r", Some(4));
}

#[test]
fn a_share_of_failed_requests_opens_it_once_there_are_enough() {
    let change = |config: &mut CircuitBreaker| (config.failure_ratio, config.ratio_min_requests) = (0.5, 20);
    let mut rig = Rig::new(change);
    assert_eq!(rig.breaker.on_counts(rig.now, 0, 0), None);
    assert_eq!(rig.breaker.on_counts(rig.now, 19, 19), None, "too few to tell");
    assert_eq!(rig.breaker.on_counts(rig.now, 40, 19), None, "less than half");
    let transition = rig.breaker.on_counts(rig.now, 42, 21);
    assert_eq!(transition.map(|transition| transition.cause), Some(Cause::FailureRatio));
}

#[test]
fn a_ratio_above_one_switches_the_ratio_off() {
    let mut rig = Rig::new(|config| config.failure_ratio = 1.1);
    rig.breaker.on_counts(rig.now, 0, 0);
    assert_eq!(rig.breaker.on_counts(rig.now, 1_000, 1_000), None);
}

#[test]
fn failures_before_a_recovery_are_not_held_against_the_region_after_it() {
    let mut rig = Rig::new(|_| {});
    rig.breaker.on_counts(rig.now, 0, 0);
    let mut rig = rig.half_open();
    rig.breaker.on_counts(rig.now, 100, 100);
    rig.probe(true);
    assert_eq!(rig.breaker.on_counts(rig.now, 100, 100), None);
    assert_eq!(rig.breaker.on_counts(rig.now, 119, 119), None);
}

#[test]
fn while_open_nothing_is_probed_and_nothing_is_counted() {
    let mut rig = Rig::new(|_| {}).opened();
    assert!(rig.breaker.probe_permitted().is_none());
    assert_eq!(rig.request(RequestOutcome::Success), None);
    assert_eq!(rig.request(RequestOutcome::Failure), None);
    assert_eq!(rig.breaker.open_until(), Some(rig.now + SECOND * 30));
    assert_eq!(rig.wait(29), None);
    let expected = Transition { from: BreakerState::Open, to: BreakerState::HalfOpen, cause: Cause::CooldownOver };
    assert_eq!(rig.wait(1), Some(expected));
    assert_eq!(rig.breaker.open_until(), None);
}

#[test]
fn half_open_permits_one_probe_and_its_result_decides() {
    for (ok, to) in [(true, BreakerState::Closed), (false, BreakerState::Open)] {
        let mut rig = Rig::new(|_| {}).half_open();
        let permit = rig.breaker.probe_permitted().expect("the one");
        assert!(rig.breaker.probe_permitted().is_none());
        assert_eq!(rig.request(RequestOutcome::Success), None, "requests do not decide");
        assert_eq!(rig.breaker.on_probe(rig.now, permit, ok).map(|transition| transition.to), Some(to));
        assert_eq!(rig.breaker.state(), to);
    }
}

#[test]
fn an_early_probe_closes_it_or_changes_nothing() {
    let mut rig = Rig::new(|_| {}).opened();
    let until = rig.breaker.open_until();
    assert!(rig.breaker.early_probe_permitted(rig.now).is_none(), "it has only just opened");
    for _ in 0..3 {
        rig.wait(1);
        let permit = rig.breaker.early_probe_permitted(rig.now).expect("once a second");
        assert!(rig.breaker.early_probe_permitted(rig.now + SECOND).is_none(), "while one is out");
        assert_eq!(rig.breaker.on_probe(rig.now, permit, false), None);
        assert!(rig.breaker.early_probe_permitted(rig.now).is_none(), "less than a second later");
        assert_eq!(rig.breaker.open_until(), until);
    }
    rig.wait(1);
    let permit = rig.breaker.early_probe_permitted(rig.now).expect("once a second");
    let expected = Transition { from: BreakerState::Open, to: BreakerState::Closed, cause: Cause::ProbeSucceeded };
    assert_eq!(rig.breaker.on_probe(rig.now, permit, true), Some(expected));
    assert_eq!((rig.breaker.open_until(), rig.breaker.early_from()), (None, None));
}

#[test]
fn a_region_that_is_well_only_for_probes_is_asked_ever_later() {
    let mut rig = Rig::new(|_| {});
    let mut seen = Vec::new();
    for _ in 0..7 {
        rig = rig.opened();
        let from = rig.breaker.early_from().expect("open");
        seen.push((from - rig.now).as_secs());
        rig.now = from;
        // At the last the cooldown is over as well.
        if let Some(permit) = rig.breaker.early_probe_permitted(rig.now) {
            assert!(rig.breaker.on_probe(rig.now, permit, true).is_some());
        }
    }
    assert_eq!(seen, [1, 2, 4, 8, 16, 30, 30]);
    rig.now += SECOND * 30;
    let rig = rig.opened();
    assert_eq!(rig.breaker.early_from(), Some(rig.now + SECOND), "the last return lasted");
}

#[test]
fn without_an_interval_there_is_no_early_probe() {
    let mut rig = Rig::new(|config| config.early_probe = Duration::ZERO).opened();
    rig.now += SECOND * 29;
    assert!(rig.breaker.early_probe_permitted(rig.now).is_none());
}

#[test]
fn a_dropped_permit_frees_its_place() {
    let mut rig = Rig::new(|_| {}).half_open();
    drop(rig.breaker.probe_permitted());
    assert!(rig.breaker.probe_permitted().is_some());
}

#[test]
fn the_result_of_a_probe_from_an_earlier_state_decides_nothing() {
    let mut rig = Rig::new(|_| {});
    let early = rig.breaker.probe_permitted().expect("closed");
    let mut rig = rig.half_open();
    let held = rig.breaker.probe_permitted().expect("the one");
    assert_eq!(rig.breaker.on_probe(rig.now, early, true), None);
    assert_eq!(rig.breaker.state(), BreakerState::HalfOpen);
    assert!(rig.breaker.probe_permitted().is_none(), "nor does it free the place of the one that is out");
    assert!(rig.breaker.on_probe(rig.now, held, true).is_some());
}

#[test]
fn a_permit_of_an_earlier_half_open_phase_frees_no_later_place() {
    let mut rig = Rig::new(|_| {}).half_open();
    let dead = rig.breaker.probe_permitted().expect("the one");
    rig.breaker.open(rig.now, Cause::ProbeFailed);
    rig.wait(60);
    let held = rig.breaker.probe_permitted().expect("the one of this phase");
    drop(dead);
    assert!(rig.breaker.probe_permitted().is_none());
    drop(held);
}

#[test]
fn cooldowns_grow_with_each_failed_return_up_to_their_bound_and_start_anew_after_closing() {
    let mut rig = Rig::new(|config| (config.cooldown, config.cooldown_multiplier) = (SECOND * 10, 2.0)).opened();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let until = rig.breaker.open_until().expect("open");
        seen.push((until - rig.now).as_secs());
        rig.now = until;
        rig.breaker.tick(rig.now);
        rig.probe(false);
    }
    assert_eq!(seen, [10, 20, 40, 60, 60]);
    rig.wait(60);
    rig.probe(true);
    let rig = rig.opened();
    assert_eq!(rig.breaker.open_until(), Some(rig.now + SECOND * 10));
}

proptest! {
    #[test]
    fn there_is_never_more_than_one_half_open_permit_and_none_while_open(
        steps in prop::collection::vec((0..8_u8, any::<prop::sample::Index>()), 1..300),
    ) {
        let mut rig = Rig::new(|config| config.failure_threshold = 2);
        let mut out: Vec<Permit> = Vec::new();
        for (step, which) in steps {
            let epoch = rig.breaker.epoch;
            match step {
                0 | 1 => if let Some(permit) = rig.breaker.probe_permitted() {
                    prop_assert_ne!(rig.breaker.state(), BreakerState::Open);
                    out.push(permit);
                },
                2 | 3 if !out.is_empty() => {
                    let permit = out.swap_remove(which.index(out.len()));
                    let current = permit.epoch == epoch;
                    let transition = rig.breaker.on_probe(rig.now, permit, step == 2);
                    prop_assert!(current || transition.is_none());
                }
                4 if !out.is_empty() => drop(out.swap_remove(which.index(out.len()))),
                5 => { rig.request(RequestOutcome::Failure); }
                6 => { rig.wait(7); }
                _ => { rig.request(RequestOutcome::Success); }
            }
            let live = out.iter().filter(|permit| permit.number != 0 && permit.epoch == rig.breaker.epoch).count();
            prop_assert!(live <= 1, "{live} half-open permits");
        }
    }
}
