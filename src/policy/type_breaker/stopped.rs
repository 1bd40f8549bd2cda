//! A stopped type and tenant, as sidecars know it.

use serde::{Deserialize, Serialize};

/// The jobs of a type and a tenant that wait. Shape: JSON; a later hub may add members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoppedType {
    /// The type.
    pub job_type: String,
    /// The tenant; none for jobs without one.
    pub tenant: Option<String>,
    /// The queues that hold these jobs alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Until when they wait at least, as far as is known. Units: milliseconds since the Unix epoch.
    pub until_ms: u64,
    /// How long each new job waits at most, from now on, while a probe is looked for or under way. Units: milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// How long behind the pause a job that is delayed while the breaker is open becomes due, so that the probe goes before it. Units: milliseconds.
    #[serde(default)]
    pub behind_ms: u64,
    /// The time over which such jobs are spread from then on. Units: milliseconds.
    #[serde(default)]
    pub spread_ms: u64,
    /// The permission of this sidecar to let one job through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
}
