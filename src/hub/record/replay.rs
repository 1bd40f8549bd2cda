//! Rows of replays in a record: orders of operators to run jobs again, and the step of each job.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use crate::base::words;

/// Replays that are under way at once: each has a second in turn, so that more of them only make all slower.
pub(in crate::hub) const OPEN_REPLAYS_MAX: u64 = 16;
/// Replays that a record keeps behind their end, the last ones: each has up to 10 000 jobs of some 300 bytes.
pub(in crate::hub) const KEPT_REPLAYS_MAX: u64 = 1_000;

words! {
    /// The step of one job in a replay.
    ReplayStep {
        /// It is to be run again.
        Waiting = "waiting",
        /// The new job may have been enqueued: its answer is not known yet.
        Sending = "sending",
        /// The region has stored the new job.
        Replayed = "replayed",
        /// In a dry run: it would be run again.
        WouldReplay = "would_replay",
        /// Nothing was enqueued, for a reason.
        Refused = "refused",
        /// The new job was sent several times, and its region never showed it.
        Unknown = "unknown",
        /// The replay was stopped before it.
        Stopped = "stopped",
    }
}

/// A replay as the record keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedReplay {
    pub(in crate::hub) id: String,
    /// The number of changes; 0 for one that the record does not have yet.
    pub(in crate::hub) version: u64,
    /// As JSON.
    pub(in crate::hub) document: String,
    /// Whether there is something left to do.
    pub(in crate::hub) is_open: bool,
    /// When it was ordered. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) began_ms: u64,
}

/// The replays that are under way, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct OpenReplays {
    pub(in crate::hub) all: Vec<SavedReplay>,
    /// The time at the record, so that all hubs which share it have one clock. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) now_ms: u64,
}

/// A job of a replay as the record keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub(in crate::hub) struct ReplayJob {
    /// Its place in the order, from 0.
    pub(in crate::hub) place: u64,
    /// The original.
    pub(in crate::hub) job_id: String,
    /// The region that has it, once that is known.
    pub(in crate::hub) region: Option<String>,
    /// The id of the new job, before its first byte is sent.
    pub(in crate::hub) new_id: Option<String>,
    /// The digest of its arguments, `sha256:HEX`.
    pub(in crate::hub) digest: Option<String>,
    /// The word of its step.
    pub(in crate::hub) step: String,
    /// The word of the reason, where nothing was enqueued.
    pub(in crate::hub) why: Option<String>,
    /// More about it: a status of the region, or the state of the new job.
    pub(in crate::hub) detail: Option<String>,
    /// How often the new job may have been sent.
    pub(in crate::hub) sends: u64,
    /// When it came to this step, by the clock of the record. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) changed_ms: u64,
}
