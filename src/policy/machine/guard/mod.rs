//! Guards: for each region and class of calls, whether such calls are worth sending. They see grey where the breaker sees black.
//!
//! A region whose workers are served while no job can be stored is neither up nor down. Its breaker covers the whole
//! region; a guard takes one class of calls away and leaves the others alone. It opens by the share of failed calls of
//! its class over a window, or by a run of failures while another class proves that the region works. 500s count when
//! calls of several sources meet them, because one poisonous job must not close a region for all others. A good probe
//! forgives nothing.
//!
//! ```text
//!             share or run of failures          cooldown over            enough trials succeeded
//!   closed ────────────────────────────▶ open ──────────────▶ trial ───────────────────────────▶ closed, ramping up
//!                                         ▲                     │
//!                                         └──── a trial failed ─┘
//! ```
//!
//! In trial a small share of the class's calls goes through, drawn at random; the share grows while too few calls come for a
//! verdict. Then flexible jobs ramp up as they do after a recovery of the region.

mod class;
mod sources;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub use class::{Attempt, GuardClass, Shown};
use sources::Sources;

use super::ratio::RatioWindow;
use crate::base::Draw;
use crate::config::CircuitBreaker;

/// Trials that must succeed one after the other. A region that fails every third call fails one of five in seven cases of eight.
const TRIALS: u32 = 5;
/// The share of calls that are trials at first: few enough to fail, and enough to reach five within a few seconds at
/// ten a second.
const TRIAL_SHARE: f64 = 0.1;

/// A guard as the view shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardState {
    /// Calls flow.
    Closed {
        /// When it last came back; the start of the ramp.
        recovered_at: Option<Instant>,
    },
    /// Nothing of its class is sent.
    Open {
        /// When trials begin.
        until: Instant,
    },
    /// A share of its class is sent.
    Trial {
        /// Since when.
        since: Instant,
        /// When the share has grown to all.
        all_at: Instant,
    },
}

impl GuardState {
    /// Calls flow and always have.
    pub(in crate::policy) const FLOWING: Self = Self::Closed { recovered_at: None };

    /// Whether this call may be sent: always while closed, never while open, for a share of calls in trial.
    pub fn admits(self, now: Instant, draw: &mut Draw) -> bool {
        match self {
            Self::Closed { .. } => true,
            Self::Open { .. } => false,
            Self::Trial { since, all_at } => {
                let whole = all_at.saturating_duration_since(since).as_secs_f64().max(f64::MIN_POSITIVE);
                let grown = now.saturating_duration_since(since).as_secs_f64() / whole;
                draw.unit() < grown.max(TRIAL_SHARE)
            }
        }
    }

    /// How long until such a call may be sent again; none while they flow.
    #[must_use]
    pub fn wait(self, now: Instant) -> Option<Duration> {
        match self {
            Self::Closed { .. } => None,
            Self::Open { until } => Some(until.saturating_duration_since(now)),
            Self::Trial { .. } => Some(Duration::ZERO),
        }
    }

    /// The name in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::Trial { .. } => "trial",
        }
    }
}

/// The counts of data threads for one class at one region; they only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassTotals {
    /// Calls that showed something.
    pub calls: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Those of them that ended in a server error.
    pub server_errors: u64,
}

/// The guard of one class at one region.
#[derive(Debug)]
pub(in crate::policy) struct Guard {
    config: CircuitBreaker,
    state: GuardState,
    failures: RatioWindow,
    server_errors: RatioWindow,
    sources: Sources,
    /// Failures one after the other while another class works.
    run: u32,
    trials_passed: u32,
    may_open: bool,
    /// The window's content at its last reading: calls and failures that count.
    seen: (u64, u64),
}

impl Guard {
    pub(in crate::policy) fn new(class: GuardClass, config: &CircuitBreaker) -> Self {
        Self {
            state: GuardState::FLOWING,
            failures: RatioWindow::new(config.ratio_window),
            server_errors: RatioWindow::new(config.ratio_window),
            sources: Sources::default(),
            run: 0,
            trials_passed: 0,
            may_open: class.is_refusable(),
            seen: (0, 0),
            config: config.clone(),
        }
    }

    pub(in crate::policy) fn reconfigure(&mut self, config: &CircuitBreaker) {
        if self.config.ratio_window != config.ratio_window {
            self.failures = RatioWindow::new(config.ratio_window);
            self.server_errors = RatioWindow::new(config.ratio_window);
        }
        self.config = config.clone();
    }

    pub(in crate::policy) const fn state(&self) -> GuardState {
        self.state
    }

