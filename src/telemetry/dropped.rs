//! How many log lines were given up because nobody read them.

use std::sync::atomic::{AtomicU64, Ordering};

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines given up since the process started.
#[must_use]
pub fn dropped_lines() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// Counts one more.
pub(super) fn count_dropped_line() {
    DROPPED.fetch_add(1, Ordering::Relaxed);
}
