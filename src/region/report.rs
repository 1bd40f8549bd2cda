//! What a probe found.

use std::time::Duration;

/// What a probe found.
#[derive(Debug, Clone, Copy)]
pub struct ProbeReport {
    /// 200 and an accepted status.
    pub healthy: bool,
    /// From the question to the whole answer; none without an answer.
    pub round_trip: Option<Duration>,
    /// A closed word for logs.
    pub why: &'static str,
}
