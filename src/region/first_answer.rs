//! The first answer of the resolver for a region's name.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Whether the resolver has said something of a region's name, good or bad.
#[derive(Debug)]
pub(super) struct FirstAnswer {
    since: Instant,
    told: watch::Sender<bool>,
}

impl Default for FirstAnswer {
    fn default() -> Self {
        Self { since: Instant::now(), told: watch::Sender::new(false) }
    }
}

impl FirstAnswer {
    pub(super) fn notify(&self) {
        self.told.send_replace(true);
    }

    /// Waits for it, at most until so long after the region came to be known.
    ///
    /// Cancel: nothing is lost.
    pub(super) async fn wait(&self, at_most: Duration) {
        let until = tokio::time::Instant::from_std(self.since + at_most);
        // Its sender is here.
        let _ = tokio::time::timeout_at(until, self.told.subscribe().wait_for(|told| *told)).await;
    }
}
