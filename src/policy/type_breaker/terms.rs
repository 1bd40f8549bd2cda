//! When a breaker trips, and its times.

use serde::{Deserialize, Serialize};

use crate::base::Share;

/// The ends of jobs in a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndCounts {
    /// Jobs that a worker has completed.
    pub succeeded: u64,
    /// Failures of workers.
    pub failed: u64,
}

impl EndCounts {
    /// Adds others.
    pub const fn add(&mut self, others: Self) {
        self.succeeded = self.succeeded.saturating_add(others.succeeded);
        self.failed = self.failed.saturating_add(others.failed);
    }

    /// All of them.
    #[must_use]
    pub const fn all(self) -> u64 {
        self.succeeded.saturating_add(self.failed)
    }
}

/// The terms of a breaker. Units of times: milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BreakerTerms {
    /// It trips where at least this share of the ends are failures.
    pub ratio: Share,
    /// It does not trip by fewer ends.
    pub minimum: u64,
    /// The ends of so long count.
    pub window_ms: u64,
    /// How long it is open at first.
    pub pause_ms: u64,
    /// How long it is open at most: each failed probe doubles the time.
    pub pause_most_ms: u64,
    /// How long a sidecar may take to let a probe through, and the probe to end.
    pub probe_ms: u64,
}

impl BreakerTerms {
    /// Whether a breaker trips by these ends.
    #[must_use]
    pub fn trips(&self, ends: EndCounts) -> bool {
        let all = ends.all();
        // At the share or above it: no more succeed than the rest is.
        all > 0
            && all >= self.minimum
            && u128::from(ends.failed) * u128::from(u16::from(Share::ALL))
                >= u128::from(all) * u128::from(u16::from(self.ratio))
    }
}
