//! Tasks of UWER on their way to the hub, which is their central store. Spec: UWER §3.

use serde::{Deserialize, Serialize};

use crate::base::RegionId;

/// The path of claims at a hub.
pub const CLAIM_TASK: &str = "/v1/hub/uwer/claim";
/// The path of ends of claims.
pub const SETTLE_TASK: &str = "/v1/hub/uwer/settle";
/// The path of the tasks that a hub has.
pub const TASKS: &str = "/v1/hub/uwer/tasks";
/// The path of documents that were refused.
pub const LETTERS: &str = "/v1/hub/uwer/letters";
/// The longest request about a task, as JSON: two digests, two ids and two names. Units: bytes.
pub const TASK_BYTES_MAX: usize = 4 * 1024;
/// The longest request with a refused document, in base64. Units: bytes.
pub const LETTER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The longest document that a hub keeps with its bytes. Units: bytes.
pub const LETTER_CONTENT_MAX: usize = 1024 * 1024;
/// The longest time of a claim. Units: milliseconds.
const HOLD_MS_MAX: u64 = 60 * 60 * 1_000;
/// The longest id, name or word of a request. Units: bytes.
const TEXT_BYTES_MAX: usize = 256;

/// A claim of a task, or its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    /// The idempotency key: 64 hexadecimal digits in small letters.
    pub key: String,
    /// SHA-256 over all values of the task, in hex.
    pub digest: String,
    /// The id of its workflow, in small letters.
    pub workflow_id: String,
    /// The service that sent it.
    pub origin: String,
    /// The id for its job. The store keeps this, the type and the queue of the first claim.
    pub job_id: String,
    /// The type of its job.
    pub job_type: String,
    /// The queue of its job.
    pub queue: String,
    /// The random name of the call: 64 hexadecimal digits.
    pub token: String,
    /// For how long no other call gets the claim. Units: milliseconds.
    pub hold_ms: u64,
    /// The end of the claim; none in a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<TaskEnd>,
}

/// How the claim of a task ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    /// Its job is in this region.
    Stored(RegionId),
    /// Nothing was sent, or no region has taken it: the next call gets the claim.
    Released,
    /// No region takes its job: the key is free for another task.
    Withdrawn,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "claim")]
pub enum TaskClaimed {
    /// It is this call's. Another id for its job than that of the claim says that an earlier call may have sent the job.
    Taken {
        /// The id for its job.
        job_id: String,
        /// The type for its job.
        job_type: String,
        /// The queue for its job.
        queue: String,
    },
    /// Its job is there.
    Stored {
        /// The id of the job.
        job_id: String,
        /// The region of the job.
        region: RegionId,
    },
    /// Another call has it.
    Held {
        /// For so long at most. Units: milliseconds.
        left_ms: u64,
    },
    /// The key came before with another task.
    OtherTask,
}

/// A document that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LetterRequest {
    /// Why it was refused: a closed word.
    pub why: String,
    /// The element or member.
    pub field: String,
    /// From 1; 0 where the place is unknown.
    pub line: u32,
    /// The expected form: a sentence.
    pub expected: String,
    /// `xml` or `json`.
    pub form: String,
    /// SHA-256 over its bytes, in hex.
    pub digest: String,
    /// Its length. Units: bytes.
    pub length: u64,
    /// The idempotency key, where it can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The id of its workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// The service that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Its bytes in base64; none where they may not leave the sidecar, or are too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// The answer to a refused document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterKept {
    /// Its name at the hub.
    pub id: String,
}

impl TaskRequest {
    /// The first member that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        if ![&self.key, &self.digest, &self.token].into_iter().all(|it| is_digest(it)) {
            return Some("`key`, `digest` and `token`: expected 64 hexadecimal digits in small letters");
        }
        if ![&self.workflow_id, &self.origin, &self.job_id, &self.job_type, &self.queue]
            .into_iter()
            .all(|it| is_text(it))
        {
            return Some(
                "`workflow_id`, `origin`, `job_id`, `job_type` and `queue`: expected 1 to 256 bytes of visible ASCII",
            );
        }
        if !(1..=HOLD_MS_MAX).contains(&self.hold_ms) {
            return Some("`hold_ms`: expected 1 to 3600000");
        }
        None
    }
}

impl LetterRequest {
    /// The first member that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        if !is_digest(&self.digest) {
            return Some("`digest`: expected 64 hexadecimal digits in small letters");
        }
        if ![&self.why, &self.field, &self.form].into_iter().all(|it| it.len() <= TEXT_BYTES_MAX) {
            return Some("`why`, `field` and `form`: expected at most 256 bytes");
        }
        if self.expected.len() > 4 * TEXT_BYTES_MAX {
            return Some("`expected`: expected at most 1024 bytes");
        }
        let known = [&self.key, &self.workflow_id, &self.origin];
        if !known.into_iter().flatten().all(|it| is_text(it)) {
            return Some("`key`, `workflow_id` and `origin`: expected 1 to 256 bytes of visible ASCII");
        }
        None
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_text(text: &str) -> bool {
    (1..=TEXT_BYTES_MAX).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic())
}
