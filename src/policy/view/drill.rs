//! A failover drill, as a view shows it.

use std::sync::Arc;
use std::time::Instant;

use crate::base::Share;
use crate::policy::index::RegionIndex;

/// A drill in force: a share of the flexible jobs of a region is decided as if the region had fallen out. `V`: the view, which shows the drill.
#[derive(Debug, Clone)]
pub struct Drill<V> {
    /// Distinguishes it from an earlier one at this sidecar.
    pub number: u16,
    /// The region.
    pub region: RegionIndex,
    /// The share of its flexible jobs.
    pub share: Share,
    /// When it ends by itself.
    pub until: Instant,
    /// The same view without the region; none before the view is settled.
    pub(in crate::policy) without: Option<Arc<V>>,
}

impl<V> Drill<V> {
    /// A drill that a view is to show.
    #[must_use]
    pub const fn new(number: u16, region: RegionIndex, share: Share, until: Instant) -> Self {
        Self { number, region, share, until, without: None }
    }

    /// The same in a view that is complete. `without`: the view without the region.
    pub(in crate::policy) fn by(&self, without: V) -> Self {
        let Self { number, region, share, until, .. } = *self;
        Self { number, region, share, until, without: Some(Arc::new(without)) }
    }
}

/// Gives the number by which a drill draws a job; asked for jobs only that could go elsewhere.
pub trait DrillNumbers {
    /// The number of this job: the same each time for one job, and one more for the next one.
    fn number(&self) -> u64;

    /// Whether the call names the job by an `Idempotency-Key`, or can be sent again otherwise.
    fn is_named(&self) -> bool {
        false
    }
}

/// For a decision that moves no counter.
impl DrillNumbers for u64 {
    fn number(&self) -> u64 {
        *self
    }
}
