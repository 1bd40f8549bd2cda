//! The words of breakers: their states, the events that move them, and the reasons.

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Traffic flows.
    Closed,
    /// Everything is rejected, probes too.
    Open,
    /// One probe decides.
    HalfOpen,
}

impl BreakerState {
    /// The name on the wire, in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half-open",
        }
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

/// Why a breaker changed its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Probes failed one after the other.
    ProbeFailures,
    /// Requests failed one after the other.
    RequestFailures,
    /// Too large a share of requests failed.
    FailureRatio,
    /// The cooldown is over.
    CooldownOver,
    /// The half-open probe succeeded.
    ProbeSucceeded,
    /// The half-open probe failed.
    ProbeFailed,
    /// Every region failed with our own network.
    SelfSuspect,
}

impl Cause {
    /// The name in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ProbeFailures => "probe_failures",
            Self::RequestFailures => "request_failures",
            Self::FailureRatio => "failure_ratio",
            Self::CooldownOver => "cooldown_over",
            Self::ProbeSucceeded => "probe_succeeded",
            Self::ProbeFailed => "probe_failed",
            Self::SelfSuspect => "self_suspect",
        }
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
