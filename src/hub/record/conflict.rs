//! A copy of a job whose tracking id several regions have, as a record keeps it.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use crate::base::words;

words! {
    /// The step of a copy; the last four are results.
    #[derive(PartialOrd, Ord)]
    ConflictStep {
        /// It is not decided yet.
        Open = "open",
        /// The order to cancel it may be on its way.
        Cancelling = "cancelling",
        /// This hub has cancelled it in its region.
        Cancelled = "cancelled",
        /// A worker has it or has had it, beside the copy that counts.
        Doubled = "doubled",
        /// It counts less than another copy, and was left alone.
        Reported = "reported",
        /// Its region has it no longer, or others have cancelled it.
        Gone = "gone",
    }
}

impl ConflictStep {
    /// The steps behind which nothing comes.
    pub(in crate::hub) const RESULTS: [Self; 4] = [Self::Cancelled, Self::Doubled, Self::Reported, Self::Gone];

    /// The step that a record names by this word.
    pub(in crate::hub) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == word)
    }
}

/// A copy in this hub's region whose tracking id another region has, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct Conflict {
    pub(in crate::hub) job_id: String,
    pub(in crate::hub) region: String,
    pub(in crate::hub) federation_id: String,
    pub(in crate::hub) step: ConflictStep,
    /// The word of the reason, where it was left alone.
    pub(in crate::hub) why: Option<String>,
    /// The region and the job of the copy that counts, once there is a result.
    pub(in crate::hub) winner: Option<(String, String)>,
    /// How often its region has refused to cancel it.
    pub(in crate::hub) refusals: u64,
    /// When it is looked at again, by the clock of the record. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) due_ms: u64,
    /// When it came to this step, by the clock of the record. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) changed_ms: u64,
}
