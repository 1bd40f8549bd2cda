//! The steps of a job in the words of an orchestrator. Spec: source-job-orchestrator §2.

use serde::{Deserialize, Serialize};

use crate::base::words;
use crate::replica::{Change, ChangeKind, OwnedDetails};

words! {
    /// A step of a job.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Step {
        /// A region has stored it.
        Enqueued = "enqueued",
        /// A region has stored it for a later time.
        Scheduled = "scheduled",
        /// A region other than the one that was meant for it has stored it.
        Rerouted = "rerouted",
        /// A region has stored it as the repetition of another job.
        Replayed = "replayed",
        /// A worker has got it.
        Leased = "leased",
        /// Its lease goes on.
        Extended = "extended",
        /// Its worker has completed it.
        Succeeded = "succeeded",
        /// Its worker has failed.
        Failed = "failed",
        /// Its worker has failed, and its region gives it to a worker again.
        Retried = "retried",
        /// Its worker has failed, and no worker gets it again.
        DeadLettered = "dead_lettered",
        /// It was cancelled.
        Canceled = "canceled",
    }
}

impl Step {
    /// The step of a fact.
    pub(super) fn of(change: &Change, details: &OwnedDetails) -> Self {
        let state = change.state.as_deref();
        match change.kind {
            ChangeKind::Created if details.replay_of.is_some() => Self::Replayed,
            ChangeKind::Created if details.is_rerouted => Self::Rerouted,
            ChangeKind::Created if state == Some("scheduled") => Self::Scheduled,
            ChangeKind::Created => Self::Enqueued,
            ChangeKind::Leased => Self::Leased,
            ChangeKind::Extended => Self::Extended,
            ChangeKind::Completed => Self::Succeeded,
            ChangeKind::Cancelled => Self::Canceled,
            ChangeKind::Failed => match state {
                Some("retryable" | "available" | "scheduled" | "pending") => Self::Retried,
                Some("discarded") => Self::DeadLettered,
                _ => Self::Failed,
            },
        }
    }
}
