//! The answer of a job's client.

use serde::{Deserialize, Serialize};

use super::copy::Place;

/// The client's answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "told")]
pub enum Told {
    /// Nothing yet: its call is under way.
    Nothing,
    /// Nothing: its call ended with the process.
    BrokenOff,
    /// An unknown outcome.
    Unknown,
    /// That it is not stored.
    Refused,
    /// That this copy is stored, with this status.
    Stored {
        /// Where it was.
        place: Place,
        /// The status of the answer.
        status: u16,
    },
}
