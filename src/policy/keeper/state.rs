//! The state of one region, and its changes by each result: breaker, health, guards, pressure and hold-down together.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::base::Ewma;
use crate::config::Config;
use crate::policy::machine::{
    Attempt, Breaker, BreakerState, ClassTotals, Guard, GuardClass, GuardState, Health, HealthTracker, HoldDown,
    Permit, Pressure, RequestOutcome, Shown, Transition,
};
use crate::policy::view::RegionView;

/// Latency forgets with this time constant: about the last three probes at the default interval.
const LATENCY_DECAY: Duration = Duration::from_secs(30);
/// The failing share is shown in steps of a twentieth, so that not every failure makes a new view.
const FAILING_STEPS: f64 = 20.0;

/// The counts of data threads at one region; they only grow.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Requests that ended.
    pub requests: u64,
    /// The failures among them that count in the breaker's ratio, as far as they came without a class.
    pub failures: u64,
    /// By class.
    pub classes: [ClassTotals; GuardClass::ALL.len()],
}

/// The changes by a result.
#[derive(Debug, Default)]
pub struct Change {
    /// The breaker moved.
    pub breaker: Option<Transition>,
    /// The probes' verdict is another one.
    pub health: Option<Health>,
    /// Guards that are in another state now.
    pub guards: SmallVec<[(GuardClass, GuardState); 2]>,
    /// Hold-down began, or ended.
    pub held: Option<bool>,
    /// It fell silent, or was heard again.
    pub silent: Option<bool>,
    /// Whether the view shows it.
    pub shows: bool,
    /// The classes whose next success must be reported: bit `n` is the class with number `n`, and [`Change::ANY`] is
    /// every class. `None`: as before.
    pub heeds: Option<u8>,
}

impl Change {
    /// The bit of [`Change::heeds`] that stands for every class.
    pub const ANY: u8 = 1 << 7;

    /// The bits under which a success of this class must be reported.
    #[must_use]
    pub const fn heed_bits(class: GuardClass) -> u8 {
        Self::ANY | 1 << class.index()
    }
}

/// The state of one region.
#[derive(Debug)]
pub(super) struct RegionState {
    pub(super) breaker: Breaker,
    health: HealthTracker,
    guards: [Guard; GuardClass::ALL.len()],
    hold: HoldDown,
    latency: Option<Ewma>,
    /// Failures with a class that count in the breaker's ratio.
    failures: u64,
    /// Whether the latest requests failed, so that a success has something to end.
    failing: bool,
    /// The counts until the next reading are to be discarded.
    discards: bool,
    /// The verdict before the last change, and when that was.
    health_before: Option<(Instant, Health)>,
    opened_at: Option<Instant>,
    /// Whether nothing is heard from the region.
    silent: bool,
}

impl RegionState {
    pub(super) fn new(config: &Config) -> Self {
        let breaker = &config.circuit_breaker;
        Self {
            breaker: Breaker::new(breaker),
            health: HealthTracker::new(&config.health_check),
            guards: GuardClass::ALL.map(|class| Guard::new(class, breaker)),
            hold: HoldDown::new(breaker),
            latency: None,
            failures: 0,
            failing: false,
            discards: false,
            health_before: None,
            opened_at: None,
            silent: false,
        }
    }

    pub(super) fn reconfigure(&mut self, config: &Config) {
        self.breaker.reconfigure(&config.circuit_breaker);
        self.health.reconfigure(&config.health_check);
        self.hold.reconfigure(&config.circuit_breaker);
        self.guards.iter_mut().for_each(|guard| guard.reconfigure(&config.circuit_breaker));
        // The counters begin anew with the new configuration's regions.
        self.failures = 0;
    }

    /// Takes the result of a request without a class.
    pub(super) fn on_request(&mut self, now: Instant, outcome: RequestOutcome, view: &mut RegionView) -> Change {
        self.failing = outcome == RequestOutcome::Failure;
        self.silent &= outcome == RequestOutcome::Failure;
        let transition = self.breaker.on_request(now, outcome);
        self.settle(now, transition, view)
    }

