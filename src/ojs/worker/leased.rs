//! Whether a worker's lease of a job is still the one that a region shows.

use std::borrow::Cow;

use super::members::Members;
use crate::ojs::member::DEPTH_MAX;

/// The attempt in progress, as a look-up shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased<'b> {
    /// The state of the job.
    pub state: Cow<'b, str>,
    /// When the attempt began; none where the region does not show it.
    pub started_at: Option<Cow<'b, str>>,
    /// The worker that has it; none where the region does not show it.
    pub worker_id: Option<Cow<'b, str>>,
}

impl<'b> Leased<'b> {
    /// Reads the answer to a look-up, the job bare or under `job`; `None` for an answer that shows no job.
    #[must_use]
    pub fn read(body: &'b [u8]) -> Option<Self> {
        let members = Members::read(body, DEPTH_MAX, ["job"]).ok()?;
        let job = members.raw(0).map_or(body, str::as_bytes);
        let job = Members::read(job, DEPTH_MAX, ["state", "started_at", "worker_id"]).ok()?;
        Some(Self { state: job.text(0)?, started_at: job.text(1), worker_id: job.text(2) })
    }

    /// Whether it is the attempt of this worker that began at this time. Unknown members are not compared.
    #[must_use]
    pub fn is_of(&self, worker_id: Option<&str>, started_at: Option<&str>) -> bool {
        let same_worker = worker_id.is_none_or(|worker| self.worker_id.as_deref() == Some(worker));
        let same_start = started_at.is_none_or(|at| self.started_at.as_deref().is_some_and(|it| same_moment(it, at)));
        self.state == "active" && same_worker && same_start
    }
}

/// Whether two texts are the same moment: a server may keep fewer digits than it wrote in its first answer.
fn same_moment(one: &str, other: &str) -> bool {
    let moment = |text: &str| text.parse::<jiff::Timestamp>().ok().map(|at| at.as_millisecond());
    one == other || moment(one).is_some_and(|one| moment(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_recognised_by_state_worker_and_start() {
        let shown = |state: &str, worker: &str, started: &str| {
            format!(
                r#"{{"job":{{"id":"a","state":"{state}","worker_id":"{worker}","started_at":"{started}","args":[]}}}}"#
            )
        };
        let check = |body: &str, worker: Option<&str>, started: Option<&str>, expected: bool| {
            let leased = Leased::read(body.as_bytes()).unwrap();
            assert_eq!(leased.is_of(worker, started), expected, "{body} {worker:?} {started:?}");
        };
        let at = "2026-03-15T10:30:00.123Z";
        let body = shown("active", "w1", at);
        check(&body, Some("w1"), Some(at), true);
        check(&body, Some("w1"), Some("2026-03-15T11:30:00.123456+01:00"), true);
        check(&body, None, None, true);
        check(&body, Some("w2"), Some(at), false);
        check(&body, Some("w1"), Some("2026-03-15T10:30:00.124Z"), false);
        check(&body, Some("w1"), Some("soon"), false);
        check(&shown("retryable", "w1", at), Some("w1"), Some(at), false);
        check(r#"{"id":"a","state":"active"}"#, None, None, true);
        check(r#"{"id":"a","state":"active"}"#, Some("w1"), None, false);
        for body in [r#"{"job":7}"#, r#"{"id":"a"}"#, "[]", ""] {
            assert_eq!(Leased::read(body.as_bytes()), None, "{body}");
        }
    }
}
