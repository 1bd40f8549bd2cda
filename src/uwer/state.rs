//! The codes of the states of a task. Spec: UWER §4.

/// A state of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Queued; no worker holds a lease.
    PendingDispatch,
    /// A worker holds a lease.
    LeaseAcquired,
    /// Failed; waits for its next attempt.
    RetryBackoff,
    /// Its worker has missed three heartbeats.
    OrphanedLease,
    /// Ended without success, or never accepted.
    DeadLetter,
}

impl Code {
    /// The name in the matrix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PendingDispatch => "PENDING_DISPATCH",
            Self::LeaseAcquired => "LEASE_ACQUIRED",
            Self::RetryBackoff => "RETRY_BACKOFF",
            Self::OrphanedLease => "ORPHANED_LEASE",
            Self::DeadLetter => "DEAD_LETTER",
        }
    }

    /// The hexadecimal id in the matrix.
    #[must_use]
    pub const fn hex(self) -> &'static str {
        match self {
            Self::PendingDispatch => "0x10",
            Self::LeaseAcquired => "0x20",
            Self::RetryBackoff => "0x30",
            Self::OrphanedLease => "0x40",
            Self::DeadLetter => "0xFF",
        }
    }
}

/// The code of an OJS state; none of a job that has ended with success or was cancelled, for which the matrix has no row, and of a
/// state that is unknown. A lease that was revoked while the region still shows the job as active is [`Code::OrphanedLease`].
#[must_use]
pub fn code_of(ojs_state: &str, is_lease_revoked: bool) -> Option<Code> {
    match ojs_state {
        "scheduled" | "available" | "pending" => Some(Code::PendingDispatch),
        "active" if is_lease_revoked => Some(Code::OrphanedLease),
        "active" => Some(Code::LeaseAcquired),
        "retryable" => Some(Code::RetryBackoff),
        "discarded" => Some(Code::DeadLetter),
        _ => None,
    }
}
