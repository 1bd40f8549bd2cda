//! How a call that creates jobs went.

use std::time::Duration;

use super::region_answer::RegionAnswer;
use crate::base::RegionId;
use crate::ojs::ErrorDocument;
use crate::policy::RegionIndex;
use crate::telemetry::AttemptOutcome;

/// The result of a call that creates jobs.
pub(crate) struct Ran {
    pub(crate) result: Result<RegionAnswer, ErrorDocument>,
    /// The region that has stored the job, by its answer.
    pub(crate) stored: Option<RegionIndex>,
    pub(crate) region: Option<RegionId>,
    /// The region that the job was meant for, where its state moved the job elsewhere before anything was tried.
    pub(crate) moved_from: Option<RegionId>,
    pub(crate) attempts: u32,
    pub(crate) outcome: Option<AttemptOutcome>,
    pub(crate) upstream: Duration,
}
