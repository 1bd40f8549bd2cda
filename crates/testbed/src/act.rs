//! What operators do to jobs.

use super::state::JobState;

/// What is done to many jobs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Retry,
    Cancel,
    Delete,
}

impl Act {
    /// Its name in a path.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
        }
    }

    /// What is said of a job to which it was done.
    pub(crate) const fn done(self) -> &'static str {
        match self {
            Self::Retry => "retried",
            Self::Cancel => "cancelled",
            Self::Delete => "deleted",
        }
    }

    /// The states that a filter means which names none.
    pub(crate) const fn usual_states(self) -> &'static [JobState] {
        match self {
            Self::Retry => &[JobState::Discarded, JobState::Retryable],
            Self::Cancel => &[JobState::Available, JobState::Scheduled],
            Self::Delete => &[JobState::Completed, JobState::Discarded, JobState::Cancelled],
        }
    }
}
