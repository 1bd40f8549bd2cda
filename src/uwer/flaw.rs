//! Why a task is refused: the field, its place and the expected form.

use std::fmt;

/// The values of a task, in the order of the document. Spec: UWER §5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The id of the workflow, a UUID of version 4.
    WorkflowId,
    /// The SHA-256 by which the sender names the task.
    IdempotencyKey,
    /// The class of the task.
    Priority,
    /// The service that sent it.
    OriginService,
    /// The attempts after the first one.
    MaxRetries,
    /// The factor between two waits.
    BackoffMultiplier,
    /// The longest time of one attempt.
    TimeoutMs,
    /// The bytes for the worker.
    Payload,
}

impl Field {
    /// All, in the order of the document.
    pub const ALL: [Self; 8] = [
        Self::WorkflowId,
        Self::IdempotencyKey,
        Self::Priority,
        Self::OriginService,
        Self::MaxRetries,
        Self::BackoffMultiplier,
        Self::TimeoutMs,
        Self::Payload,
    ];

    /// The name of the XML element.
    #[must_use]
    pub const fn element(self) -> &'static str {
        match self {
            Self::WorkflowId => "WorkflowId",
            Self::IdempotencyKey => "IdempotencyKey",
            Self::Priority => "Priority",
            Self::OriginService => "OriginService",
            Self::MaxRetries => "MaxRetries",
            Self::BackoffMultiplier => "BackoffMultiplier",
            Self::TimeoutMs => "TimeoutMs",
            Self::Payload => "Payload",
        }
    }

    /// The place in the JSON form of a task.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::WorkflowId => "metadata.workflowId",
            Self::IdempotencyKey => "metadata.idempotencyKey",
            Self::Priority => "metadata.priority",
            Self::OriginService => "metadata.originService",
            Self::MaxRetries => "executionStrategy.maxRetries",
            Self::BackoffMultiplier => "executionStrategy.backoffMultiplier",
            Self::TimeoutMs => "executionStrategy.timeoutMs",
            Self::Payload => "payload.data",
        }
    }
}

/// The class of a flaw; the label of its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlawKind {
    /// Not UTF-8, or declared as another encoding.
    Encoding,
    /// Not well-formed XML or JSON, or with a part that no task has, such as a DTD.
    Syntax,
    /// An element or member that is unknown, missing, doubled or in another place.
    Structure,
    /// The idempotency key is missing.
    KeyMissing,
    /// The idempotency key is none.
    KeyMalformed,
    /// Another value that is none.
    Value,
    /// The idempotency key came before with another task.
    OtherTask,
    /// A region refuses the job of the task.
    Refused,
}

impl FlawKind {
    /// The word in answers and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Encoding => "encoding",
            Self::Syntax => "syntax",
            Self::Structure => "structure",
            Self::KeyMissing => "key_missing",
            Self::KeyMalformed => "key_malformed",
            Self::Value => "value",
            Self::OtherTask => "other_task",
            Self::Refused => "refused",
        }
    }
}

/// Why a text is no task. Has no value of the task in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The class.
    pub kind: FlawKind,
    /// The expected element or member, or the one around the flaw: never a name that the sender has made up.
    pub field: String,
    /// From 1; 0 where the place is unknown.
    pub line: u32,
    /// From 1, in characters; 0 where the place is unknown.
    pub column: u32,
    /// The expected form, and how to mend it: a sentence.
    pub expected: String,
}

impl Flaw {
    /// A flaw of a field as a whole.
    #[must_use]
    pub fn without_place(kind: FlawKind, field: &str, expected: String) -> Self {
        Self { kind, field: field.to_owned(), line: 0, column: 0, expected }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, column {}: ", self.line, self.column)?;
        }
        write!(f, "`{}`: {}", self.field, self.expected)
    }
}

impl std::error::Error for Flaw {}
