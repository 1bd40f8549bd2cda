//! How calls that concern several regions are served.

/// The treatment of a batch whose jobs must go to several regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MixedBatch {
    /// Each region gets its part; created jobs are cancelled when another part fails.
    Split,
    /// Refused with 400.
    Reject,
}

/// Which regions a change of a queue reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueControl {
    /// Every region.
    All,
    /// The local region.
    Local,
}

/// The list of a region that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListReplicas {
    /// It is missing, and the region is named.
    Off,
    /// The index of the hub answers for jobs, each of them marked.
    Mark,
}

/// The part of a job that is shown when it is pinned to another region than the local one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadResidency {
    /// The whole job.
    Allow,
    /// The job without `args`, `result` and other content of the client.
    Redact,
    /// Nothing.
    Deny,
}
