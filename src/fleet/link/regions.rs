//! The regions that operators have put at the hub, for the discovery.

use super::Link;
use crate::region::discovery::FeedRegions;

impl Link {
    /// Takes an event. One that cannot be read is no look at the hub, and the switches of the feed go on.
    pub(super) fn take_regions(&self, data: &str) {
        let Some(discovered) = &self.discovered else { return };
        match FeedRegions::read(data) {
            Ok(Some(look)) => drop(self.named.replace(Some(look))),
            Ok(None) => {}
            Err(error) => {
                self.named.replace(None);
                tracing::debug!(target: "ojs_federation", %error, "an event `regions` of the hub cannot be read");
            }
        }
        if let Some(look) = self.named.borrow().clone() {
            discovered.say(look);
        }
    }
}
