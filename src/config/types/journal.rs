//! What is kept of calls whose outcome is not known, and of calls that may be repeated.

/// What follows a job that may go to several regions of which none is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnAllUnhealthy {
    /// 503 `no_healthy_region`.
    Refuse,
    /// One try at the region that was well last; never for a pinned job.
    TryLastGood,
}

/// What a region's server does with an enqueue under an id that it has already. Spec: ojs-protocol 5.1.
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

/// What follows an enqueue whose outcome cannot be found out within the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnknown {
    /// 500 `outcome_unknown`.
    Fail,
    /// The next candidate, at the risk that the job is stored twice; never for a pinned job.
    Redirect,
}
