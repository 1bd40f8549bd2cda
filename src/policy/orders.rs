//! The orders of regions that are the same for every job, as long as a view does not change.

use std::time::Instant;

use super::index::{Candidates, RegionIndex};
use super::lots::Lots;
use super::refusal::Refusal;

/// The candidates of jobs that may go anywhere, by strategy. [`super::settle`] finds them.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    pub(super) affinity: Candidates,
    pub(super) active_passive: Candidates,
    /// None where regions are equally near, which are drawn.
    pub(super) latency_based: Option<Candidates>,
    /// Of `round-robin` and `weighted`; none where something goes before the turn and the draw.
    pub(super) lots: Option<Lots>,
    /// Who is no candidate, whatever the job.
    pub(super) unusable: Box<[(RegionIndex, Refusal)]>,
    /// From when on: the ramps of regions that came back are over by then.
    pub(super) from: Option<Instant>,
}

impl Orders {
    pub(super) fn unusable(&self) -> &[(RegionIndex, Refusal)] {
        &self.unusable
    }

    /// The first candidate of a job without wishes, but for this one.
    pub(super) fn first_but(&self, region: RegionIndex) -> Option<RegionIndex> {
        self.affinity.iter().copied().find(|index| *index != region)
    }
}
