//! The word of the local region's manifest about scheduling.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Whether the server of the local region schedules fairly itself, and when its manifest said so.
#[derive(Debug, Default)]
pub struct Announced(Mutex<Option<(Instant, bool)>>);

impl Announced {
    /// The word of the manifest; none where it was read longer than `fresh_for` ago.
    pub(crate) fn known(&self, now: Instant, fresh_for: Duration) -> Option<bool> {
        let read = *self.0.lock();
        read.filter(|(at, _)| now.saturating_duration_since(*at) < fresh_for).map(|(_, schedules)| schedules)
    }

    /// The manifest was read.
    pub(crate) fn set(&self, now: Instant, schedules: bool) {
        *self.0.lock() = Some((now, schedules));
    }
}
