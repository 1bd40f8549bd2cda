//! The registry shows the switches in force in its view.

use std::sync::Arc;

use super::Registry;
use crate::policy::{Pauses, View};
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
}

/// Puts switches in the place of those that a view shows.
pub(super) fn put_in_force(view: &mut View, switches: &Switches) {
    view.maintenance = switches.is_maintenance();
    view.pauses = Pauses::of(switches.iter().map(|it| &it.subject)).map(Arc::new);
    for region in &mut view.regions {
        region.switch = switches.of_region(&region.id);
    }
}
