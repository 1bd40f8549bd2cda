//! Which load figures a sidecar polls by itself although it follows a hub: those that the hub does not send.
//!
//! A hub leaves out a queue that it distinguishes no more among too many, or has not heard of, and all queues where its event would be too long.
//! Pure: moments come from the caller.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A hub hears of a queue with the next status of a sidecar, and polls it in its next round.
const PATIENCE_MIN: Duration = Duration::from_secs(30);
/// A figure of the hub stands for polls of our own for so many of their intervals: as long as routing goes by it.
const FRESH_INTERVALS: u32 = 3;

/// The figure of a queue, or the total.
pub(super) type Of = Option<Arc<str>>;

/// The hub's figures of one region.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// When the hub last polled a figure that this sidecar routes by, or, where it never did, from when on it was waited for. At most those that
    /// the sidecar was last about to poll, which `load.queues_max` bounds, and those that came since.
    seen: HashMap<Of, Instant>,
}

impl Figures {
    /// The hub has polled a figure at that moment.
    pub(super) fn on_figure(&mut self, of: Of, at: Instant) {
        let seen = self.seen.entry(of).or_insert(at);
        *seen = at.max(*seen);
    }

    /// The hub has time to send all figures anew.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Those among the wanted figures that the hub has not sent for too long. `interval`: that of our own polls.
    pub(super) fn missing(&mut self, now: Instant, interval: Duration, mut wanted: Vec<Of>) -> Vec<Of> {
        self.seen.retain(|of, _| wanted.contains(of));
        let patience = PATIENCE_MIN.max(interval * FRESH_INTERVALS);
        wanted.retain(|of| now >= *self.seen.entry(of.clone()).or_insert(now) + patience);
        wanted
    }
}
