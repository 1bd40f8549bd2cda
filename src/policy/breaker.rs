//! The circuit breaker of one region. Spec: federation-spec §4.3.
//!
//! A breaker answers one question: is it worth trying this region at all? Its states are spelled on the wire as the
//! specification has them, and closed means that traffic flows:
//!
//! ```text
//!             failures reach the threshold            cooldown over
//!   closed ────────────────────────────────▶ open ─────────────────▶ half-open
//!     ▲                                        ▲                       │   │
//!     │                                        └──── probe failed ─────┘   │
//!     └───────────────────────────── probe succeeded ──────────────────────┘
//! ```
//!
//! What opens it. Three signals, each alone: consecutive failed probes, consecutive failed requests, and the share of failed
//! requests over a window. The two runs are counted apart and each is ended only by its own kind of success. Otherwise a
//! region whose health endpoint is fine while every job fails would never open, because each good probe would forgive the
//! failures since the last. The share catches what no run shows: every other request failing.
//!
//! What open means. No routed traffic and no probe: the specification wants silence, so that a region on its knees is not
//! kicked. [`Breaker::tick`] ends the silence after the cooldown. A cooldown may grow with each failed return
//! (`cooldown_multiplier`), never beyond `cooldown_max`, and is back at its base once the breaker has closed.
//!
//! What half-open means. Exactly one probe, a health request and never somebody's job: after a cooldown thousands of jobs may
//! wait, and all but the one sent as a probe would have to be refused anyway. The probe is a [`Permit`]: a value that exists
//! once, is handed back with the result, and frees its place when it is dropped (a cancelled probe must not block the region
//! for ever). Permits carry the epoch of the breaker, which moves with every transition. A result from an earlier epoch, such
//! as that of a slow probe sent while the breaker was still closed, decides nothing: it tells of a past that was already
//! judged. For the same reason results of requests count only while the breaker is closed.
//!
//! The breaker keeps no clock and no lock. One owner on the control plane drives it; data threads see its state through the
//! view, and reach it only when a request failed or when one succeeded after failures.

mod permit;
#[cfg(test)]
mod tests;
mod words;

use std::time::{Duration, Instant};

use self::permit::Gate;
pub use self::permit::Permit;
pub use self::words::{BreakerState, Cause, RequestOutcome, Transition};
use super::ratio::RatioWindow;
use crate::config::CircuitBreaker;

/// The breaker of one region.
#[derive(Debug)]
pub struct Breaker {
    config: CircuitBreaker,
    state: BreakerState,
    open_until: Option<Instant>,
    epoch: u64,
    /// Openings since it was last closed.
    openings: i32,
    probe_failures: u32,
    request_failures: u32,
    ratio: RatioWindow,
    gate: Gate,
}

impl Breaker {
    /// A closed breaker.
    #[must_use]
    pub fn new(config: &CircuitBreaker) -> Self {
        Self {
            config: config.clone(),
            state: BreakerState::Closed,
            open_until: None,
            epoch: 0,
            openings: 0,
            probe_failures: 0,
            request_failures: 0,
            ratio: RatioWindow::new(config.ratio_window),
            gate: Gate::default(),
        }
    }

    /// Takes over a new configuration; the state and what was counted stay.
    pub fn reconfigure(&mut self, config: &CircuitBreaker) {
        if self.config.ratio_window != config.ratio_window {
            self.ratio = RatioWindow::new(config.ratio_window);
        }
        self.config = config.clone();
    }

    /// The state now.
    #[must_use]
    pub const fn state(&self) -> BreakerState {
        self.state
    }

    /// While open: when [`Breaker::tick`] will make it half-open.
    #[must_use]
    pub const fn open_until(&self) -> Option<Instant> {
        self.open_until
    }

    /// Leave to probe: always while closed, never while open, one at a time while half-open.
    pub fn probe_permitted(&mut self) -> Option<Permit> {
        match self.state {
            BreakerState::Closed => Some(self.gate.freely(self.epoch)),
            BreakerState::Open => None,
            BreakerState::HalfOpen => self.gate.alone(self.epoch),
        }
    }

