//! The result of a call that creates jobs, for its answer, its counters and its note.

use std::time::Duration;

use super::region_answer::RegionAnswer;
use crate::base::RegionId;
use crate::ojs::ErrorDocument;
use crate::policy::{Outcome, RegionIndex};
use crate::telemetry::AttemptOutcome;

/// The result of a call that creates jobs.
pub(crate) struct Ran {
    /// The answer of a region, or the error document for the client.
    pub(crate) result: Result<RegionAnswer, ErrorDocument>,
    /// The region whose answer shows that it has stored the job.
    pub(crate) stored: Option<RegionIndex>,
    /// The last region that was tried, or the one whose answer is missing; none where nothing was tried.
    pub(crate) region: Option<RegionId>,
    /// The region that the strategy had chosen, when the state of that region sent the job elsewhere before the first attempt.
    pub(crate) moved_from: Option<RegionId>,
    /// The number of attempts that were not shed by our own limits.
    pub(crate) attempts: u32,
    /// The outcome of the last attempt; none where nothing was tried.
    pub(crate) outcome: Option<AttemptOutcome>,
    /// The time spent waiting for regions.
    pub(crate) upstream: Duration,
}

impl From<Outcome> for AttemptOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::NotSent => Self::NotSent,
            Outcome::Answered => Self::Answered,
            Outcome::Unknown => Self::Unknown,
        }
    }
}
