//! The rows of tasks of UWER, each named by its idempotency key, and of dead letters. Spec: UWER §3 and §4.

/// Documents that were refused: a record with so many takes no further one until an operator drops some, or their time is over.
pub(in crate::hub) const LETTERS_MAX: u64 = 10_000;

/// The claim of a task by a call of a sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct TaskClaim {
    /// The idempotency key, in small letters.
    pub(in crate::hub) key: String,
    /// SHA-256 over all values of the task, in hex.
    pub(in crate::hub) digest: String,
    /// In small letters.
    pub(in crate::hub) workflow_id: String,
    pub(in crate::hub) origin: String,
    /// The id for its job; the record keeps that of the first claim, as its type and queue.
    pub(in crate::hub) job_id: String,
    pub(in crate::hub) job_type: String,
    pub(in crate::hub) queue: String,
    /// The random name of the call.
    pub(in crate::hub) token: String,
    /// For how long no other call gets the claim. Units: milliseconds.
    pub(in crate::hub) hold_ms: u64,
    /// By the clock of the hub, which a record of several hubs does not use. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) now_ms: u64,
}

/// The fate of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) enum ClaimedTask {
    /// It is this call's, with this id for its job: another one than its own where an earlier call may have sent the job.
    Taken { job_id: String, job_type: String, queue: String },
    /// The job is in this region.
    Stored { job_id: String, region: String },
    /// Another call has it, for so long at most. Units: milliseconds.
    Held { left_ms: u64 },
    /// The key came before with another task.
    OtherTask,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedTask {
    pub(in crate::hub) key: String,
    pub(in crate::hub) workflow_id: String,
    pub(in crate::hub) origin: String,
    pub(in crate::hub) job_id: String,
    /// The region of its job; none before the record has it.
    pub(in crate::hub) region: Option<String>,
    /// When it was claimed first. Units here and below: milliseconds since the Unix epoch.
    pub(in crate::hub) claimed_ms: u64,
    pub(in crate::hub) stored_ms: Option<u64>,
}

/// A document that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct SavedLetter {
    /// Its name: the first half of the SHA-256 over its bytes, in hex.
    pub(in crate::hub) id: String,
    /// Units here and below: milliseconds since the Unix epoch.
    pub(in crate::hub) first_ms: u64,
    pub(in crate::hub) last_ms: u64,
    /// How often it came.
    pub(in crate::hub) count: u64,
    /// Why it was refused, and the names that can be read in it, as JSON.
    pub(in crate::hub) document: String,
    /// Its bytes, sealed; none where they may not be kept.
    pub(in crate::hub) sealed: Option<Vec<u8>>,
}
