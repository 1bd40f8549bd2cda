//! The bodies of jobs as a record keeps them.

use super::content::IndexPlace;
use crate::replica::Reach;

/// The sealed bytes of one copy of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedBody {
    pub(in crate::hub) job_id: String,
    /// The region that has stored it.
    pub(in crate::hub) region: String,
    pub(in crate::hub) federation_id: Option<String>,
    /// The regions that it may go to.
    pub(in crate::hub) reach: Reach,
    /// Its call, sealed for this job and region; see [`crate::replica::JobBody::sealed_as`].
    pub(in crate::hub) sealed: Vec<u8>,
}

/// A body with its place in the order in which a record got them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct PlacedBody {
    pub(in crate::hub) body: SavedBody,
    /// The transaction that has written it.
    pub(in crate::hub) written: u64,
    /// Its number.
    pub(in crate::hub) mark: u64,
    /// Whether any fact about the copy says that it was replicated.
    pub(in crate::hub) is_replica: bool,
}

/// The part of the bodies of an origin that a reader asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct BodiesBehind {
    pub(in crate::hub) after: IndexPlace,
    /// The most that it takes.
    pub(in crate::hub) rows_max: usize,
    /// Those behind the first one that goes beyond are left for the next time. Units: bytes, as they are kept.
    pub(in crate::hub) bytes_max: usize,
}

/// The bodies that are dropped. Times are in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(in crate::hub) struct BodiesEnd {
    /// Those that were learnt before.
    pub(in crate::hub) before_ms: u64,
    /// Those learnt since then whose end came at the same time, so that neither writer saw the other.
    pub(in crate::hub) raced_since_ms: u64,
    /// The oldest of more than these. Units: bytes, as they are kept.
    pub(in crate::hub) bytes_max: u64,
}

/// The bodies after some were dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::hub) struct BodiesLeft {
    /// Their number.
    pub(in crate::hub) count: u64,
    /// Units: bytes, as they are kept.
    pub(in crate::hub) bytes: u64,
    /// How many were dropped for want of room.
    pub(in crate::hub) dropped: u64,
    /// Whether more are to be dropped.
    pub(in crate::hub) more: bool,
}

/// Bodies that are dropped at a time, so that others can use the record in between.
pub(in crate::hub) const BODIES_PRUNED_AT_ONCE: u64 = 1_000;
