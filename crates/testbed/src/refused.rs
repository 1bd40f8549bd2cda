//! Why the store refuses an operation.

use super::state::{JobState, WorkflowState};

/// Why an operation on a job is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    NotFound,
    Conflict(JobState),
    Duplicate,
}

/// Why a workflow is not called off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotCancelled {
    NotFound,
    Over(WorkflowState),
}
