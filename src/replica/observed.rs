//! Facts that the event stream of a region gives.

use super::change::{Change, ChangeKind, JobFacts, Observer};
use crate::base::RegionId;
use crate::ojs::job_events::JobStep;

/// A step of a job, by the word of its region.
#[derive(Debug, Clone, Copy)]
pub struct ObservedStep<'a> {
    /// The job.
    pub job_id: &'a str,
    /// The region.
    pub region: &'a RegionId,
    /// The step.
    pub step: JobStep,
    /// When it was taken. Units: milliseconds since the Unix epoch.
    pub at_ms: u64,
}

impl ObservedStep<'_> {
    /// The fact of the step. It does not depend on other facts.
    #[must_use]
    pub fn change(&self) -> Change {
        let (kind, lease_ms, state) = match self.step {
            JobStep::Stored(state) => (ChangeKind::Created, 0, Some(state)),
            JobStep::Started => (ChangeKind::Leased, self.at_ms, None),
            JobStep::Kept => (ChangeKind::Extended, 0, None),
            // Attempts fail again and again: the time keeps them apart.
            JobStep::Failed(state) => (ChangeKind::Failed, self.at_ms, state),
            JobStep::Completed => (ChangeKind::Completed, 0, None),
            JobStep::Cancelled => (ChangeKind::Cancelled, 0, None),
        };
        Change {
            job_id: self.job_id.to_owned(),
            region: self.region.clone(),
            kind,
            lease_ms,
            at_ms: self.at_ms,
            federation_id: None,
            state: state.map(str::to_owned),
            replicated_from: None,
            job: None,
            observed_by: Some(Observer::Events),
        }
    }
}

/// The description of a job that its region shows, for its first fact. `is_bound`: whether its meta binds it to some regions, or a rule of a
/// sidecar may do so.
#[must_use]
pub fn described(
    (job_type, queue, tenant): (Option<String>, String, Option<String>),
    is_bound: bool,
    enqueued_ms: Option<u64>,
) -> JobFacts {
    let fits = |text: &String| super::is_text(text);
    JobFacts {
        job_type: job_type.filter(fits),
        queue: Some(queue).filter(fits),
        tenant: tenant.filter(fits),
        bound: is_bound,
        enqueued_ms: enqueued_ms.filter(|ms| i64::try_from(*ms).is_ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_no_index_takes_are_left_out_of_a_description() {
        let long = "x".repeat(256);
        let facts = described((Some(long.clone()), "a\nb".to_owned(), Some(String::new())), true, Some(u64::MAX));
        assert_eq!(facts, JobFacts { bound: true, ..JobFacts::default() });
        let facts = described((Some("t".to_owned()), "q".to_owned(), None), false, Some(5));
        assert_eq!((facts.queue.as_deref(), facts.enqueued_ms, facts.bound), (Some("q"), Some(5), false));
    }
}
