//! Rows of failover drills in a record.

/// A drill as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedDrill {
    pub(in crate::hub) id: String,
    /// Its place in the order of all drills: one more than the one before has.
    pub(in crate::hub) number: u64,
    /// The number of changes; 0 for one that the record does not have yet.
    pub(in crate::hub) version: u64,
    /// As JSON.
    pub(in crate::hub) document: String,
    /// Whether it is on. At most one is.
    pub(in crate::hub) is_open: bool,
    /// When it was ordered. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) began_ms: u64,
}

/// The counts of one process of a sidecar in a drill.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(in crate::hub) struct SavedCounts {
    pub(in crate::hub) sidecar: String,
    /// Units: milliseconds since the Unix epoch.
    pub(in crate::hub) started_ms: u64,
    /// The number of the report: those of a higher one replace these, and no others do.
    pub(in crate::hub) seq: u64,
    /// As JSON.
    pub(in crate::hub) document: String,
}
