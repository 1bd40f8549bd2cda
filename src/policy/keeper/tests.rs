//! Results in, decisions out: what the states of regions come to together, by a clock that the test moves.

use std::time::Duration;

use super::*;
use crate::config::{CircuitBreaker, Config};
use crate::policy::machine::Cause;
use crate::policy::machine::{GuardClass, GuardState, Shown};
use crate::policy::testing::{self, inputs, names, plain};
use crate::policy::{Decision, Health, Job, Refusal, RouteError, explain, route};

const SECOND: Duration = Duration::from_secs(1);
const A: RegionIndex = RegionIndex::new(0);
const B: RegionIndex = RegionIndex::new(1);

/// Three healthy regions `a`, `b` and `c`, the first one local, and what was counted there.
struct Rig {
    keeper: Keeper,
    view: View,
    totals: [Totals; 3],
    now: Instant,
}

impl Rig {
    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = testing::config(&["a", "b", "c"]);
        change(&mut config);
        let mut rig = Self {
            keeper: Keeper::new(&config),
            view: View::unprobed(&config),
            totals: [Totals::default(); 3],
            now: Instant::now(),
        };
        rig.wait(0);
        for place in 0..3 {
            rig.probe(RegionIndex::new(place), true);
        }
        rig
    }

    fn new() -> Self {
        Self::with(|_| {})
    }

    fn attempt(&mut self, index: RegionIndex, attempt: Attempt) -> Change {
        let (place, class) = (index.get(), attempt.class.index());
        let totals = &mut self.totals[place];
        totals.requests += 1;
        totals.classes[class].calls += u64::from(attempt.shown() != Shown::Nothing);
        totals.classes[class].failures += u64::from(attempt.shown() == Shown::Failure);
        totals.classes[class].server_errors += u64::from(attempt.shown() == Shown::ServerError);
        self.keeper.on_attempt(self.now, index, &attempt, totals, &mut self.view.regions[place])
    }

    /// A call of a class that ends with a status, or without an answer.
    fn call(&mut self, index: RegionIndex, class: GuardClass, status: Option<u16>) -> Change {
        self.attempt(index, Attempt { class, status, queue_status: false, retry_after: None, source: None })
    }

    fn fetch(&mut self, status: u16) {
        self.call(A, GuardClass::Fetch, Some(status));
    }

    fn enqueues(&mut self, calls: usize, status: Option<u16>) {
        (0..calls).for_each(|_| drop(self.call(A, GuardClass::Enqueue, status)));
    }

    fn probe(&mut self, index: RegionIndex, ok: bool) -> Option<Change> {
        let permit = self.keeper.probe_permitted(index)?;
        let probe = Probe { healthy: ok, round_trip: ok.then_some(Duration::from_millis(5)) };
        Some(self.keeper.on_probe(self.now, index, permit, probe, &mut self.view.regions[index.get()]))
    }

    /// Lets so many seconds pass, tick by tick.
    fn wait(&mut self, seconds: u32) {
        for step in 0..=seconds {
            self.now += if step == 0 { Duration::ZERO } else { SECOND };
            for place in 0..3 {
                let index = RegionIndex::new(place);
                self.keeper.tick(self.now, index, &self.totals[place], &mut self.view.regions[place]);
            }
        }
    }

    fn route(&self, job: &Job<'_>, seed: u64) -> Result<Decision, RouteError> {
        route(&self.view, job, inputs(self.now, seed))
    }

    fn order(&self) -> String {
        names(&self.view, &self.route(&plain(), 1).unwrap())
    }

    /// In how many of a hundred decisions the local region is the target.
    fn percent_local(&self) -> usize {
        (0..1_000).filter(|&seed| self.route(&plain(), seed).unwrap().target() == Some(A)).count() / 10
    }

    fn state(&self) -> (&'static str, &'static str, &'static str) {
        let region = self.view.region(A);
        let guard = |class| region.guard(class).as_str();
        (region.breaker.as_str(), guard(GuardClass::Enqueue), guard(GuardClass::Fetch))
    }

    fn grey() -> Self {
        let mut rig = Self::new();
        rig.fetch(200);
        rig.enqueues(5, None);
        rig
    }
}

