//! A region's verdict on a job that it is asked for.

use serde::{Deserialize, Serialize};

/// How far a copy has come in its region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// It waits, and no worker has had it.
    Waiting,
    /// A worker has it, or had it.
    Started,
    /// It has ended after a worker had it: nothing can cancel it any more.
    Ended,
    /// It was cancelled before a worker had it.
    Cancelled,
    /// It was cancelled after a worker had it: the worker may have done a part of it.
    Stopped,
}

impl Progress {
    /// How far a job in this state has come. `started`: a worker has had it, by its count of attempts or by its `started_at`, which not
    /// every server keeps for a job that was cancelled. Spec: ojs-protocol 3.
    #[must_use]
    pub fn of(state: &str, started: bool) -> Self {
        match state {
            "completed" | "discarded" => Self::Ended,
            "cancelled" if started => Self::Stopped,
            "cancelled" => Self::Cancelled,
            "scheduled" | "pending" | "available" if !started => Self::Waiting,
            _ => Self::Started,
        }
    }
}

/// A region's word about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// It has this very job.
    Has(Progress),
    /// It has another job under this id.
    Other,
    /// It has our tombstone under this id; whether that is cancelled.
    Tombstone(bool),
    /// The region refuses this id as taken, and has not shown by which job.
    Taken,
    /// It has no job of this id.
    No,
    /// Nothing, or nothing that is about the job.
    Silent,
}
