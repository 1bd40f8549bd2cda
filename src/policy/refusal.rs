//! Why a region is no candidate for a job.

/// Why a region is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The job was refused before regions were compared.
    #[error("not compared: the job itself is refused")]
    NotCompared,
    /// The job is pinned, and not to this region.
    #[error("the job is pinned elsewhere")]
    PinnedElsewhere,
    /// A routing rule does not permit it.
    #[error("not permitted by a routing rule")]
    NotPermitted,
    /// Its weight is 0.
    #[error("drained by the operator")]
    Drained,
    /// Its health probes fail.
    #[error("unhealthy")]
    Unhealthy,
    /// Its breaker is open.
    #[error("circuit breaker open")]
    BreakerOpen,
    /// Its breaker waits for the result of one probe.
    #[error("circuit breaker half-open, waiting for one probe")]
    HalfOpen,
    /// Its enqueues fail, or a share of them is tried and this job was not drawn for it.
    #[error("enqueues fail there")]
    GuardOpen,
    /// Its queue is as deep as it may be for `affinity`.
    #[error("queue at its maximum depth")]
    AtCapacity,
    /// `failover.exclude_regions` names it and it is not the first choice.
    #[error("excluded from failover")]
    Excluded,
}

impl Refusal {
    /// The name in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotCompared => "not_compared",
            Self::PinnedElsewhere => "pinned_elsewhere",
            Self::NotPermitted => "not_permitted",
            Self::Drained => "drained",
            Self::Unhealthy => "unhealthy",
            Self::BreakerOpen => "breaker_open",
            Self::HalfOpen => "half_open",
            Self::GuardOpen => "guard_open",
            Self::AtCapacity => "at_capacity",
            Self::Excluded => "excluded",
        }
    }
}
