//! One job in the store, and how it is written.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::answer::Object;
use super::envelope::Envelope;
use super::failure::Failure;
use super::members::{Members, Raw};
use super::notes::Notes;
use super::state::JobState;
use super::workflow::Membership;
use crate::text::rfc3339;

/// A job as tests see it.
#[derive(Debug, Clone)]
pub struct StoredJob {
    /// Its id.
    pub id: String,
    /// Its type.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Its state.
    pub state: JobState,
    /// How many times it was handed to a worker.
    pub attempt: u32,
    /// The worker that has or had it.
    pub worker_id: Option<String>,
    /// How many times a job with this id was submitted: more than 1 means that one overwrote another, or was refused as a
    /// duplicate.
    pub stored: u32,
    /// When it was stored. Units: milliseconds since the Unix epoch, by the region's clock.
    pub created_ms: u64,
    /// How many of the jobs that had this id, one after the other, were handed to a worker.
    pub runs: u32,
    /// How many times an acknowledgement took effect, on it and on those that it has overwritten.
    pub acknowledged: u32,
    /// The text as it was submitted.
    pub envelope: Bytes,
    /// `args`, byte for byte.
    pub args: String,
    /// The meta that took effect, byte for byte.
    pub meta: Option<String>,
}

/// A snapshot of all jobs, in order of arrival.
#[derive(Debug, Clone)]
pub struct Jobs(pub(super) Vec<StoredJob>);

impl std::ops::Deref for Jobs {
    type Target = [StoredJob];

    fn deref(&self) -> &[StoredJob] {
        &self.0
    }
}

impl Jobs {
    /// The job with this id.
    #[must_use]
    pub fn job(&self, id: &str) -> Option<&StoredJob> {
        self.0.iter().find(|job| job.id == id)
    }

    /// How many are in a state.
    #[must_use]
    pub fn count_in(&self, state: JobState) -> usize {
        self.0.iter().filter(|job| job.state == state).count()
    }
}

/// The times of a job, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    /// When its id was stored for the first time.
    pub(super) first: u64,
    pub(super) created: u64,
    pub(super) enqueued: u64,
    pub(super) started: Option<u64>,
    pub(super) ended: Option<u64>,
}

/// A worker's claim on a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    /// How long it lasts from one sign of life to the next.
    pub(super) visibility_ms: u64,
    /// When it is over unless the worker shows itself.
    pub(super) until_ms: u64,
    /// When the attempt has taken too long, for any extension of the worker's.
    pub(super) timeout_ms: Option<u64>,
}

impl Lease {
    pub(super) fn due_ms(self) -> u64 {
        self.timeout_ms.map_or(self.until_ms, |timeout_ms| timeout_ms.min(self.until_ms))
    }
}

/// How much of a job's history is kept.
const ERRORS_MAX: usize = 25;

#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) envelope: Envelope,
    /// Its place among all submissions.
    pub(super) sequence: u64,
    pub(super) stored: u32,
    /// The runs of those that it has overwritten.
    pub(super) runs_before: u32,
    pub(super) acknowledged: u32,
    pub(super) state: JobState,
    /// When the store has to look at it again: the end of a lease, a delay or a back-off.
    pub(super) due_ms: Option<u64>,
    pub(super) lease: Option<Lease>,
    pub(super) attempt: u32,
    pub(super) retry_delay_ms: Option<u64>,
    pub(super) worker_id: Option<String>,
    pub(super) times: Times,
    pub(super) result: Option<Raw>,
    /// Its failures so far, oldest first.
    pub(super) errors: VecDeque<String>,
    /// Whether it lies among the dead letters.
    pub(super) is_dead: bool,
    pub(super) notes: Notes,
    /// Whether it was discarded because its time was over.
    pub(super) is_expired: bool,
    /// The workflow that it belongs to.
    pub(super) membership: Option<Membership>,
}

impl Job {
    /// How many of the jobs that had this id were handed to a worker.
    pub(super) fn runs(&self) -> u32 {
        let was_handed_out = self.worker_id.is_some() || self.times.started.is_some();
        self.runs_before + u32::from(was_handed_out)
    }

    /// Its place in its queue: high priority first, then in order of arrival.
    pub(super) fn rank(&self) -> (std::cmp::Reverse<i64>, u64) {
        (std::cmp::Reverse(self.envelope.priority), self.sequence)
    }

    /// Moves to a state in which no worker has it.
    pub(super) const fn be_in(&mut self, state: JobState, due_ms: Option<u64>) {
        (self.state, self.due_ms, self.lease) = (state, due_ms, None);
    }

    /// Is, or stays, with a worker.
    pub(super) fn be_leased(&mut self, lease: Lease) {
        (self.state, self.due_ms, self.lease) = (JobState::Active, Some(lease.due_ms()), Some(lease));
    }

