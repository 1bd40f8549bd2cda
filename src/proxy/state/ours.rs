//! The parts of an enqueue that the sidecar has added.

/// The parts of one enqueue that the sidecar has added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ours {
    /// Its id was minted.
    pub(crate) minted: bool,
    /// Its tracking id was.
    pub(crate) stamped: bool,
    /// By its `unique` policy a region may answer with another job.
    pub(crate) unique: bool,
    /// Its id carries a hint of its region.
    pub(crate) hinted: bool,
}
