//! The finding of a probe.

use std::time::Duration;

/// The finding of a probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeReport {
    /// 200 and an accepted status.
    pub healthy: bool,
    /// From the question to the whole answer; none without an answer.
    pub round_trip: Option<Duration>,
    /// A closed word for logs.
    pub why: &'static str,
}
