//! Why a region is no candidate for a job.

use crate::base::words;

words! {
    /// Why a region is no candidate.
    #[derive(thiserror::Error)]
    Refusal {
        /// The job was refused before regions were compared.
        #[error("not compared: the job itself is refused")]
        NotCompared = "not_compared",
        /// The job is pinned, and not to this region.
        #[error("the job is pinned elsewhere")]
        PinnedElsewhere = "pinned_elsewhere",
        /// A routing rule does not permit it.
        #[error("not permitted by a routing rule")]
        NotPermitted = "not_permitted",
        /// Its weight is 0, or a switch drains it.
        #[error("drained by the operator")]
        Drained = "drained",
        /// A switch evacuates it.
        #[error("evacuated by the operator")]
        Evacuated = "evacuated",
        /// A switch isolates it.
        #[error("isolated by the operator")]
        Isolated = "isolated",
        /// A drill keeps this job from it; it comes last.
        #[error("left for a failover drill")]
        Drilled = "drill",
        /// This sidecar is a spoke that does not hear its hub, and the region is not its own.
        #[error("no region but the local one gets jobs until the hub is heard again")]
        HubLost = "hub_lost",
        /// Its health probes fail.
        #[error("unhealthy")]
        Unhealthy = "unhealthy",
        /// Its breaker is open.
        #[error("circuit breaker open")]
        BreakerOpen = "breaker_open",
        /// Its breaker waits for the result of one probe.
        #[error("circuit breaker half-open, waiting for one probe")]
        HalfOpen = "half_open",
        /// Its enqueues fail, or a share of them is tried and this job was not drawn for it.
        #[error("enqueues fail there")]
        GuardOpen = "guard_open",
        /// Its queue is as deep as it may be for `affinity`.
        #[error("queue at its maximum depth")]
        AtCapacity = "at_capacity",
        /// `failover.exclude_regions` names it, or a switch forbids failover into it, and it is not the first choice.
        #[error("excluded from failover")]
        Excluded = "excluded",
    }
}
