//! The document of the changes of jobs that a sidecar has seen.

use serde::{Deserialize, Serialize};

use super::status::is_name;
use crate::replica::{CHANGE_BYTES_MAX, Change};

/// Changes in one request.
pub const CHANGES_MAX: usize = 200;
/// The longest request. Units: bytes.
pub const CHANGES_BYTES_MAX: usize = CHANGES_MAX * (CHANGE_BYTES_MAX + 1) + 1_024;

/// The changes of jobs that a sidecar has seen. Shape: JSON. A repetition changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangesRequest {
    /// The name of the sidecar in the inventory.
    pub sidecar: String,
    /// The changes.
    pub changes: Vec<Change>,
}

impl ChangesRequest {
    /// The first member that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        if !is_name(&self.sidecar) {
            return Some("`sidecar`: expected 1 to 128 bytes of visible ASCII");
        }
        if self.changes.len() > CHANGES_MAX {
            return Some("`changes`: expected at most 200 of them");
        }
        self.changes.iter().find_map(Change::mistake)
    }
}
