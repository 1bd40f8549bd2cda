//! One job in the store, and how it is written.

use std::time::Duration;

use bytes::Bytes;

use super::answer::Object;
use super::envelope::{Envelope, Raw};
use crate::base::text::rfc3339;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Waits for its time.
    Scheduled,
    /// Waits for a worker.
    Available,
    /// A worker has it.
    Active,
    /// Failed, and waits for its next attempt.
    Retryable,
    /// Done.
    Completed,
    /// Failed for good.
    Discarded,
    /// Called off.
    Cancelled,
}

impl JobState {
    /// Every state, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::Available,
        Self::Active,
        Self::Retryable,
        Self::Completed,
        Self::Discarded,
        Self::Cancelled,
    ];

    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Available => "available",
            Self::Active => "active",
            Self::Retryable => "retryable",
            Self::Completed => "completed",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing can happen to the job any more.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Discarded | Self::Cancelled)
    }
}

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
    /// How many times a job with this id was submitted: more than 1 means that one overwrote another.
    pub stored: u32,
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

/// When what happened, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) enqueued: u64,
    pub(super) started: Option<u64>,
    pub(super) ended: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) envelope: Envelope,
    /// Its place among all submissions.
    pub(super) sequence: u64,
    pub(super) stored: u32,
    pub(super) state: JobState,
    /// When the store has to look at it again: the end of a lease, a delay or a back-off.
    pub(super) due_ms: Option<u64>,
    pub(super) attempt: u32,
    pub(super) worker_id: Option<String>,
    pub(super) times: Times,
    pub(super) result: Option<Raw>,
    pub(super) errors: Vec<Raw>,
}

impl Job {
    /// Its place in its queue: high priority first, then in order of arrival.
    pub(super) fn rank(&self) -> (std::cmp::Reverse<i64>, u64) {
        (std::cmp::Reverse(self.envelope.priority), self.sequence)
    }

    /// How long it waits after the attempt that has just failed.
    pub(super) fn back_off(&self) -> Duration {
        let retry = &self.envelope.retry;
        let exponent = i32::try_from(self.attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let wait = retry.initial.as_secs_f64() * retry.coefficient.max(1.0).powi(exponent);
        Duration::try_from_secs_f64(wait).map_or(retry.longest, |wait| wait.min(retry.longest))
    }

    /// The job document.
    pub(super) fn document(&self) -> String {
        let envelope = &self.envelope;
        let at = |state: JobState, ms: Option<u64>| ms.filter(|_| self.state == state).map(rfc3339);
        let mut object = Object::new()
            .text("specversion", "1.0")
            .text("id", &self.id)
            .text("type", &envelope.kind)
            .text("queue", &envelope.queue)
            .raw("args", envelope.args.get())
            .maybe_raw("meta", envelope.meta.as_deref().map(serde_json::value::RawValue::get))
            .number("priority", envelope.priority)
            .text("state", self.state.as_str())
            .number("attempt", self.attempt)
            .number("max_attempts", envelope.retry.attempts_max)
            .text("created_at", &rfc3339(self.times.enqueued))
            .text("enqueued_at", &rfc3339(self.times.enqueued))
            .maybe_text("scheduled_at", envelope.scheduled_ms.map(rfc3339).as_deref())
            .maybe_text("started_at", self.times.started.map(rfc3339).as_deref())
            .maybe_text("next_attempt_at", at(JobState::Retryable, self.due_ms).as_deref())
            .maybe_text("completed_at", at(JobState::Completed, self.times.ended).as_deref())
            .maybe_text("discarded_at", at(JobState::Discarded, self.times.ended).as_deref())
            .maybe_text("cancelled_at", at(JobState::Cancelled, self.times.ended).as_deref())
            .maybe_text("worker_id", self.worker_id.as_deref())
            .maybe_raw("result", self.result.as_deref().map(serde_json::value::RawValue::get));
        if let Some(last) = self.errors.last().filter(|_| self.state != JobState::Completed) {
            let all: Vec<&str> = self.errors.iter().map(|error| error.get()).collect();
            object = object.raw("error", last.get()).raw("errors", &format!("[{}]", all.join(",")));
        }
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
            envelope: self.envelope.source.clone(),
            args: self.envelope.args.get().to_owned(),
            meta: self.envelope.meta.as_deref().map(|meta| meta.get().to_owned()),
        }
    }
}
