//! The rows of incidents, and of the ends of jobs that lead to them.

/// Incidents that are open at once: each is looked at every second, and is in every feed.
pub(in crate::hub) const OPEN_INCIDENTS_MAX: u64 = 256;
/// Rows of ends that a hub reads of others at once.
pub(in crate::hub) const ENDS_MAX: u64 = 20_000;

/// An incident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedIncident {
    /// Its name: the time of its start, and random letters.
    pub(in crate::hub) id: String,
    /// The number of changes; 0 for one that the record does not have yet.
    pub(in crate::hub) version: u64,
    pub(in crate::hub) job_type: String,
    /// Empty for jobs without a tenant.
    pub(in crate::hub) tenant: String,
    /// Whether it is open. At most one of a type and a tenant is.
    pub(in crate::hub) is_open: bool,
    /// Units here and below: milliseconds since the Unix epoch.
    pub(in crate::hub) opened_ms: u64,
    pub(in crate::hub) closed_ms: Option<u64>,
    /// When the next message about it is due; none where all were sent or given up.
    pub(in crate::hub) due_ms: Option<u64>,
    /// As JSON.
    pub(in crate::hub) document: String,
}

/// Incidents that are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum IncidentQuery {
    /// The open ones, and those that were closed since a time.
    Recent(u64),
    /// Those with a message that is due, the longest due first, at most so many.
    Due(u64, u64),
}

/// The ends of jobs of one type and tenant in a span of time, as one process of a hub has heard of them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(in crate::hub) struct SavedEnds {
    pub(in crate::hub) job_type: String,
    /// Empty for jobs without a tenant.
    pub(in crate::hub) tenant: String,
    /// When the span begins. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) from_ms: u64,
    pub(in crate::hub) succeeded: u64,
    pub(in crate::hub) failed: u64,
    /// Some of the failed jobs, as a JSON array.
    pub(in crate::hub) jobs: String,
}
