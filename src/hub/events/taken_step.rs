//! A step of a job on its way into the index, with a time that the index takes.

use std::time::{Duration, Instant};

use crate::base::text::read_rfc3339;
use crate::ojs::job_events::JobStep;
use crate::replica::{Change, ChangeKind, is_text};

/// A step of a job of this region.
#[derive(Debug, Clone)]
pub(super) struct TakenStep {
    pub(super) job_id: String,
    pub(super) step: JobStep,
    /// Units: milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    /// Whether it is a time of the step; else that of a look at a list, which shows the step without one.
    pub(super) is_timed: bool,
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
    /// The time that an event says, and whether it says one; else now. `None` where it lies about it: further ahead than clocks may be, or too
    /// old to be kept. A time that is ahead stays as it is: cut to the clock of this hub, steps would change their order.
    pub(super) fn read(&self, at: Option<&str>) -> Option<(u64, bool)> {
        let Some(at_ms) = at.and_then(read_rfc3339) else { return Some((self.now_ms, false)) };
        let is_fit = (self.now_ms.saturating_sub(millis(self.retention))..=self.latest_ms()).contains(&at_ms);
        is_fit.then_some((at_ms, true))
    }

    /// The latest time that the region may say. Units: milliseconds since the Unix epoch.
    pub(super) fn latest_ms(&self) -> u64 {
        self.now_ms.saturating_add(millis(self.max_skew))
    }
}

fn millis(it: Duration) -> u64 {
    u64::try_from(it.as_millis()).unwrap_or(u64::MAX)
}

impl TakenStep {
    /// A step, where the index takes its id and its time.
    pub(super) fn new(job_id: &str, step: JobStep, at: Option<&str>, times: Times, heard: Instant) -> Option<Self> {
        let (at_ms, is_timed) = times.read(at)?;
        is_text(job_id).then(|| Self { job_id: job_id.to_owned(), step, at_ms, is_timed, heard })
    }

    /// Whether facts about its job have it already, although its time is not known: a list shows such a step at each look.
    pub(super) fn is_known(&self, facts: &[Change]) -> bool {
        let is_discarded = |it: &Change| it.state.as_deref() == Some("discarded");
        !self.is_timed
            && facts.iter().any(|it| match self.step {
                JobStep::Stored(_) => it.kind == ChangeKind::Created,
                JobStep::Failed(Some("discarded")) => it.kind == ChangeKind::Failed && is_discarded(it),
                JobStep::Failed(_) => it.kind == ChangeKind::Failed,
                JobStep::Completed => it.kind == ChangeKind::Completed,
                JobStep::Cancelled => it.kind == ChangeKind::Cancelled,
                JobStep::Started | JobStep::Kept => false,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::ObservedStep;

    #[test]
    fn a_step_without_a_time_is_taken_once() {
        let region = crate::base::RegionId::parse("eu").unwrap();
        let fact = |step, at_ms| ObservedStep { job_id: "j", region: &region, step, at_ms }.change();
        let of = |step, is_timed| TakenStep { job_id: "j".to_owned(), step, at_ms: 9, is_timed, heard: Instant::now() };
        let (retried, discarded) = (JobStep::Failed(Some("retryable")), JobStep::Failed(Some("discarded")));
        for (step, known, is_known) in [
            (JobStep::Completed, fact(JobStep::Completed, 5), true),
            (JobStep::Completed, fact(JobStep::Started, 5), false),
            (JobStep::Cancelled, fact(JobStep::Cancelled, 5), true),
            (retried, fact(retried, 5), true),
            (retried, fact(discarded, 5), true),
            (discarded, fact(discarded, 5), true),
            (discarded, fact(retried, 5), false),
            (JobStep::Stored("available"), fact(JobStep::Stored("available"), 5), true),
        ] {
            assert_eq!(
                (of(step, false).is_known(std::slice::from_ref(&known)), of(step, true).is_known(&[known])),
                (is_known, false)
            );
        }
    }

    #[test]
    fn a_time_that_cannot_be_is_no_time_and_one_that_is_missing_is_now() {
        let seconds = Duration::from_secs;
        // 2026-01-01T00:00:00Z.
        let times = Times { now_ms: 1_767_225_600_000, max_skew: seconds(5), retention: seconds(3_600) };
        for (at, expected) in [
            (None, Some((0, false))),
            (Some("soon"), Some((0, false))),
            (Some("2025-12-31T23:59:58.000Z"), Some((-2_000, true))),
            (Some("2026-01-01T00:00:04.000Z"), Some((4_000, true))),
            (Some("2026-01-01T00:00:06.000Z"), None),
            (Some("2025-12-31T22:00:00.000Z"), None),
            (Some("9999-12-31T23:59:59.999Z"), None),
        ] {
            assert_eq!(
                times.read(at),
                expected.map(|(by, is_timed)| (times.now_ms.saturating_add_signed(by), is_timed)),
                "{at:?}"
            );
        }
        let new = |id: &str| TakenStep::new(id, JobStep::Started, None, times, Instant::now());
        assert!(new("a").is_some() && new("").is_none() && new("a\nb").is_none() && new(&"x".repeat(256)).is_none());
    }
}
