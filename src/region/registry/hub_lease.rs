//! A spoke sends to other regions only while it hears its hub, and by `hub.fetch` workers get jobs only then: the last sign of life, and its
//! effects on the view.

use std::time::Instant;

use super::Registry;
use super::switching::put_in_force;
use crate::config::Config;
use crate::policy::View;
use crate::switch::Switches;

impl Registry {
    /// The last sign of life of the hub; none before the first one.
    #[must_use]
    pub fn hub_heard(&self) -> Option<Instant> {
        *self.hub_heard.lock()
    }

    /// Takes a sign of life of the hub: its loss has no effect from now on. Returns whether it had one before; then `switches`, those in force
    /// by now, are in the same view, so that no worker gets a job of a region that the hub has isolated meanwhile.
    pub fn hear_hub(&self, switches: impl FnOnce() -> Switches) -> bool {
        *self.hub_heard.lock() = Some(self.clock.now());
        self.set_hub_lost(false, |view| put_in_force(view, &switches()))
    }

    /// Puts the effects of the loss of the hub in force until [`Registry::hear_hub`].
    pub fn lose_hub(&self) {
        self.set_hub_lost(true, |_| ());
    }

    fn set_hub_lost(&self, is_lost: bool, change: impl FnOnce(&mut View)) -> bool {
        // Under the lock, so that no other change of the view is lost.
        let _keeper = self.keeper.lock();
        let current = self.view.load();
        if current.is_hub_lost() == is_lost {
            return false;
        }
        let mut next = View::clone(&current);
        next.set_hub_lost(is_lost);
        change(&mut next);
        self.publish(next);
        true
    }

    /// Takes over the last sign of life that the registry of the configuration before has heard.
    pub(super) fn inherit_hub(&mut self, from: &Self, config: &Config, view: &mut View) {
        let heard = from.hub_heard();
        let lasts = config.hub.as_ref().map(|hub| hub.lease);
        let is_live = heard.zip(lasts).is_some_and(|(heard, lasts)| self.clock.now() < heard + lasts);
        view.set_hub_lost(!is_live);
        *self.hub_heard.get_mut() = heard;
    }
}
