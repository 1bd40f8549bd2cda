//! The parts of an enqueue that the sidecar has added.

/// The parts of one enqueue that the sidecar has added.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ours {
    /// Its id was minted.
    pub(super) minted: bool,
    /// Its tracking id was.
    pub(super) stamped: bool,
    /// By its `unique` policy a region may answer with another job.
    pub(super) unique: bool,
    /// Its id carries a hint of its region.
    pub(super) hinted: bool,
}
