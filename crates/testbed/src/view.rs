//! What a request sees of the jobs that are there.

use std::time::Duration;

/// What the faults leave a request to see.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct View {
    /// How far its replica is behind.
    pub(super) lag: Duration,
    /// Whether other callers' jobs are hidden.
    pub(super) own_only: bool,
}
