//! The status of a sidecar, for its hub.

use serde::{Deserialize, Serialize};

use crate::base::RegionId;
use crate::switch::{RegionSet, Version};

/// The state of a sidecar, as its hub's inventory has it. Shape: JSON. It holds nothing of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Its name in the inventory: `hub.name`, or the host and the port of its first client listener.
    pub name: String,
    /// Of the program.
    pub version: String,
    /// The region that it runs in.
    pub local_region: RegionId,
    /// The federation that it belongs to.
    pub federation_id: String,
    /// SHA-256 of its effective configuration, in hex: sidecars with the same configuration have the same.
    pub config_digest: String,
    /// When the process started. Units: milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// The state of the feed that is in force there.
    pub applied: Version,
    /// The regions that its jobs are bound to.
    pub region_sets: Vec<RegionSet>,
    /// Jobs whose outcome is unknown.
    pub unknown: usize,
    /// Jobs that are watched for a late copy.
    pub watched: usize,
}

/// A name in the inventory is no longer than this, and of visible ASCII. Units: bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// Whether a text can be the name of a sidecar.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