#[test]
fn a_region_whose_fetch_works_and_whose_enqueue_fails_loses_only_its_enqueues() {
    let rig = Rig::grey();
    assert_eq!(rig.state(), ("closed", "open", "closed"));
    assert_eq!(rig.order(), "b c");
    let explained = explain(&rig.view, &plain(), inputs(rig.now, 1));
    let refused = explained.candidates.iter().find(|scored| scored.region == A).unwrap();
    assert_eq!((refused.refusal, refused.reason.as_str()), (Some(Refusal::GuardOpen), "enqueues fail there"));
}

#[test]
fn half_of_the_enqueues_failing_opens_the_guard_and_not_the_breaker_while_fetch_works() {
    let mut rig = Rig::new();
    for _ in 0..10 {
        rig.fetch(200);
        rig.enqueues(1, None);
        rig.enqueues(1, Some(201));
    }
    rig.wait(1);
    assert_eq!(rig.state(), ("closed", "open", "closed"));
}

#[test]
fn a_region_where_nothing_works_opens_its_breaker() {
    let mut rig = Rig::new();
    rig.enqueues(5, None);
    assert_eq!(rig.state(), ("open", "closed", "closed"));
    let mut rig = Rig::new();
    rig.fetch(200);
    rig.call(A, GuardClass::Fetch, None);
    rig.enqueues(5, None);
    assert_eq!(rig.state().0, "open", "a fetch that fails proves nothing any more");
}

#[test]
fn a_good_probe_does_not_forgive_failed_requests() {
    let mut rig = Rig::grey();
    for _ in 0..29 {
        rig.wait(1);
        rig.probe(A, true);
        assert_eq!(rig.state(), ("closed", "open", "closed"));
    }
    let mut rig = Rig::new();
    rig.fetch(200);
    for _ in 0..5 {
        rig.enqueues(1, None);
        rig.probe(A, true);
    }
    assert_eq!(rig.state().1, "open");
}

#[test]
fn a_job_pinned_to_a_region_whose_enqueues_fail_gets_the_503_of_one_that_is_unavailable() {
    let rig = Rig::grey();
    let error = rig.route(&Job { pin: Some("a"), ..plain() }, 1).unwrap_err();
    let expected =
        RouteError::RegionUnavailable { region: testing::id("a"), state: Refusal::GuardOpen, retry_after: SECOND * 30 };
    assert_eq!(error, expected);
}

#[test]
fn enqueues_come_back_by_a_few_trials_and_then_a_ramp() {
    let mut rig = Rig::grey();
    rig.wait(30);
    assert_eq!(rig.state().1, "trial");
    assert!((6..=14).contains(&rig.percent_local()));
    rig.enqueues(5, Some(201));
    assert_eq!(rig.state().1, "closed");
    for (seconds, percent) in [(0, 0..=0), (5, 44..=56), (5, 100..=100)] {
        rig.wait(seconds);
        assert!(percent.contains(&rig.percent_local()), "{} % after {seconds} s more", rig.percent_local());
    }
    let pinned = Job { pin: Some("a"), ..plain() };
    assert!(rig.route(&pinned, 1).is_ok());
}

#[test]
fn one_callers_poison_opens_neither_guard_nor_breaker_and_errors_of_many_types_do() {
    let broken = |types: u64| {
        let mut rig = Rig::new();
        rig.fetch(200);
        for call in 0..100 {
            let source = Some(call % types);
            rig.attempt(A, Attempt { status: Some(500), source, ..enqueue() });
        }
        rig.wait(1);
        rig.state()
    };
    assert_eq!(broken(1), ("closed", "closed", "closed"));
    assert_eq!(broken(3), ("closed", "open", "closed"));
}

fn enqueue() -> Attempt {
    Attempt { class: GuardClass::Enqueue, status: Some(201), queue_status: false, retry_after: None, source: None }
}