    pub(super) fn scheduled_ms(&self) -> Option<u64> {
        self.envelope.scheduled.as_ref().map(|at| at.unix_ms(self.times.created))
    }

    pub(super) fn expires_ms(&self) -> Option<u64> {
        self.envelope.expires.as_ref().map(|at| at.unix_ms(self.times.created))
    }

    /// When the store has to look at it again, also because it expires while it waits.
    pub(super) fn wakes_ms(&self) -> Option<u64> {
        if self.state == JobState::Active || self.state.is_terminal() {
            return self.due_ms;
        }
        self.due_ms.into_iter().chain(self.expires_ms()).min()
    }

    /// When it became a dead letter, if it is one.
    pub(super) fn died_ms(&self) -> Option<u64> {
        self.times.ended.filter(|_| self.is_dead)
    }

    /// Puts an error on record.
    pub(super) fn note(&mut self, failure: &Failure, at_ms: u64) {
        self.errors.push_back(failure.entry(self.attempt, at_ms));
        if self.errors.len() > ERRORS_MAX {
            self.errors.pop_front();
        }
    }

    /// The type of its last error.
    pub(super) fn error_type(&self) -> Option<String> {
        Members::parse(self.errors.back()?.as_bytes()).ok()?.read("type", "").ok()?
    }

    /// The job document.
    pub(super) fn document(&self) -> String {
        let envelope = &self.envelope;
        let at = |state: JobState, ms: Option<u64>| ms.filter(|_| self.state == state).map(rfc3339);
        // Failing for good is a way of being completed.
        let failed = at(JobState::Discarded, self.times.ended.filter(|_| !self.is_expired));
        let completed = at(JobState::Completed, self.times.ended).or(failed);
        let errors: Vec<&str> = self.errors.iter().map(String::as_str).collect();
        let errors = (!errors.is_empty()).then(|| format!("[{}]", errors.join(",")));
        let error = self.errors.back().filter(|_| self.state != JobState::Completed);
        let expires = envelope.expires.as_ref().map(|at| at.text(self.times.created));
        let member = self.membership.as_ref();
        let hidden = if envelope.extra_wins { envelope.extra.as_slice() } else { &[] };
        let object = Object::hiding(hidden.iter().map(|(key, _)| key.as_str()))
            .text("specversion", "1.0")
            .text("id", &self.id)
            .text("type", &envelope.kind)
            .text("queue", &envelope.queue)
            .raw("args", envelope.args.get())
            .maybe_raw("meta", envelope.meta.as_deref().map(RawValue::get))
            .number("priority", envelope.priority)
            .text("state", self.state.as_str())
            .number("attempt", self.attempt)
            .number("max_attempts", envelope.retry.attempts_max)
            .text("created_at", &rfc3339(self.times.created))
            .text("enqueued_at", &rfc3339(self.times.enqueued))
            .maybe_text("scheduled_at", self.scheduled_ms().map(rfc3339).as_deref())
            .maybe_text("expires_at", expires.as_deref())
            .maybe_text("started_at", self.times.started.map(rfc3339).as_deref())
            .maybe_text("next_attempt_at", at(JobState::Retryable, self.due_ms).as_deref())
            .maybe_number("retry_delay_ms", self.retry_delay_ms)
            .maybe_text("completed_at", completed.as_deref())
            .maybe_text("discarded_at", at(JobState::Discarded, self.times.ended).as_deref())
            .maybe_text("cancelled_at", at(JobState::Cancelled, self.times.ended).as_deref())
            .maybe_text("worker_id", self.worker_id.as_deref())
            .maybe_text("workflow_id", member.map(|member| member.workflow_id.as_str()))
            .maybe_raw("parent_results", member.and_then(|member| member.parent_results.as_deref()))
            .maybe_raw("result", self.result.as_deref().map(RawValue::get))
            .maybe_raw("error", error.map(String::as_str))
            .maybe_raw("errors", errors.as_deref())
            .shown();
        envelope.extra.iter().fold(object, |object, (key, value)| object.raw(key, value.get())).finish()
    }

    pub(super) fn snapshot(&self) -> StoredJob {
        StoredJob {
            id: self.id.clone(),
            kind: self.envelope.kind.clone(),
            queue: self.envelope.queue.clone(),
            state: self.state,
            attempt: self.attempt,
            worker_id: self.worker_id.clone(),
            stored: self.stored,
            created_ms: self.times.created,
            runs: self.runs(),
            acknowledged: self.acknowledged,
            envelope: self.envelope.source.clone(),
            args: self.envelope.args.get().to_owned(),
            meta: self.envelope.meta.as_deref().map(|meta| meta.get().to_owned()),
        }
    }
}
