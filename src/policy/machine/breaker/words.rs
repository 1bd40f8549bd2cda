//! The words of breakers: their states, the events that move them, and the reasons.

use crate::base::words;

words! {
    /// The state of a breaker.
    BreakerState {
        /// Traffic flows.
        Closed = "closed",
        /// Everything is rejected, probes too.
        Open = "open",
        /// One probe decides.
        HalfOpen = "half-open",
    }
}

/// The result of a request for its region's breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The region answered for itself.
    Success,
    /// Connecting, TLS or the wait failed, or a gateway answered 502, 503 or 504.
    Failure,
    /// A 500: one poisonous job must not open a breaker, so it counts in the totals of [`super::Breaker::on_counts`] and in no run.
    RatioOnly,
}

words! {
    /// Why a breaker changed its state.
    Cause {
        /// Probes failed one after the other.
        ProbeFailures = "probe_failures",
        /// Requests failed one after the other.
        RequestFailures = "request_failures",
        /// Too large a share of requests failed.
        FailureRatio = "failure_ratio",
        /// The cooldown is over.
        CooldownOver = "cooldown_over",
        /// The half-open probe succeeded.
        ProbeSucceeded = "probe_succeeded",
        /// The half-open probe failed.
        ProbeFailed = "probe_failed",
        /// Every region failed with our own network.
        SelfSuspect = "self_suspect",
    }
}

/// A change of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The state before.
    pub from: BreakerState,
    /// The state now.
    pub to: BreakerState,
    /// Why.
    pub cause: Cause,
}