#[test]
fn backpressure_leads_some_jobs_elsewhere_and_opens_nothing() {
    for asks in [
        Attempt { status: Some(429), ..enqueue() },
        Attempt { retry_after: Some(SECOND), ..enqueue() },
        Attempt { status: Some(503), queue_status: true, ..enqueue() },
    ] {
        let mut rig = Rig::new();
        rig.attempt(A, asks);
        assert!((66..=74).contains(&rig.percent_local()), "{asks:?}: {} %", rig.percent_local());
        for _ in 0..1_000 {
            rig.now += Duration::from_millis(20);
            rig.attempt(A, asks);
        }
        rig.wait(1);
        assert_eq!(rig.state(), ("closed", "closed", "closed"));
        assert!((7..=20).contains(&rig.percent_local()), "{asks:?}: {} %", rig.percent_local());
        assert!(rig.route(&Job { pin: Some("a"), ..plain() }, 1).is_ok());
        assert_eq!(rig.route(&plain(), 1).unwrap().candidates.len(), 3, "it stays a candidate");
        rig.wait(120);
        assert_eq!(rig.percent_local(), 100);
    }
}

#[test]
fn every_recovery_starts_the_ramp_anew() {
    let mut rig = Rig::new();
    for _ in 0..2 {
        rig.enqueues(5, None);
        rig.wait(30);
        rig.probe(A, true);
        assert_eq!(rig.percent_local(), 0);
        rig.wait(5);
        assert!((44..=56).contains(&rig.percent_local()));
        rig.wait(20);
        assert_eq!(rig.percent_local(), 100);
    }
}

#[test]
fn a_region_that_came_and_went_three_times_is_the_last_resort_until_it_was_quiet() {
    let mut rig = Rig::new();
    let flips: Vec<_> = (0..6)
        .map(|flip| {
            rig.wait(10);
            rig.probe(A, flip % 2 == 1).unwrap().held
        })
        .collect();
    assert_eq!(flips, [None, None, None, None, None, Some(true)]);
    assert_eq!(rig.order(), "b c a");
    assert!(rig.route(&Job { pin: Some("a"), ..plain() }, 1).is_ok(), "a pinned job has nowhere else to go");
    rig.wait(59);
    assert!(rig.view.region(A).held);
    rig.wait(1);
    assert!(!rig.view.region(A).held);
    assert_eq!(rig.percent_local(), 0, "it comes back by the ramp");
    rig.wait(10);
    assert_eq!(rig.order(), "a b c");
}

#[test]
fn a_held_region_takes_jobs_where_there_is_no_other() {
    let mut rig = Rig::with(|config| {
        config.circuit_breaker = CircuitBreaker { hold_down_changes: 2, ..config.circuit_breaker.clone() }
    });
    rig.probe(A, false);
    rig.probe(A, true);
    for index in [B, RegionIndex::new(2)] {
        rig.probe(index, false);
    }
    assert_eq!(rig.order(), "a");
}

/// All regions fail at once, by requests and by probes; then our own network is checked.
fn cut_off(own_network_works: bool) -> Rig {
    let mut rig = Rig::new();
    rig.wait(30);
    assert!(!rig.keeper.wants_check(rig.now));
    for place in 0..3 {
        let index = RegionIndex::new(place);
        (0..5).for_each(|_| drop(rig.call(index, GuardClass::Enqueue, None)));
        rig.probe(index, false);
    }
    assert!(rig.view.regions.iter().all(|region| region.breaker == BreakerState::Open));
    assert!(rig.keeper.wants_check(rig.now));
    rig.keeper.on_own_check(rig.now, own_network_works, &mut rig.view);
    rig
}

#[test]
fn when_all_regions_fail_and_our_own_network_too_verdicts_are_kept_and_nothing_is_learned() {
    let mut rig = cut_off(false);
    assert!(rig.keeper.is_suspect());
    for _ in 0..20 {
        for place in 0..3 {
            let index = RegionIndex::new(place);
            (0..5).for_each(|_| drop(rig.call(index, GuardClass::Enqueue, None)));
            rig.probe(index, false);
        }
        rig.wait(1);
        for region in &rig.view.regions {
            assert_eq!((region.breaker, region.health), (BreakerState::Closed, Health::Healthy));
        }
    }
    rig.call(B, GuardClass::Enqueue, Some(201));
    assert!(!rig.keeper.is_suspect(), "an answer proves that our network works");
    rig.wait(1);
    assert_eq!(rig.percent_local(), 100, "what failed meanwhile is not held against anybody, and nothing ramps");
    rig.enqueues(5, None);
    assert_eq!(rig.state().0, "open", "from here on failures count again");
}

