//! The registry takes views of a hub as if they were probes of its own.

use super::Registry;
use crate::policy::RegionIndex;
use crate::region::{ProbeReport, Trouble};

impl Registry {
    /// Takes the finding of a hub's probe; `trouble` is the reason of a failed one. It changes nothing while the breaker is open, or where our
    /// own requests opened the breaker, unless the hub `decides_alone`: a probe of our own decides then.
    pub fn on_view(&self, index: RegionIndex, report: ProbeReport, trouble: Option<Trouble>, decides_alone: bool) {
        let permit = {
            let mut keeper = self.keeper.lock();
            if decides_alone { keeper.probe_permitted(index) } else { keeper.view_permitted(index) }
        };
        let Some(permit) = permit else { return };
        self.region(index).set_trouble(trouble);
        self.on_probe(index, permit, report);
    }

    /// Whether our own requests opened the breaker of a region.
    #[must_use]
    pub fn is_by_requests(&self, index: RegionIndex) -> bool {
        self.keeper.lock().is_by_requests(index)
    }
}