    /// Takes the result of an attempt; `totals` hold it already.
    pub(super) fn on_attempt(
        &mut self,
        now: Instant,
        attempt: &Attempt,
        totals: &Totals,
        view: &mut RegionView,
    ) -> Change {
        let pressed = self.note_pressure(now, attempt, view);
        self.silent &= attempt.status.is_none();
        let place = attempt.class.index();
        let shown = attempt.shown();
        if let (Shown::ServerError, Some(source), Some(guard)) = (shown, attempt.source, self.guards.get_mut(place)) {
            guard.blame(source, now);
        }
        if matches!(shown, Shown::Failure | Shown::ServerError) {
            self.read(now, totals);
        }
        let alone = self.others_work(place);
        let Some(guard) = self.guards.get_mut(place) else { return Change::default() };
        let outcome = match shown {
            Shown::Nothing => None,
            Shown::Success => {
                guard.on_success(now);
                self.failing = false;
                Some(RequestOutcome::Success)
            }
            Shown::Failure => {
                // Calls that end while the breaker is open began before it opened, and say nothing that it does not.
                if self.breaker.state() == BreakerState::Closed {
                    guard.on_failure(now, alone);
                }
                self.failing = true;
                (!alone).then_some(RequestOutcome::Failure)
            }
            Shown::ServerError if guard.errors_count(attempt.source, now) => {
                guard.on_failure(now, false);
                (!alone).then_some(RequestOutcome::RatioOnly)
            }
            Shown::ServerError => None,
        };
        let counts = matches!(outcome, Some(RequestOutcome::Failure | RequestOutcome::RatioOnly));
        self.failures += u64::from(counts);
        let transition = outcome.and_then(|outcome| self.breaker.on_request(now, outcome));
        let change = self.settle(now, transition, view);
        Change { shows: change.shows || pressed, ..change }
    }

    /// Takes the result of a probe of our own.
    pub(super) fn on_probe(&mut self, now: Instant, permit: Permit, probe: Probe, view: &mut RegionView) -> Change {
        self.silent &= !(probe.healthy || probe.round_trip.is_some());
        self.on_view(now, permit, probe, view)
    }

    /// Takes the result of another's probe, which does not show that the region answers us.
    pub(super) fn on_view(&mut self, now: Instant, permit: Permit, probe: Probe, view: &mut RegionView) -> Change {
        if let Some(round_trip) = probe.round_trip {
            view.latency = Some(observe(&mut self.latency, round_trip, now));
        }
        let before = self.health.health();
        let verdict = self.health.on_probe(probe.healthy);
        if verdict.is_some() {
            self.health_before = Some((now, before));
        }
        let transition = self.breaker.on_probe(now, permit, probe.healthy);
        Change { health: verdict, shows: true, ..self.settle(now, transition, view) }
    }

    /// Takes whether anything was heard from the region when it was looked at.
    pub(super) fn on_look(&mut self, now: Instant, heard: bool, view: &mut RegionView) -> Change {
        self.silent = !heard;
        self.settle(now, None, view)
    }

    /// Lets time act: the end of cooldowns and of hold-down, and the ratios.
    pub(super) fn tick(&mut self, now: Instant, totals: &Totals, view: &mut RegionView) -> Change {
        self.read(now, totals);
        for guard in &mut self.guards {
            guard.tick(now);
        }
        let ratio = self.breaker.on_counts(now, totals.requests, totals.failures + self.failures);
        let transition = ratio.or_else(|| self.breaker.tick(now));
        self.settle(now, transition, view)
    }

    /// Whether a tick would change nothing.
    pub(super) fn is_at_rest(&self, totals: &Totals) -> bool {
        let is_quiet = |guard: &Guard| matches!(guard.state(), GuardState::Closed { .. }) && guard.is_quiet();
        !self.discards
            && !self.hold.is_held()
            && self.breaker.is_at_rest(totals.requests)
            && self.guards.iter().all(is_quiet)
    }

    /// Takes verdicts back that fell since then: they were about ourselves.
    pub(super) fn revoke(&mut self, since: Instant, view: &mut RegionView) -> Change {
        let recovered_at = view.recovered_at;
        if let Some((_, before)) = self.health_before.take_if(|(at, _)| *at >= since) {
            self.health.restore(before);
        }
        let transition = self.opened_at.take_if(|at| *at >= since).and_then(|_| self.breaker.revoke());
        self.discard();
        self.silent = false;
        let change = self.settle(since, transition, view);
        self.hold.forget_since(since);
        // Without an outage before, there is no recovery.
        view.recovered_at = recovered_at;
        Change { shows: true, ..change }
    }

    /// Discards the counts, up to the next reading.
    pub(super) const fn discard(&mut self) {
        self.discards = true;
    }

