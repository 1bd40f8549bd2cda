//! The claim of an `Idempotency-Key` that all sidecars of a hub know.

use serde::{Deserialize, Serialize};

use super::hex::{self, Digest};

/// The claim of a key, made in the hub before the job is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyClaim {
    /// Random, so that no other claim has it.
    #[serde(with = "hex")]
    pub token: Digest,
    /// The number of the call that has claimed the key with this token: the end of an earlier call does not release the claim of a later one.
    pub attempt: u32,
    /// Whether the hub has the verdict of the last call.
    pub is_settled: bool,
}
