//! How a call that creates jobs went.

use std::time::Duration;

use super::region_answer::RegionAnswer;
use crate::base::RegionId;
use crate::ojs::ErrorDocument;
use crate::policy::RegionIndex;
use crate::telemetry::AttemptOutcome;

/// The result of a call that creates jobs.
pub(super) struct Ran {
    pub(super) result: Result<RegionAnswer, ErrorDocument>,
    /// The region that said so, where a region has stored what was sent.
    pub(super) stored: Option<RegionIndex>,
    pub(super) region: Option<RegionId>,
    /// The region that the job was meant for, where its state moved the job elsewhere before anything was tried.
    pub(super) moved_from: Option<RegionId>,
    pub(super) attempts: u32,
    pub(super) outcome: Option<AttemptOutcome>,
    pub(super) upstream: Duration,
}
