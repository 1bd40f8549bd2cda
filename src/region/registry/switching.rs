//! The registry shows the switches in force in its view.

use std::sync::Arc;
use std::time::Instant;

use super::Registry;
use crate::base::{RegionId, Share};
use crate::policy::{Drill, Pauses, View};
use crate::switch::Switches;

impl Registry {
    /// Puts switches in force; all those of before are over. `switches` is called under the lock of all changes of the view, so that of two threads
    /// the later one has the later switches.
    pub fn set_switches(&self, switches: impl FnOnce() -> Switches) {
        // Under the lock, so that no other change of the view is lost.
        let _keeper = self.keeper.lock();
        let mut next = View::clone(&self.view.load());
        put_in_force(&mut next, &switches());
        self.publish(next);
    }

    /// Puts a drill in force in place of the one before, or none. One of a region that this sidecar does not know has no effect.
    ///
    /// `drill`: its number at this sidecar, its region, its share and its end.
    pub(crate) fn set_drill(&self, drill: Option<(u16, &RegionId, Share, Instant)>) {
        // Under the lock, so that no other change of the view is lost.
        let _keeper = self.keeper.lock();
        let mut next = View::clone(&self.view.load());
        next.drill = drill.and_then(|(number, region, share, until)| {
            let index = next.index_of(region.as_str())?;
            Some(Arc::new(Drill::new(number, index, share, until)))
        });
        self.publish(next);
    }
}

/// Puts switches in the place of those that a view shows.
pub(super) fn put_in_force(view: &mut View, switches: &Switches) {
    view.maintenance = switches.is_maintenance();
    view.pauses = Pauses::of(switches.iter().map(|it| &it.subject)).map(Arc::new);
    for region in &mut view.regions {
        region.switch = switches.of_region(&region.id);
    }
}
