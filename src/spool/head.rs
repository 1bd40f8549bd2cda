//! The readable part of a row: the names of the job and its place in the order. No argument, meta value or token is in it.

use serde::{Deserialize, Serialize};

use crate::outcome::Identity;

/// The jobs that keep their order among each other: those of a queue that name the same region, or none. Computed from the job alone, so that
/// it is the same in every configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lane {
    /// The queue.
    pub queue: String,
    /// The region that the job itself names.
    pub pin: Option<String>,
}

/// The readable part of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The identity of the job; its own id is the one that its client has, minted or not.
    pub identity: Identity,
    /// Its tracking id.
    pub federation_id: Option<String>,
    /// Whether the client gave that itself, so that the job is recognised by it.
    pub is_own_federation_id: bool,
    /// Its place in the order.
    pub lane: Lane,
    /// When it was spooled, by the wall clock. Units: milliseconds since the Unix epoch.
    pub unix_ms: u64,
}

impl Head {
    /// The job's id.
    #[must_use]
    pub fn job_id(&self) -> &str {
        self.identity.own_id.as_deref().unwrap_or_default()
    }
}
