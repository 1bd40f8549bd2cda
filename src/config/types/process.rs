//! How the process begins and ends, and what it shows of itself.

use std::time::Duration;

/// What `/readyz` waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Readiness {
    /// Whether a usable region is needed; off by default, because a region's outage must not stop pods from starting.
    pub require_region: bool,
}

/// How the process ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Shutdown {
    /// After the signal, the process ends once no client was seen for this long.
    pub drain_idle: Duration,
    /// The longest it waits.
    pub drain_timeout: Duration,
}

/// What a scrape holds.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsConfig {
    /// How many series.
    pub detail: MetricsDetail,
}

/// How many series a scrape has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsDetail {
    /// What alerts and panels need: at most 60 a region.
    Basic,
    /// Every class, strategy and bucket.
    Full,
}
