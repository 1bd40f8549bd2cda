//! How calls that concern several regions are served.

/// Batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// What happens to a batch whose jobs must go to several regions.
    pub mixed: MixedBatch,
}

/// What happens to a batch whose jobs must go to several regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MixedBatch {
    /// Each region gets its part; what was created is cancelled when another part fails.
    Split,
    /// Refused with 400.
    Reject,
}

/// Workers.
#[derive(Debug, Clone, PartialEq)]
pub struct Workers {
    /// Queues whose jobs may be fetched from other regions: the operator declares them free of residency rules.
    pub remote_fetch: Vec<String>,
}

/// Queues.
#[derive(Debug, Clone, PartialEq)]
pub struct Queues {
    /// Which regions pause, resume and purge reach.
    pub control: QueueControl,
}

/// Which regions a change of a queue reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueControl {
    /// Every region.
    All,
    /// The local region.
    Local,
}

/// Merged lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Lists {
    /// Whether every item names its region, under `x-ojs-federation`.
    pub annotate: bool,
}

/// Reads of jobs that are pinned to another region than the local one.
#[derive(Debug, Clone, PartialEq)]
pub struct Residency {
    /// What a lookup by id returns.
    pub read: ReadResidency,
    /// What lists return.
    pub read_lists: ReadResidency,
}

/// What is returned of a job that is pinned to another region than the local one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadResidency {
    /// The whole job.
    Allow,
    /// The job without `args`, `result` and what else the client put into it.
    Redact,
    /// Nothing.
    Deny,
}
