//! A row of the file, and the states of its job.

use super::head::Head;
use crate::base::words;
use crate::outcome::Copy;
use crate::telemetry::SpoolResult;

words! {
    /// The state of a spooled job.
    #[derive(PartialOrd, Ord)]
    RowState {
        /// It waits for a region.
        Waiting = "waiting",
        /// It is on its way to a region.
        Sending = "sending",
        /// A region, or the sidecar itself, refuses it for good.
        Refused = "refused",
        /// It was too old before any region took it.
        Expired = "expired",
        /// Its content cannot be read.
        Damaged = "damaged",
    }
}

impl RowState {
    /// The state with this word, as rows have it.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// The count of a job that comes into this state.
    pub(super) const fn result(self) -> SpoolResult {
        match self {
            Self::Waiting | Self::Sending => SpoolResult::Stored,
            Self::Refused => SpoolResult::Refused,
            Self::Expired => SpoolResult::Expired,
            Self::Damaged => SpoolResult::Damaged,
        }
    }

    /// Whether only an operator, or its client's cancellation, ends it.
    #[must_use]
    pub const fn is_aside(self) -> bool {
        matches!(self, Self::Refused | Self::Expired | Self::Damaged)
    }
}

/// A row without its sealed content.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Its number, in the order of spooling.
    pub(super) number: u64,
    pub(super) state: RowState,
    /// Why it is set aside.
    pub(super) reason: Option<String>,
    /// From when its age counts. Units: milliseconds since the Unix epoch.
    pub(super) since_ms: u64,
    /// Whether the file does not have it as damaged yet.
    pub(super) is_new_damage: bool,
    /// `None` where it cannot be read.
    pub(super) head: Option<Head>,
    /// Where it was sent, in order.
    pub(super) copies: Vec<Copy>,
    /// Its size in the account of `spool.max_bytes`.
    pub(super) bytes: u64,
}