    /// Takes the result of a probe.
    #[expect(clippy::needless_pass_by_value, reason = "the result uses the permit up and frees its place")]
    pub fn on_probe(&mut self, now: Instant, permit: Permit, ok: bool) -> Option<Transition> {
        if permit.epoch != self.epoch {
            return None;
        }
        match (self.state, ok) {
            (BreakerState::Closed, true) => {
                self.probe_failures = 0;
                None
            }
            (BreakerState::Closed, false) => {
                self.probe_failures = self.probe_failures.saturating_add(1);
                (self.probe_failures >= self.config.failure_threshold).then(|| self.open(now, Cause::ProbeFailures))
            }
            (BreakerState::HalfOpen, true) => Some(self.close(Cause::ProbeSucceeded)),
            (BreakerState::HalfOpen, false) => Some(self.open(now, Cause::ProbeFailed)),
            (BreakerState::Open, _) => None,
        }
    }

    /// Takes the result of a request; one that ends while the breaker is not closed changes nothing.
    pub fn on_request(&mut self, now: Instant, outcome: RequestOutcome) -> Option<Transition> {
        if self.state != BreakerState::Closed {
            return None;
        }
        match outcome {
            RequestOutcome::Success => self.request_failures = 0,
            RequestOutcome::Failure => self.request_failures = self.request_failures.saturating_add(1),
            RequestOutcome::RatioOnly => {}
        }
        (self.request_failures >= self.config.failure_threshold).then(|| self.open(now, Cause::RequestFailures))
    }

    /// Takes a reading of the totals of all requests and of the failed ones, 500s included.
    pub fn on_counts(&mut self, now: Instant, requests: u64, failures: u64) -> Option<Transition> {
        let (requests, failures) = self.ratio.read(now, requests, failures);
        if self.state != BreakerState::Closed || requests < u64::from(self.config.ratio_min_requests).max(1) {
            return None;
        }
        let reached = share(failures, requests) >= self.config.failure_ratio;
        reached.then(|| self.open(now, Cause::FailureRatio))
    }

    /// Makes an open breaker half-open once its cooldown is over.
    pub fn tick(&mut self, now: Instant) -> Option<Transition> {
        self.open_until.is_some_and(|until| until <= now).then(|| {
            self.open_until = None;
            self.shift(BreakerState::HalfOpen, Cause::CooldownOver)
        })
    }

    /// Takes back that it opened: the failures were our own. A breaker that is not open stays as it is.
    pub(super) fn revoke(&mut self) -> Option<Transition> {
        (self.state == BreakerState::Open).then(|| {
            self.open_until = None;
            self.close(Cause::SelfSuspect)
        })
    }

    fn open(&mut self, now: Instant, cause: Cause) -> Transition {
        self.open_until = Some(now + self.cooldown());
        self.openings = self.openings.saturating_add(1);
        self.shift(BreakerState::Open, cause)
    }

    fn close(&mut self, cause: Cause) -> Transition {
        self.openings = 0;
        self.probe_failures = 0;
        self.request_failures = 0;
        self.ratio.clear();
        self.shift(BreakerState::Closed, cause)
    }

    fn shift(&mut self, to: BreakerState, cause: Cause) -> Transition {
        let from = std::mem::replace(&mut self.state, to);
        self.epoch += 1;
        // A permit of the state before keeps no place in the new one.
        self.gate.clear();
        Transition { from, to, cause }
    }

    fn cooldown(&self) -> Duration {
        let base = self.config.cooldown;
        let longest = self.config.cooldown_max.max(base);
        let factor = self.config.cooldown_multiplier.max(1.0).powi(self.openings);
        let grown = (base.as_secs_f64() * factor).min(longest.as_secs_f64());
        Duration::try_from_secs_f64(grown).map_or(longest, |cooldown| cooldown.clamp(base, longest))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
const fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
