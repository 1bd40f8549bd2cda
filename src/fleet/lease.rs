//! The lease of a hub's word: a spoke sends to other regions, and by `hub.fetch` workers get jobs, as long as the last sign of life of the
//! hub is not too old.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::region::Registry;
use crate::switch::Switches;

/// A receiver of each turn: whether the hub is lost now.
pub type OnTurn = Box<dyn Fn(bool)>;

/// The lease of one configuration. Lives on the control thread.
pub struct Lease {
    /// Where it shows.
    registry: Arc<Registry>,
    /// `hub.lease`.
    lasts: Duration,
    on_turn: OnTurn,
    /// Notified when the hub was heard again.
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

    /// Takes a sign of life of the hub. `switches`: those in force, also of this sign.
    pub(super) fn renew(&self, switches: impl FnOnce() -> Switches) {
        if self.registry.hear_hub(switches) {
            (self.on_turn)(false);
            self.ended.notify_one();
        }
    }

    /// Puts the effects of the loss in force whenever the lease is over, for ever. Of a sidecar that begins without its hub, this is reported
    /// after the time of one lease.
    pub async fn watch(&self) {
        let clock = self.registry.clock().clone();
        let begun = clock.now();
        loop {
            loop {
                let heard = self.registry.hub_heard().filter(|_| !self.is_lost());
                let until = heard.unwrap_or(begun) + self.lasts;
                if clock.now() >= until {
                    break;
                }
                clock.sleep_until(until).await;
            }
            self.registry.lose_hub();
            (self.on_turn)(true);
            while self.is_lost() {
                self.ended.notified().await;
            }
        }
    }

    fn is_lost(&self) -> bool {
        self.registry.view().is_hub_lost()
    }
}
