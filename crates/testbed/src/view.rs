//! The stored jobs as one request sees them.

use std::time::Duration;

/// The jobs that the scripted faults let a request see.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct View {
    /// How far its replica is behind.
    pub(super) lag: Duration,
    /// Whether other callers' jobs are hidden.
    pub(super) own_only: bool,
}
