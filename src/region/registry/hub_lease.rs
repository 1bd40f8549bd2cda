//! A spoke sends to other regions only while it hears its hub: the last sign of life, and its effect on the view.

use std::time::Instant;

use super::Registry;
use crate::config::Config;
use crate::policy::View;

impl Registry {
    /// The last sign of life of the hub; none before the first one.
    #[must_use]
    pub fn hub_heard(&self) -> Option<Instant> {
        *self.hub_heard.lock()
    }

    /// Takes a sign of life of the hub: other regions get jobs from now on. Returns whether they did not before.
    pub fn hear_hub(&self) -> bool {
        *self.hub_heard.lock() = Some(self.clock.now());
        self.set_cut_off(false)
    }

    /// Sends nothing that is routed to another region until [`Registry::hear_hub`].
    pub fn cut_off(&self) {
        self.set_cut_off(true);
    }

    fn set_cut_off(&self, is_cut_off: bool) -> bool {
        // Under the lock, so that no other change of the view is lost.
        let _keeper = self.keeper.lock();
        let current = self.view.load();
        if current.is_cut_off() == is_cut_off {
            return false;
        }
        let mut next = View::clone(&current);
        next.set_cut_off(is_cut_off);
        self.publish(next);
        true
    }

    /// Takes over the last sign of life that the registry of the configuration before has heard.
    pub(super) fn inherit_hub(&mut self, from: &Self, config: &Config, view: &mut View) {
        let heard = from.hub_heard();
        let lasts = config.hub.as_ref().map(|hub| hub.lease);
        let is_live = heard.zip(lasts).is_some_and(|(heard, lasts)| self.clock.now() < heard + lasts);
        view.set_cut_off(config.is_spoke() && !is_live);
        *self.hub_heard.get_mut() = heard;
    }
}
