//! The answer to a FETCH: the jobs that a region has handed out.

use std::borrow::Cow;

use bytes::Bytes;

use super::edit::Edits;
use super::members::{Members, Span, joined, slice, text_of};
use crate::ojs::envelope::Envelope;
use crate::ojs::fault::Fault;
use crate::ojs::member::DEPTH_MAX;
use crate::ojs::scan::{ScanError, Scanner};
use crate::ojs::segments::Segments;

/// Ten times as many as servers hand out at once.
const JOBS_MAX: usize = 10_000;

const NAMES: [&str; 2] = ["jobs", "job"];
const JOBS: usize = 0;
const JOB: usize = 1;

/// The jobs that a region handed out, read in place.
pub struct FetchReply<'b> {
    /// The jobs, in the order of the answer.
    pub jobs: Vec<ClaimedJob<'b>>,
    members: Members<'b, 2>,
}

/// One job that was handed out.
#[derive(Clone)]
pub struct ClaimedJob<'b> {
    /// Its id; empty when it has none.
    pub id: Cow<'b, str>,
    /// Its queue; empty when it does not say.
    pub queue: Cow<'b, str>,
    /// The worker that has it, as the region shows it.
    pub worker_id: Option<Cow<'b, str>>,
    /// When this attempt began, as the region shows it.
    pub started_at: Option<Cow<'b, str>>,
    /// When it was enqueued, as the region shows it.
    pub enqueued_at: Option<Cow<'b, str>>,
    /// How long it is leased when the call does not say. Units: milliseconds.
    pub visibility_ms: Option<u64>,
    text: &'b str,
    span: Span,
}

impl std::fmt::Debug for FetchReply<'_> {
    // A job's content belongs in no log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FetchReply").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ClaimedJob<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimedJob").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<'b> FetchReply<'b> {
    /// Reads the answer to a FETCH; `None` when it does not look like one.
    #[must_use]
    pub fn read(body: &'b [u8]) -> Option<Self> {
        let members = Members::read(body, DEPTH_MAX, NAMES).ok()?;
        let spans = match members.elements(JOBS, "jobs", JOBS_MAX).ok()? {
            Some(spans) => spans,
            // Servers in Go write an empty list so.
            None => (members.raw(JOBS)? == "null").then(Vec::new)?,
        };
        let jobs = spans.into_iter().map(|span| ClaimedJob::read(members.text, span)).collect::<Option<_>>()?;
        Some(Self { jobs, members })
    }

    /// Whether the answer repeats the first job in a member `job`.
    #[must_use]
    pub fn has_first(&self) -> bool {
        self.members.span(JOB).is_some()
    }

    /// The answer with these jobs instead of its own, each as a region wrote it. `body` is the body that it was read
    /// from.
    ///
    /// `first`: the first one is repeated in `job`, also where this answer had nothing to repeat.
    #[must_use]
    pub fn with(&self, body: &Bytes, jobs: &[&str], first: bool) -> Segments {
        debug_assert_eq!(self.members.text.len(), body.len(), "jobs are put into the answer's own body");
        let mut edits = Edits::default();
        if let Some(span) = self.members.span(JOBS) {
            edits.replace(span, format!("[{}]", joined(jobs.iter().copied())));
        }
        match (self.members.span(JOB), jobs.first()) {
            (Some(span), first) => edits.replace(span, first.copied().unwrap_or("null")),
            (None, Some(job)) if first => {
                let (place, comma) = self.members.front();
                edits.replace(place, format!("\"job\":{job}{comma}"));
            }
            (None, _) => {}
        }
        edits.apply(body)
    }
}

impl<'b> ClaimedJob<'b> {
    fn read(text: &'b str, span: Span) -> Option<Self> {
        let (id, queue) = (Cow::default(), Cow::default());
        let (worker_id, started_at, enqueued_at, visibility_ms) = (None, None, None, None);
        let mut job = Self { id, queue, worker_id, started_at, enqueued_at, visibility_ms, text, span };
        let read = Scanner::again(text, span.0, &[]).object(|scanner, key| {
            let value = scanner.skip()?;
            let value = || slice(text, value);
            let words = || value().and_then(text_of);
            match &*key.decode() {
                "id" => job.id = words().unwrap_or_default(),
                "queue" => job.queue = words().unwrap_or_default(),
                "worker_id" => job.worker_id = words(),
                "started_at" => job.started_at = words(),
                "enqueued_at" => job.enqueued_at = words(),
                "visibility_timeout_ms" => job.visibility_ms = value().and_then(|value| value.parse().ok()),
                _ => {}
            }
            Ok::<(), ScanError>(())
        });
        read.is_ok().then_some(job)
    }

    /// The job as the region wrote it.
    #[must_use]
    pub fn raw(&self) -> &'b str {
        slice(self.text, self.span).unwrap_or_default()
    }

    /// The job's routing keys.
    ///
    /// Errors: a [`Fault`] where that could be read in two ways.
    pub fn envelope(&self) -> Result<Envelope<'b>, Fault> {
        Envelope::read_at(&mut Scanner::again(self.text, self.span.0, &[]))
    }
}

#[cfg(test)]
mod tests;