    fn read(&mut self, now: Instant, totals: &Totals) {
        // While the breaker is not closed, failures are the region's and not those of a class.
        let discards = self.discards || self.breaker.state() != BreakerState::Closed;
        for (guard, totals) in self.guards.iter_mut().zip(totals.classes) {
            if discards {
                guard.skip(now, totals);
            } else {
                guard.on_totals(now, totals);
            }
        }
        self.discards = false;
    }

    /// Whether calls of another class show that the region works.
    fn others_work(&self, place: usize) -> bool {
        self.guards.iter().enumerate().any(|(other, guard)| other != place && guard.proves_work())
    }

    fn note_pressure(&self, now: Instant, attempt: &Attempt, view: &mut RegionView) -> bool {
        if !attempt.asks_for_less() {
            return false;
        }
        let after = Pressure::after_sign(view.pressure, now, attempt.retry_after, attempt.status == Some(429));
        view.pressure = after.or(view.pressure);
        after.is_some()
    }

    /// Brings the view in line with the state, and notes when the region came back.
    fn settle(&mut self, now: Instant, breaker: Option<Transition>, view: &mut RegionView) -> Change {
        let (was_out, was_held) = (is_out(view), view.held);
        let was_well = !was_out && view.health == Health::Healthy;
        let silent = (view.silent != self.silent).then_some(self.silent);
        view.silent = self.silent;
        if let Some(transition) = breaker {
            self.opened_at = (transition.to == BreakerState::Open).then_some(now).or(self.opened_at);
            if transition.to == BreakerState::Closed {
                let closed = |guard: &&mut Guard| matches!(guard.state(), GuardState::Closed { .. });
                self.guards.iter_mut().filter(closed).for_each(Guard::forget);
            }
        }
        view.health = self.health.health();
        view.breaker = self.breaker.state();
        view.open_until = self.breaker.open_until();
        let out = is_out(view);
        if was_well && out {
            view.well_until = Some(now);
        }
        if was_out != out {
            self.hold.on_change(now);
        }
        self.hold.tick(now, !out);
        view.held = self.hold.is_held();
        if (was_out || was_held) && !out && !view.held {
            view.recovered_at = Some(now);
        }
        let (guards, failing) = self.show_guards(view);
        let held = (view.held != was_held).then_some(view.held);
        let shows =
            breaker.is_some() || was_out != out || held.is_some() || silent.is_some() || failing || !guards.is_empty();
        Change { breaker, health: None, guards, held, silent, shows, heeds: Some(self.heeds()) }
    }

    /// Copies the guards into the view; those that moved, and whether the failing share did.
    fn show_guards(&self, view: &mut RegionView) -> (SmallVec<[(GuardClass, GuardState); 2]>, bool) {
        let mut moved = SmallVec::new();
        for ((class, guard), shown) in GuardClass::ALL.into_iter().zip(&self.guards).zip(&mut view.guards) {
            let state = guard.state();
            if state != *shown {
                *shown = state;
                moved.push((class, state));
            }
        }
        let failing = self.guards.first().map_or(0.0, Guard::failing);
        let failing = (failing * FAILING_STEPS).round() / FAILING_STEPS;
        let differs = (failing - view.failing).abs() > f64::EPSILON;
        view.failing = failing;
        (moved, differs)
    }

    fn heeds(&self) -> u8 {
        let any = if self.failing || self.silent { Change::ANY } else { 0 };
        let bit = |(place, guard): (usize, &Guard)| u8::from(guard.heeds_success()) << place;
        self.guards.iter().enumerate().map(bit).fold(any, |bits, bit| bits | bit)
    }
}

/// The result of a probe.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// 200 and an accepted status.
    pub healthy: bool,
    /// From the question to the whole answer; none without an answer.
    pub round_trip: Option<Duration>,
}

fn is_out(view: &RegionView) -> bool {
    view.health == Health::Unhealthy || view.breaker != BreakerState::Closed
}

fn observe(latency: &mut Option<Ewma>, round_trip: Duration, now: Instant) -> Duration {
    let sample = round_trip.as_secs_f64();
    let mean = latency.get_or_insert(Ewma::starting(sample, now, LATENCY_DECAY));
    mean.add(sample, now);
    // A mean of durations is one; a default of zero would make the region the nearest.
    let mean = Duration::try_from_secs_f64(mean.mean());
    debug_assert!(mean.is_ok(), "{mean:?}");
    mean.unwrap_or(round_trip)
}
