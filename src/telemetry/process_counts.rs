//! Counters of the process that exist before any metrics do: the scrape takes over their values.

use std::sync::atomic::{AtomicU64, Ordering};

static DROPPED_LINES: AtomicU64 = AtomicU64::new(0);
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Log lines given up since the process started.
#[must_use]
pub fn dropped_lines() -> u64 {
    DROPPED_LINES.load(Ordering::Relaxed)
}

/// Counts one more line.
pub(super) fn count_dropped_line() {
    DROPPED_LINES.fetch_add(1, Ordering::Relaxed);
}

/// Tasks and threads that ended by a panic since the process started.
#[must_use]
pub fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Counts one more panic.
pub(super) fn count_panic() {
    PANICS.fetch_add(1, Ordering::Relaxed);
}
