//! The finding of a probe.

use std::time::Duration;

use crate::config::HealthSource;

/// The finding of a probe.
#[derive(Debug, Clone, Copy)]
pub struct ProbeReport {
    /// 200 and an accepted status.
    pub healthy: bool,
    /// From the question to the whole answer; none without an answer.
    pub round_trip: Option<Duration>,
    /// A closed word for logs.
    pub why: &'static str,
    /// How long ago a hub found this; none for a probe of our own.
    pub of_hub: Option<Duration>,
}

impl ProbeReport {
    /// The source and the time of the probe. `unix_ms`: now. Units: milliseconds since the Unix epoch.
    pub(super) fn origin(&self, unix_ms: u64) -> (HealthSource, u64) {
        match self.of_hub {
            None => (HealthSource::Own, unix_ms),
            Some(age) => {
                (HealthSource::Hub, unix_ms.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
            }
        }
    }
}
