//! A job as its region shows it, as its first fact in the index.

use super::super::target::Regions;
use super::super::views::Views;
use crate::base::RegionId;
use crate::base::text::read_rfc3339;
use crate::ojs::answer::is_error_document;
use crate::ojs::job_events::{JobStep, NotObserved, ObservedJob};
use crate::ojs::path_segment;
use crate::policy::{Glob, TENANT_KEY};
use crate::replica::{Change, ObservedStep, described, is_text};

/// The longest answer that is read: a job is at most half as long. Units: bytes.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why nothing is known of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotShown {
    /// The region does not have it.
    Gone,
    /// Its meta could be read in two ways.
    Unclear,
    /// It is a tombstone of a sidecar, which is in no index.
    Fence,
    /// The region does not answer, or takes no question now.
    Silent,
}

/// Asks the region for a job, and makes its first fact of it. `first`: the fact of the first event about it, which describes the job where the
/// region does not say when it was stored: such a time would decide conflicts. `latest_ms`: the latest time that the region may say, in milliseconds
/// since the Unix epoch. `unbound`: the queues in which nothing but its meta binds a job.
///
/// Errors: [`NotShown`].
pub(super) async fn ask(
    (asks, views): (&Regions, &Views),
    region: &RegionId,
    job_id: &str,
    (first, latest_ms): (&Change, u64),
    unbound: &[Glob],
) -> Result<Change, NotShown> {
    let path = format!("/ojs/v1/jobs/{}", path_segment(job_id));
    let answer = asks.get(views, region, &path, ANSWER_BYTES_MAX).await.map_err(|_| NotShown::Silent)?;
    match answer.0.as_u16() {
        200..300 => created(region, job_id, &answer.1, (first, latest_ms), unbound),
        404 | 410 if is_error_document(&answer.1) => Err(NotShown::Gone),
        _ => Err(NotShown::Silent),
    }
}

/// The first fact of the job in an answer.
fn created(
    region: &RegionId,
    job_id: &str,
    answer: &[u8],
    (first, latest_ms): (&Change, u64),
    unbound: &[Glob],
) -> Result<Change, NotShown> {
    let job = ObservedJob::read(answer, TENANT_KEY).map_err(|error| match error {
        NotObserved::NoJob => NotShown::Silent,
        NotObserved::Fence => NotShown::Fence,
        NotObserved::Unclear => NotShown::Unclear,
    })?;
    if *job.id != *job_id {
        return Err(NotShown::Silent);
    }
    // A replica that could not be noted as one would leave the region again.
    if job.replicated_from.as_deref().is_some_and(|from| !is_text(from)) {
        return Err(NotShown::Unclear);
    }
    let waits = job.steps().into_iter().next().filter(|_| ["available", "scheduled", "pending"].contains(&&*job.state));
    let stored_ms = job.stored_at.as_deref().and_then(read_rfc3339).filter(|at| *at <= latest_ms);
    let is_bound = job.is_pinned || !unbound.iter().any(|glob| glob.matches(&job.queue));
    let state = waits.map(|_| job.state.clone().into_owned());
    let facts = described((job.job_type, job.queue, job.tenant), is_bound, stored_ms);
    let federation_id = job.federation_id.filter(|id| is_text(id));
    let fact = match stored_ms {
        Some(at) => {
            let step = JobStep::Stored("available");
            Change { state, ..ObservedStep { job_id, region, step, at_ms: at.min(first.at_ms) }.change() }
        }
        None => first.clone(),
    };
    Ok(Change { federation_id, replicated_from: job.replicated_from, job: Some(facts), ..fact })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::Record;

    const AT: u64 = 1_767_225_600_000;

    fn of(meta: &str, unbound: &str) -> Result<Change, NotShown> {
        let answer = format!(
            r#"{{"job":{{"id":"j","type":"a.b","queue":"q","state":"active","args":["x"],"created_at":"2026-01-01T00:00:00Z","meta":{{{meta}}}}}}}"#
        );
        created(&region(), "j", answer.as_bytes(), (&started(), AT + 9), &[Glob::new(unbound)])
    }

    fn region() -> RegionId {
        RegionId::parse("eu").unwrap()
    }

    fn started() -> Change {
        ObservedStep { job_id: "j", region: &region(), step: JobStep::Started, at_ms: AT + 5 }.change()
    }

    #[test]
    fn a_job_is_bound_unless_its_queue_is_named_as_free_and_its_meta_binds_it_to_nothing() {
        let bound = |meta: &str, unbound: &str| of(meta, unbound).map(|it| it.job.unwrap().bound);
        assert_eq!((bound("", "q"), bound("", "other")), (Ok(false), Ok(true)));
        assert_eq!(bound(r#""ojs.federation.region":"eu""#, "*"), Ok(true));
        let fact = of(r#""tenant_id":"acme","ojs.federation.replicated_from":"us""#, "q").unwrap();
        assert_eq!((fact.at_ms, fact.replicated_from.as_deref(), fact.state), (AT, Some("us"), None));
        let job = fact.job.unwrap();
        assert_eq!((job.tenant.as_deref(), job.queue.as_deref(), job.enqueued_ms), (Some("acme"), Some("q"), Some(AT)));
    }

    #[test]
    fn a_replica_that_cannot_be_noted_and_another_job_are_not_taken() {
        assert_eq!(of(r#""ojs.federation.replicated_from":"""#, "q"), Err(NotShown::Unclear));
        assert_eq!(of(r#""ojs.federation.region":7"#, "q"), Err(NotShown::Unclear));
        let of = |answer: &[u8]| created(&region(), "j", answer, (&started(), AT + 9), &[]);
        assert_eq!(of(br#"{"id":"other","state":"active","type":"a"}"#), Err(NotShown::Silent));
        assert_eq!(of(b"<html>"), Err(NotShown::Silent));
        let waits =
            of(br#"{"id":"j","state":"scheduled","type":"a","args":[],"created_at":"2026-01-01T00:00:00Z"}"#).unwrap();
        assert_eq!((waits.state.as_deref(), waits.at_ms), (Some("scheduled"), AT));
    }

    #[test]
    fn a_job_of_which_the_enqueue_has_no_time_or_one_far_ahead_has_no_fact_of_it() {
        for member in ["", r#","created_at":"2026-01-01T00:00:01Z""#] {
            let answer = format!(r#"{{"id":"j","state":"active","type":"a","args":[]{member}}}"#);
            let fact = created(&region(), "j", answer.as_bytes(), (&started(), AT + 9), &[]).unwrap();
            let record = Record::of([fact]);
            assert_eq!((record.copies[0].stored_ms(), &*record.copies[0].state), (None, "active"));
            assert!(record.copies[0].job.is_some());
        }
    }
}
