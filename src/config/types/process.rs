//! How the process begins and ends.

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
