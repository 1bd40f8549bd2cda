//! The orders of regions that are the same for every job, as long as a view does not change.

use std::time::Instant;

use super::lots::Lots;
use crate::policy::index::{Candidates, RegionIndex};
use crate::policy::refusal::Refusal;

/// The candidates of jobs that may go anywhere, by strategy. [`crate::policy::settle`] finds them.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Orders {
    pub(in crate::policy) affinity: Candidates,
    pub(in crate::policy) active_passive: Candidates,
    /// None where regions are equally near, which are drawn.
    pub(in crate::policy) latency_based: Option<Candidates>,
    /// Of `round-robin` and `weighted`; none where something goes before the turn and the draw.
    pub(in crate::policy) lots: Option<Lots>,
    /// Who is no candidate, whatever the job.
    pub(in crate::policy) unusable: Box<[(RegionIndex, Refusal)]>,
    /// From when on: the ramps of regions that came back are over by then.
    pub(in crate::policy) from: Option<Instant>,
}

impl Orders {
    pub(in crate::policy) fn unusable(&self) -> &[(RegionIndex, Refusal)] {
        &self.unusable
    }

    /// The first candidate of a job without wishes, but for this one.
    pub(in crate::policy) fn first_but(&self, region: RegionIndex) -> Option<RegionIndex> {
        self.affinity.iter().copied().find(|index| *index != region)
    }
}
