//! Whether the pod may get traffic, and the items that it still waits for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::telemetry::event;

/// The open items of starting up; ready when there are none and no drain has begun.
///
/// Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Readiness(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting_for: Mutex<Vec<&'static str>>,
    draining: AtomicBool,
    /// Notified when the last open item is closed.
    closed_last: Notify,
}

/// One open item; dropping it closes the item.
#[derive(Debug)]
pub struct ReadinessGuard {
    shared: Arc<Shared>,
    item: &'static str,
}

impl Readiness {
    /// Without items yet: take the first guard before the first probe.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds readiness back until the guard is dropped; `/readyz` shows `item`, such as `first round of probes`.
    #[must_use]
    pub fn block(&self, item: &'static str) -> ReadinessGuard {
        self.0.waiting_for.lock().push(item);
        ReadinessGuard { shared: Arc::clone(&self.0), item }
    }

    /// Turns readiness off for good.
    pub fn set_draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the process was ordered to end.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Resolves when nothing is waited for.
    ///
    /// Cancel: nothing is left behind.
    pub async fn opened(&self) {
        loop {
            // Made before the look, so that an item that is closed in between is not missed.
            let closed_last = self.0.closed_last.notified();
            if self.0.waiting_for.lock().is_empty() {
                return;
            }
            closed_last.await;
        }
    }

    /// The open items, in the order in which they were taken.
    #[must_use]
    pub fn waiting_for(&self) -> Vec<&'static str> {
        self.0.waiting_for.lock().clone()
    }
}

impl Drop for ReadinessGuard {
    fn drop(&mut self) {
        let mut open = self.shared.waiting_for.lock();
        // Two guards may carry the same words: each closes one.
        if let Some(place) = open.iter().position(|item| *item == self.item) {
            open.remove(place);
        }
        let last = open.is_empty();
        drop(open);
        if last {
            self.shared.closed_last.notify_waiters();
        }
        if last && !self.shared.draining.load(Ordering::Relaxed) {
            event::ready();
        }
    }
}
