//! Moving the steered clock until something is true.

use std::time::Duration;

use super::{Federation, eventually};

impl Federation {
    /// Moves the steered clock, second by second, until something is true: probes and polls come due on the way.
    pub async fn advance_until(&self, what: &str, mut is_true: impl FnMut() -> bool) {
        eventually(what, async || {
            let holds = is_true();
            if !holds {
                self.advance(Duration::from_secs(1));
            }
            holds
        })
        .await;
    }

    /// Moves the steered clock until the probes of a region say so.
    pub async fn advance_until_health(&self, place: usize, health: &str) {
        self.advance_until(health, || self.health(place) == health).await;
    }
}
