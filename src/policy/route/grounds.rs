//! Why a decision came about, small enough to be kept of every job.

use crate::base::words;
use crate::policy::index::RegionIndex;
use crate::policy::refusal::Refusal;

/// Regions that are listed; a federation with more that fail at once shows the first and how many there were.
const LISTED_MAX: usize = 8;

words! {
    /// Where the strategy of a job came from.
    #[derive(Default)]
    Origin {
        /// The job names a region.
        Pin = "pin",
        /// The job names a strategy.
        Job = "job",
        /// A routing rule names it.
        Rule = "rule",
        /// The configured default.
        #[default]
        Default = "default",
        /// The job goes where other jobs of its call go.
        Together = "together",
    }
}

words! {
    /// The picture of the regions that decided.
    #[derive(Default)]
    DecidedBy {
        /// The sidecar's view.
        #[default]
        View = "view",
        /// The answer of the hub to a question about such a job.
        Hub = "hub",
        /// The sidecar's view, as far as its own region: the hub was asked and gave no answer.
        NoAnswer = "no_answer",
    }
}

/// The grounds of a decision, besides the job's own attributes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Grounds {
    /// Where the strategy came from.
    pub origin: Origin,
    /// The place of the routing rule that matched, counted from 0; it may have narrowed the regions without naming a strategy.
    pub rule: Option<u16>,
    /// The picture of the regions that decided.
    pub decided_by: DecidedBy,
    /// The regions that fell out.
    pub fallen: Fallen,
}

/// Regions that fell out, with the reason.
///
/// Shape: a pinned job's other regions are left out, because its pin says as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallen {
    listed: [(u16, Refusal); LISTED_MAX],
    /// All of them, the listed ones included.
    count: u16,
}

impl Default for Fallen {
    fn default() -> Self {
        Self { listed: [(0, Refusal::NotCompared); LISTED_MAX], count: 0 }
    }
}

impl Fallen {
    pub(super) const fn clear(&mut self) {
        self.count = 0;
    }

    pub(super) fn extend(&mut self, refused: &[(RegionIndex, Refusal)]) {
        for &(region, refusal) in refused {
            if refusal == Refusal::PinnedElsewhere {
                continue;
            }
            if let Some(slot) = self.listed.get_mut(usize::from(self.count)) {
                *slot = (region.number(), refusal);
            }
            self.count = self.count.saturating_add(1);
        }
    }

    /// The listed regions by their place in the registry, in registry order.
    #[must_use]
    pub fn listed(&self) -> &[(u16, Refusal)] {
        self.listed.get(..usize::from(self.count)).unwrap_or(&self.listed)
    }

    /// The same, to number the regions otherwise.
    pub fn listed_mut(&mut self) -> &mut [(u16, Refusal)] {
        let count = usize::from(self.count).min(LISTED_MAX);
        self.listed.split_at_mut(count).0
    }

    /// How many fell out beside the listed ones.
    #[must_use]
    pub fn unlisted(&self) -> usize {
        usize::from(self.count).saturating_sub(LISTED_MAX)
    }
}
