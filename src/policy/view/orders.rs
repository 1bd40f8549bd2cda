//! The orders of regions that are the same for every job, as long as a view does not change.

use std::time::Instant;

use super::weight_table::WeightTable;
use crate::base::Strategy;
use crate::policy::index::{Candidates, RegionIndex};
use crate::policy::refusal::Refusal;

/// The candidates of jobs that may go anywhere, by strategy. [`crate::policy::settle`] finds them.
#[derive(Debug, Clone)]
pub(in crate::policy) struct Orders {
    /// By the number of the strategy; `None` where the order is not the same for all jobs.
    pub(in crate::policy) same: [Option<Candidates>; Strategy::ALL.len()],
    /// For strategies by turn and by draw; none where something goes before the turn and the draw.
    pub(in crate::policy) lots: Option<WeightTable>,
    /// Regions that are no candidates for any job.
    pub(in crate::policy) unusable: Box<[(RegionIndex, Refusal)]>,
    /// From when on: the ramps of regions that came back are over by then.
    pub(in crate::policy) from: Option<Instant>,
}

impl Orders {
    /// The candidates of every job of this strategy, where all have the same.
    pub(in crate::policy) fn of(&self, strategy: Strategy) -> Option<&Candidates> {
        self.same.get(strategy.index())?.as_ref()
    }

    pub(in crate::policy) fn unusable(&self) -> &[(RegionIndex, Refusal)] {
        &self.unusable
    }

    /// The first candidate of a job without wishes, but for this one.
    pub(in crate::policy) fn first_but(&self, region: RegionIndex) -> Option<RegionIndex> {
        self.of(Strategy::DEFAULT)?.iter().copied().find(|index| *index != region)
    }
}
