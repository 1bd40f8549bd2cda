//! Tracking ids that several regions have, and the copies of this hub's region among them, as a record keeps them.

#![expect(unreachable_pub, reason = "the macro of closed words makes public types")]

use crate::base::words;

/// Facts about one tracking id that a decision reads at most: beyond, a client uses it for a group of jobs.
pub(in crate::hub) const CONFLICT_FACTS_MAX: usize = 1_000;

/// How long a hub of several has the conflicts before it must say so again. Longer than a round and one copy behind it take. Units:
/// milliseconds.
pub(in crate::hub) const CONFLICT_TURN_MS: u64 = 60_000;

words! {
    /// The step of a copy; all but the first are results.
    #[derive(PartialOrd, Ord)]
    ConflictStep {
        /// The order to cancel it may be on its way.
        Cancelling = "cancelling",
        /// This hub has cancelled it in its region.
        Cancelled = "cancelled",
        /// A worker has it or has had it, beside the copy that counts.
        Doubled = "doubled",
        /// It counts less than another copy, and was left alone.
        Reported = "reported",
        /// Its region has it no longer, or others have ended it.
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

/// A copy in this hub's region that counts less than one elsewhere, and about which something was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct Conflict {
    pub(in crate::hub) job_id: String,
    pub(in crate::hub) region: String,
    pub(in crate::hub) federation_id: String,
    pub(in crate::hub) step: ConflictStep,
    /// The word of the reason, where it was left alone.
    pub(in crate::hub) why: Option<String>,
    /// The region and the job of the copy that counts.
    pub(in crate::hub) winner: Option<(String, String)>,
    /// When it came to this step, by the clock of the record. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) changed_ms: u64,
}

impl Conflict {
    /// The word of the reason for a report about all copies with the tracking id: clients use it for a group of jobs.
    pub(in crate::hub) const GROUP: &str = "group";

    /// Whether it is the report about all copies with its tracking id.
    pub(in crate::hub) fn is_of_group(&self) -> bool {
        self.step == ConflictStep::Reported && self.why.as_deref() == Some(Self::GROUP)
    }
}

/// The knowledge of a record about one tracking id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct Conflicts {
    /// The copies about which something was done.
    pub(in crate::hub) copies: Vec<Conflict>,
    /// Whether it is to be looked at.
    pub(in crate::hub) is_queued: bool,
    /// Whether it has so many facts that it is looked at no longer.
    pub(in crate::hub) is_crowd: bool,
}

/// A tracking id whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct DueId {
    pub(in crate::hub) federation_id: String,
    /// When that was, by which a later word about it is known. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) due_ms: u64,
    /// For how long it has waited. Units: milliseconds.
    pub(in crate::hub) waited_ms: u64,
}

/// When a tracking id is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::hub) enum Next {
    /// After so long. Units: milliseconds.
    After(u64),
    /// When a further fact names it.
    OnFact,
    /// Never: it has too many facts.
    Never,
}

/// One part of the facts of an origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct RepeatedIds {
    /// Whether there are more facts behind it.
    pub(in crate::hub) has_more: bool,
    /// For each tracking id that was not known to be in several regions, a job that has it, and the region of that job.
    pub(in crate::hub) new: Vec<(String, String)>,
}
