//! Actions of operators on jobs.

use super::state::JobState;

/// An action on many jobs at once.
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

    /// The answer about one job after the action.
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
