//! The status of a sidecar, for its hub.

use serde::{Deserialize, Serialize};

use crate::base::RegionId;
use crate::switch::{RegionSet, SWITCHES_MAX, Switches, Version};

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
    /// The switches that were set at this sidecar.
    #[serde(default)]
    pub own_switches: Switches,
    /// Jobs whose outcome is unknown.
    pub unknown: usize,
    /// Jobs that are watched for a late copy.
    pub watched: usize,
    /// Queues whose load the hub is to poll for this sidecar, [`QUEUES_MAX`] at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
}

/// The longest name in the inventory. Units: bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// Regions in the sets of a status, each set counted for itself: some hundred bytes each, so that a status stays below
/// [`STATUS_BYTES_MAX`].
pub const SET_MEMBERS_MAX: usize = 1_024;

/// Queues in a status: 66 KB at most.
pub const QUEUES_MAX: usize = 256;
/// The longest name of a queue, which is that of OJS. Units: bytes.
const QUEUE_BYTES_MAX: usize = 255;

/// The longest status, as JSON. Units: bytes.
pub const STATUS_BYTES_MAX: usize = 512 * 1024;

/// Whether a text can be the name of a sidecar.
#[must_use]
pub fn is_name(text: &str) -> bool {
    is_word(text, NAME_BYTES_MAX)
}

/// Whether it has 1 to `bytes_max` bytes of visible ASCII: it is shown in terminals.
fn is_word(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Status {
    /// The first member that cannot be shown in an inventory, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        let is_text = |text: &str| text.len() <= 4 * NAME_BYTES_MAX && !text.chars().any(char::is_control);
        if !is_name(&self.name) {
            return Some("`name`: expected 1 to 128 bytes of visible ASCII");
        }
        if !is_word(&self.version, NAME_BYTES_MAX) {
            return Some("`version`: expected 1 to 128 bytes of visible ASCII");
        }
        if !is_word(&self.config_digest, NAME_BYTES_MAX) {
            return Some("`config_digest`: expected 1 to 128 bytes of visible ASCII");
        }
        if !is_text(&self.federation_id) {
            return Some("`federation_id`: expected at most 512 bytes without control characters");
        }
        if self.own_switches.iter().count() > SWITCHES_MAX {
            return Some("`own_switches`: expected no more than a sidecar takes");
        }
        let is_queue = |name: &String| name.len() <= QUEUE_BYTES_MAX && !name.chars().any(char::is_control);
        if self.queues.len() > QUEUES_MAX || !self.queues.iter().all(is_queue) {
            return Some("`queues`: expected at most 256 names of at most 255 bytes");
        }
        None
    }
}
