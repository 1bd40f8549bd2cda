//! Where jobs and workflows stand.

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Waits until a client activates it.
    Pending,
    /// Waits for its time.
    Scheduled,
    /// Waits for a worker.
    Available,
    /// A worker has it.
    Active,
    /// Failed, and waits for its next attempt.
    Retryable,
    /// Done.
    Completed,
    /// Failed for good.
    Discarded,
    /// Called off.
    Cancelled,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Scheduled,
        Self::Available,
        Self::Active,
        Self::Retryable,
        Self::Completed,
        Self::Discarded,
        Self::Cancelled,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Scheduled => "scheduled",
            Self::Available => "available",
            Self::Active => "active",
            Self::Retryable => "retryable",
            Self::Completed => "completed",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing can happen to the job any more.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Discarded | Self::Cancelled)
    }
}

/// Where a workflow stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkflowState {
    Running,
    Completed,
    Failed,
    Cancelled,
}

impl WorkflowState {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}