    /// Whether a success would change something: a run to end, or a trial to pass.
    pub(in crate::policy) const fn heeds_success(&self) -> bool {
        self.run > 0 || matches!(self.state, GuardState::Trial { .. })
    }

    /// Whether calls of this class have lately succeeded and none has failed: the region works, for them at least.
    pub(in crate::policy) const fn proves_work(&self) -> bool {
        self.seen.0 > self.seen.1 && self.seen.1 == 0
    }

    /// The failed share of this class in the window, from 0 to 1; few calls say little.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
    pub(in crate::policy) fn failing(&self) -> f64 {
        // As if two more calls had succeeded: one failure alone is a third, and three of three are more than half.
        self.seen.1 as f64 / (self.seen.0 + 2) as f64
    }

    /// Whether the window was empty when it was last read.
    pub(in crate::policy) fn is_quiet(&self) -> bool {
        self.failures.is_empty() && self.server_errors.is_empty()
    }

    /// Whether the server errors of late may be the region's own.
    pub(in crate::policy) fn errors_count(&self, source: Option<u64>, now: Instant) -> bool {
        source.is_none() || self.sources.are_many(now, self.config.ratio_window)
    }

    /// Remembers the source of a call that met a 500.
    pub(in crate::policy) fn blame(&mut self, source: u64, now: Instant) {
        self.sources.add(source, now);
    }

    /// Takes a reading of the totals; true when the guard opened.
    pub(in crate::policy) fn on_totals(&mut self, now: Instant, totals: ClassTotals) -> bool {
        let (calls, failures) = self.failures.read(now, totals.calls, totals.failures);
        let (_, errors) = self.server_errors.read(now, totals.calls, totals.server_errors);
        // One source's errors are as if they had not been: they speak neither for nor against the region.
        let counted = if self.sources.are_many(now, self.config.ratio_window) { errors } else { 0 };
        self.seen = (calls.saturating_sub(errors - counted.min(errors)), failures + counted);
        let (calls, failures) = self.seen;
        let enough = calls >= u64::from(self.config.ratio_min_requests).max(1);
        let closed = matches!(self.state, GuardState::Closed { .. });
        closed && enough && share(failures, calls) >= self.config.failure_ratio && self.open(now)
    }

    /// Takes a reading of the totals that says nothing of the region.
    pub(in crate::policy) fn skip(&mut self, now: Instant, totals: ClassTotals) {
        self.failures.read(now, totals.calls, totals.failures);
        self.server_errors.read(now, totals.calls, totals.server_errors);
        self.forget();
    }

    /// A call failed that counts against the class; `alone`: another class shows that the region works. True when the guard
    /// opened.
    pub(in crate::policy) fn on_failure(&mut self, now: Instant, alone: bool) -> bool {
        match self.state {
            GuardState::Open { .. } => false,
            GuardState::Trial { .. } => self.open(now),
            GuardState::Closed { .. } if alone => {
                self.run = self.run.saturating_add(1);
                self.run >= self.config.failure_threshold && self.open(now)
            }
            GuardState::Closed { .. } => false,
        }
    }

    /// A call succeeded; true when the guard closed.
    pub(in crate::policy) fn on_success(&mut self, now: Instant) -> bool {
        self.run = 0;
        if !matches!(self.state, GuardState::Trial { .. }) {
            return false;
        }
        self.trials_passed += 1;
        let passed = self.trials_passed >= TRIALS;
        if passed {
            self.forget();
            self.state = GuardState::Closed { recovered_at: Some(now) };
        }
        passed
    }

    /// Lets trials begin once the cooldown is over; true when they do.
    pub(in crate::policy) fn tick(&mut self, now: Instant) -> bool {
        let due = matches!(self.state, GuardState::Open { until } if until <= now);
        if due {
            self.forget();
            self.state = GuardState::Trial { since: now, all_at: now + self.config.cooldown };
        }
        due
    }

    /// Forgets the counts, not the decision: earlier failures of the region do not count after it.
    pub(in crate::policy) fn forget(&mut self) {
        self.failures.clear();
        self.server_errors.clear();
        self.sources = Sources::default();
        (self.run, self.trials_passed, self.seen) = (0, 0, (0, 0));
    }

    /// Opens, unless its class is never refused.
    fn open(&mut self, now: Instant) -> bool {
        self.run = 0;
        if self.may_open {
            self.state = GuardState::Open { until: now + self.config.cooldown };
        }
        self.may_open
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share needs no more than 53 bits")]
const fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
