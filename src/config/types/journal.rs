//! Records of calls with an unknown outcome, and of calls that may be repeated.

/// The step for a flexible job when no region is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnAllUnhealthy {
    /// 503 `no_healthy_region`.
    Refuse,
    /// One try at the region that was well last; never for a pinned job.
    TryLastGood,
}

/// The behaviour of a region's server for an enqueue under a taken id. Spec: ojs-protocol 5.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicateIds {
    /// `refuse` once it has refused one; `overwrite` until then.
    Auto,
    /// It answers 409.
    Refuse,
    /// It answers with the job that it has.
    Same,
    /// It stores the new job in place of the first.
    Overwrite,
}

/// The step after an enqueue whose outcome cannot be found out within the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnknown {
    /// 500 `outcome_unknown`.
    Fail,
    /// The next candidate, at the risk that the job is stored twice; never for a pinned job.
    Redirect,
}