#[test]
fn when_our_own_network_works_regions_that_fail_together_are_out() {
    let rig = cut_off(true);
    assert!(!rig.keeper.is_suspect());
    assert!(rig.view.regions.iter().all(|region| region.breaker == BreakerState::Open));
}

#[test]
fn a_suspicion_ends_with_a_check_that_passes() {
    let mut rig = cut_off(false);
    let (suspect, changes) = rig.keeper.on_own_check(rig.now, true, &mut rig.view).unwrap();
    assert!(!suspect && changes.is_empty() && !rig.keeper.is_suspect());
}

#[test]
fn taking_verdicts_back_is_told_as_a_change_of_the_breaker() {
    let mut rig = Rig::new();
    (0..3).for_each(|place| (0..5).for_each(|_| drop(rig.call(RegionIndex::new(place), GuardClass::Enqueue, None))));
    let (suspect, changes) = rig.keeper.on_own_check(rig.now, false, &mut rig.view).unwrap();
    let causes: Vec<_> = changes.iter().filter_map(|(_, change)| change.breaker).map(|it| it.cause).collect();
    assert_eq!((suspect, causes), (true, vec![Cause::SelfSuspect; 3]));
}

#[test]
fn only_successes_that_change_something_are_asked_for() {
    let mut rig = Rig::new();
    let change = rig.call(A, GuardClass::Read, Some(200));
    assert_eq!(change.heeds, Some(0));
    assert_eq!(rig.call(A, GuardClass::Enqueue, None).heeds, Some(Change::ANY | 1));
    assert_eq!(rig.call(A, GuardClass::Enqueue, Some(201)).heeds, Some(0));
    let mut rig = Rig::grey();
    rig.wait(30);
    let tick = rig.keeper.tick(rig.now, A, &rig.totals[0], &mut rig.view.regions[0]);
    assert_eq!(tick.heeds.unwrap() & Change::heed_bits(GuardClass::Enqueue) & 1, 1);
    assert!(matches!(rig.view.region(A).guard(GuardClass::Enqueue), GuardState::Trial { .. }));
}

#[test]
fn a_region_without_calls_is_at_rest_and_one_that_time_may_change_is_not() {
    let mut rig = Rig::new();
    let at_rest = |rig: &Rig| rig.keeper.is_at_rest(A, &rig.totals[0]);
    assert!(at_rest(&rig));
    rig.fetch(200);
    assert!(!at_rest(&rig), "not counted yet");
    rig.wait(5);
    assert!(!at_rest(&rig), "the window still holds the call");
    rig.wait(10);
    assert!(at_rest(&rig));
    rig.enqueues(5, None);
    rig.wait(20);
    assert!(!at_rest(&rig), "its breaker is open");
    let mut rig = Rig::grey();
    rig.wait(20);
    assert!(!at_rest(&rig), "its guard is open");
}

#[test]
fn calls_that_fail_behind_an_open_breaker_open_no_guard() {
    let mut rig = Rig::new();
    rig.enqueues(40, None);
    rig.wait(2);
    assert_eq!(rig.state(), ("open", "closed", "closed"));
    let permit = rig.keeper.early_probe_permitted(rig.now, A).unwrap();
    let probe = Probe { healthy: true, round_trip: Some(Duration::from_millis(5)) };
    rig.keeper.on_probe(rig.now, A, permit, probe, &mut rig.view.regions[0]);
    rig.wait(2);
    assert_eq!(rig.state(), ("closed", "closed", "closed"));
    assert!(rig.route(&Job { pin: Some("a"), ..plain() }, 1).is_ok(), "what failed before is not held against it");
}
