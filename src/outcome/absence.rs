//! When "no such job" says that none is there and none will come.

use std::time::Duration;

use super::copy::{Copy, Fate, Lost};
use crate::base::Moment;

/// Answers "no such job" that make an absence.
pub(super) const NO_MIN: u32 = 2;
/// A job that went on, or was refused, after it had been sent is looked for this long in the region that had it first: beyond the longest
/// time for which servers and balancers are known to hold a request.
pub(super) const WATCH: Duration = Duration::from_secs(15 * 60);
/// The longest time for which regions are asked about a copy; also the time for which clients may expect an
/// `Idempotency-Key` to be remembered.
pub(super) const GIVE_UP: Duration = Duration::from_secs(24 * 60 * 60);

/// How long regions may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// A write may come so long after its connection has ended: `failover.late_write_grace`.
    pub grace: Duration,
    /// A read may be so long behind a write: `failover.read_lag`.
    pub lag: Duration,
}

/// Whether a "no such job" is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The region would show the job to this caller: it is the job's own caller, or the region does not distinguish
    /// callers.
    Believed,
    /// The region may hide the job from this caller.
    Doubted,
}

impl Rules {
    /// The moment from which on a "no such job" about this copy counts; none where none does yet.
    ///
    /// A region that has not ended the connection may have stood still: its time begins when it is first heard again.
    pub(super) fn counts_from(self, copy: &Copy) -> Option<Moment> {
        let Fate::Unknown { lost, since } = copy.fate else { return None };
        let quiet = match lost {
            Lost::Ended => Some(since),
            Lost::TimedOut => copy.asked.first_no.map(|at| at.max(since)),
        };
        quiet.map(|at| at.after(self.grace + self.lag))
    }
}

/// Until when a copy that was sent then is looked for, where its absence was judged by time.
pub(super) fn watch_until(since: Moment) -> Moment {
    since.after(WATCH)
}
