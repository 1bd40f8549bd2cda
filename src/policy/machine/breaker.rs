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
//! Opening. Three signals, each alone: consecutive failed probes, consecutive failed requests, and the share of failed
//! requests over a window. The two runs are counted apart and each is ended only by its own kind of success. Otherwise
//! a region whose health endpoint is fine while every job fails would never open, because each good probe would forgive
//! the failures since the last. The share detects faults without a run: every other request failing.
//!
//! Open. No routed traffic and no probes but early ones: the specification wants silence, so that an overloaded region
//! gets no further load. [`Breaker::tick`] ends the silence after the cooldown. A cooldown may grow with each failed
//! return (`cooldown_multiplier`), never beyond `cooldown_max`, and is back at its base once the breaker has closed.
//!
//! Early probes. While jobs are refused for lack of any region, waiting costs more than asking. So while it is open,
//! one probe at a time, and one each `early_probe` at most, may find out early that the region is back: its success
//! closes the breaker, its failure changes nothing, the cooldown included. A region that opens again soon after waits
//! twice as long for its next early probe each time, up to the cooldown: there the health request proves too little.
//!
//! Half-open. Exactly one probe, a health request and never a client's job: after a cooldown thousands of jobs may
//! wait, and all but the one sent as a probe would have to be refused anyway. The probe is a [`Permit`]: a value that
//! exists once, is handed back with the result, and frees its place when it is dropped (a cancelled probe must not
//! block the region for ever). Permits carry the epoch of the breaker, which moves with every transition. A result from
//! an earlier epoch, such as that of a slow probe sent while the breaker was still closed, decides nothing: that state
//! was already judged. For the same reason results of requests count only while the breaker is closed.
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

/// Doubled so often, any wait is beyond any cooldown.
const RELAPSES_MAX: u32 = 16;

/// The breaker of one region.
#[derive(Debug)]
pub struct Breaker {
    config: CircuitBreaker,
    state: BreakerState,
    open_until: Option<Instant>,
    epoch: u64,
    /// Openings since it was last closed.
    openings: i32,
    /// While open: when an early probe may be sent; none where none is.
    early_from: Option<Instant>,
    /// When an early probe last closed it, and how often in a row that did not last.
    early_closed: Option<Instant>,
    relapses: u32,
    /// Whether requests opened it, and no probe, since it was last closed.
    by_requests: bool,
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
            early_from: None,
            early_closed: None,
            relapses: 0,
            by_requests: false,
            probe_failures: 0,
            request_failures: 0,
            ratio: RatioWindow::new(config.ratio_window),
            gate: Gate::default(),
        }
    }

    /// Takes over a new configuration; the state and the counts stay.
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

    /// Whether it is not closed because requests failed, and no probes.
    #[must_use]
    pub const fn is_by_requests(&self) -> bool {
        self.by_requests
    }

    /// Leave to probe: always while closed, never while open, one at a time while half-open.
    pub fn probe_permitted(&mut self) -> Option<Permit> {
        match self.state {
            BreakerState::Closed => Some(self.gate.freely(self.epoch)),
            BreakerState::Open => None,
            BreakerState::HalfOpen => self.gate.alone(self.epoch),
        }
    }

    /// While open: from when on [`Breaker::early_probe_permitted`] gives leave.
    #[must_use]
    pub const fn early_from(&self) -> Option<Instant> {
        self.early_from
    }

    /// Leave to probe before the cooldown is over: one at a time while open, and one each `early_probe` at most.
    pub fn early_probe_permitted(&mut self, now: Instant) -> Option<Permit> {
        self.early_from.filter(|from| self.state == BreakerState::Open && *from <= now)?;
        let permit = self.gate.alone(self.epoch)?;
        self.early_from = Some(now + self.config.early_probe);
        Some(permit)
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
            (BreakerState::Open, true) => {
                self.open_until = None;
                self.early_closed = Some(now);
                Some(self.close(Cause::ProbeSucceeded))
            }
            (BreakerState::Open, false) => None,
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

    /// Whether it is closed and a tick, or a reading of these totals, would change nothing.
    pub(in crate::policy) fn is_at_rest(&self, requests: u64) -> bool {
        self.state == BreakerState::Closed && self.ratio.is_empty() && self.ratio.has_read(requests)
    }

    /// Takes back that it opened: the failures were our own. A breaker that is not open stays as it is.
    pub(in crate::policy) fn revoke(&mut self) -> Option<Transition> {
        (self.state == BreakerState::Open).then(|| {
            self.open_until = None;
            self.close(Cause::SelfSuspect)
        })
    }

    fn open(&mut self, now: Instant, cause: Cause) -> Transition {
        if self.state == BreakerState::Closed {
            let lasted = self.early_closed.take().map(|at| now.saturating_duration_since(at));
            self.relapses = if lasted.is_some_and(|lasted| lasted < self.config.cooldown) {
                self.relapses.saturating_add(1)
            } else {
                0
            };
            self.by_requests = matches!(cause, Cause::RequestFailures | Cause::FailureRatio);
        }
        let early = self.config.early_probe;
        let wait = early.saturating_mul(1 << self.relapses.min(RELAPSES_MAX)).min(self.config.cooldown);
        self.early_from = (!early.is_zero()).then(|| now + wait);
        self.open_until = Some(now + self.cooldown());
        self.openings = self.openings.saturating_add(1);
        self.shift(BreakerState::Open, cause)
    }

    fn close(&mut self, cause: Cause) -> Transition {
        self.by_requests = false;
        self.openings = 0;
        self.probe_failures = 0;
        self.request_failures = 0;
        self.ratio.clear();
        self.shift(BreakerState::Closed, cause)
    }

    fn shift(&mut self, to: BreakerState, cause: Cause) -> Transition {
        let from = std::mem::replace(&mut self.state, to);
        if to != BreakerState::Open {
            self.early_from = None;
        }
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
