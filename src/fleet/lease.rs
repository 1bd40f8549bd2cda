//! The lease of a spoke: it sends to other regions as long as the last sign of life of its hub is not too old.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::region::Registry;

/// A receiver of each turn: whether this sidecar is cut off from its hub now.
pub type OnTurn = Box<dyn Fn(bool)>;

/// The lease of one configuration. Lives on the control thread.
pub struct Lease {
    /// Where it shows.
    registry: Arc<Registry>,
    /// `hub.lease`.
    lasts: Duration,
    on_turn: OnTurn,
    /// Notified when a cut has ended.
    ended: Notify,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("lasts", &self.lasts).finish_non_exhaustive()
    }
}

impl Lease {
    /// Goes on from the last sign of life in the registry.
    #[must_use]
    pub fn new(registry: Arc<Registry>, lasts: Duration, on_turn: OnTurn) -> Self {
        Self { registry, lasts, on_turn, ended: Notify::new() }
    }

    /// Takes a sign of life of the hub, once the events that it brought are in force.
    pub(super) fn renew(&self) {
        if self.registry.hear_hub() {
            (self.on_turn)(false);
            self.ended.notify_one();
        }
    }

    /// Cuts this sidecar off whenever the lease is over, for ever. Of a sidecar that begins without its hub, this is reported after the time of
    /// one lease.
    pub async fn watch(&self) {
        let clock = self.registry.clock().clone();
        let begun = clock.now();
        loop {
            loop {
                let heard = self.registry.hub_heard().filter(|_| !self.is_cut_off());
                let until = heard.unwrap_or(begun) + self.lasts;
                if clock.now() >= until {
                    break;
                }
                clock.sleep_until(until).await;
            }
            self.registry.cut_off();
            (self.on_turn)(true);
            while self.is_cut_off() {
                self.ended.notified().await;
            }
        }
    }

    fn is_cut_off(&self) -> bool {
        self.registry.view().is_cut_off()
    }
}
