//! A step of a job on its way into the index, with a time that the index takes.

use std::time::{Duration, Instant};

use crate::base::text::read_rfc3339;
use crate::ojs::job_events::JobStep;
use crate::replica::is_text;

/// A step of a job of this region.
#[derive(Debug, Clone)]
pub(super) struct TakenStep {
    pub(super) job_id: String,
    pub(super) step: JobStep,
    /// Units: milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    /// When this hub has read it.
    pub(super) heard: Instant,
}

/// The bounds of times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// The wall clock. Units: milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// How far the clock of the region may be ahead.
    pub(super) max_skew: Duration,
    /// How old a fact may be.
    pub(super) retention: Duration,
}

impl Times {
    /// The time that an event says, no later than now; now where it says none. `None` where it lies about it: far ahead, or too old to be kept.
    pub(super) fn read(&self, at: Option<&str>) -> Option<u64> {
        let Some(at_ms) = at.and_then(read_rfc3339) else { return Some(self.now_ms) };
        let millis = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        let latest = self.now_ms.saturating_add(millis(self.max_skew));
        let is_fit = (self.now_ms.saturating_sub(millis(self.retention))..=latest).contains(&at_ms);
        is_fit.then_some(at_ms.min(self.now_ms))
    }
}

impl TakenStep {
    /// A step, where the index takes its id and its time.
    pub(super) fn new(job_id: &str, step: JobStep, at: Option<&str>, times: Times, heard: Instant) -> Option<Self> {
        let at_ms = times.read(at)?;
        is_text(job_id).then(|| Self { job_id: job_id.to_owned(), step, at_ms, heard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_cannot_be_is_no_time_and_one_that_is_missing_is_now() {
        let seconds = Duration::from_secs;
        // 2026-01-01T00:00:00Z.
        let times = Times { now_ms: 1_767_225_600_000, max_skew: seconds(5), retention: seconds(3_600) };
        for (at, expected) in [
            (None, Some(0)),
            (Some("soon"), Some(0)),
            (Some("2025-12-31T23:59:58.000Z"), Some(2_000)),
            (Some("2026-01-01T00:00:04.000Z"), Some(0)),
            (Some("2026-01-01T00:00:06.000Z"), None),
            (Some("2025-12-31T22:00:00.000Z"), None),
            (Some("9999-12-31T23:59:59.999Z"), None),
        ] {
            assert_eq!(times.read(at), expected.map(|ago| times.now_ms - ago), "{at:?}");
        }
        let new = |id: &str| TakenStep::new(id, JobStep::Started, None, times, Instant::now());
        assert!(new("a").is_some() && new("").is_none() && new("a\nb").is_none() && new(&"x".repeat(256)).is_none());
    }
}
