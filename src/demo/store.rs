//! The region's state: jobs, queues and definitions, as a state machine that knows time only through its clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use bytes::Bytes;
use tokio::sync::watch;
use uuid::Uuid;

use super::envelope::{Envelope, Raw};
use super::job::{Job, JobState, Jobs, Times};
use super::queue::{Queue, QueueView};
use crate::base::Clock;

/// How long a worker has a job when nobody says otherwise.
const VISIBILITY_MS: u64 = 30_000;

/// How many finished jobs are kept, so that a demo that runs for days does not grow.
const FINISHED_MAX: usize = 100_000;

/// Why an operation on a job is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    NotFound,
    Conflict(JobState),
}

/// A cron job or a workflow as it was submitted.
#[derive(Debug, Clone)]
pub struct Definition {
    /// `cron` or `workflows`.
    pub kind: &'static str,
    /// The text as it was submitted.
    pub source: Bytes,
}

/// What a worker asks for.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) queues: Vec<String>,
    pub(super) count: usize,
    pub(super) worker_id: Option<String>,
    pub(super) visibility_ms: Option<u64>,
}

/// What a worker says about a failed job.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Option<Raw>,
    pub(super) retryable: bool,
    pub(super) requeue: bool,
}

#[derive(Debug)]
pub(super) struct Store {
    clock: Clock,
    jobs: HashMap<String, Job>,
    queues: BTreeMap<String, Queue>,
    due: BTreeSet<(u64, String)>,
    finished: VecDeque<(u64, String)>,
    definitions: Vec<Definition>,
    next_sequence: u64,
    changed: watch::Sender<u64>,
}

impl Store {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            jobs: HashMap::new(),
            queues: BTreeMap::new(),
            due: BTreeSet::new(),
            finished: VecDeque::new(),
            definitions: Vec::new(),
            next_sequence: 0,
            changed: watch::Sender::new(0),
        }
    }

    /// Tells of every change of any job.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Stores a job; one that has the same id is overwritten, as servers in the field do.
    pub(super) fn enqueue(&mut self, envelope: Envelope) -> &Job {
        self.settle();
        let now = self.clock.unix_ms();
        let id = envelope.id.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        let stored = self.forget(&id) + 1;
        let due_ms = envelope.scheduled_ms.filter(|at| *at > now);
        let state = if due_ms.is_some() { JobState::Scheduled } else { JobState::Available };
        let job = Job {
            id: id.clone(),
            envelope,
            sequence: self.next_sequence,
            stored,
            state,
            due_ms,
            attempt: 0,
            worker_id: None,
            times: Times { enqueued: now, ..Times::default() },
            result: None,
            errors: Vec::new(),
        };
        self.next_sequence += 1;
        self.enter(&job);
        self.jobs.entry(id).insert_entry(job).into_mut()
    }

    pub(super) fn job(&mut self, id: &str) -> Option<&Job> {
        self.settle();
        self.jobs.get(id)
    }

    /// Hands out jobs: the queues in the order given, each by priority and then by arrival.
    pub(super) fn fetch(&mut self, claim: &Claim) -> Vec<&Job> {
        self.settle();
        let now = self.clock.unix_ms();
        let mut seen = HashSet::new();
        // A queue that is named twice hands its jobs out once.
        let names = claim.queues.iter().filter(|name| seen.insert(name.as_str()));
        let ready = names.filter_map(|name| self.queues.get(name)).filter(|queue| !queue.paused);
        let ids: Vec<String> = ready.flat_map(|queue| queue.ready.values()).take(claim.count).cloned().collect();
        for id in &ids {
            self.alter(id, |job| {
                job.attempt += 1;
                job.worker_id.clone_from(&claim.worker_id);
                job.times.started = Some(now);
                let lease_ms = claim.visibility_ms.or(job.envelope.visibility_ms).unwrap_or(VISIBILITY_MS);
                job.due_ms = Some(now.saturating_add(lease_ms));
                job.state = JobState::Active;
            });
        }
        ids.iter().filter_map(|id| self.jobs.get(id)).collect()
    }

    pub(super) fn ack(&mut self, id: &str, result: Option<Raw>) -> Result<&Job, Refused> {
        self.settle();
        self.check(id, |state| state == JobState::Active)?;
        self.end(id, JobState::Completed, |job| job.result = result)
    }

    pub(super) fn nack(&mut self, id: &str, failure: Failure) -> Result<&Job, Refused> {
        self.settle();
        self.check(id, |state| state == JobState::Active)?;
        let exhausted = self.jobs.get(id).is_some_and(|job| job.attempt >= job.envelope.retry.attempts_max);
        let note = |job: &mut Job| job.errors.extend(failure.error);
        if failure.requeue {
            return self.change(id, |job| {
                note(job);
                (job.state, job.due_ms) = (JobState::Available, None);
            });
        }
        if exhausted || !failure.retryable {
            return self.end(id, JobState::Discarded, note);
        }
        let now = self.clock.unix_ms();
        self.change(id, |job| {
            note(job);
            let wait_ms = u64::try_from(job.back_off().as_millis()).unwrap_or(u64::MAX);
            (job.state, job.due_ms) = (JobState::Retryable, Some(now.saturating_add(wait_ms)));
        })
    }

    pub(super) fn cancel(&mut self, id: &str) -> Result<&Job, Refused> {
        self.settle();
        self.check(id, |state| !state.is_terminal())?;
        self.end(id, JobState::Cancelled, |_| ())
    }

    /// Extends the leases of those of `ids` that are active, and says which.
    pub(super) fn heartbeat(&mut self, ids: Vec<String>, visibility_ms: Option<u64>) -> Vec<String> {
        self.settle();
        let due_ms = self.clock.unix_ms().saturating_add(visibility_ms.unwrap_or(VISIBILITY_MS));
        let is_active = |job: &Job| job.state == JobState::Active;
        let extended: Vec<_> = ids.into_iter().filter(|id| self.jobs.get(id).is_some_and(is_active)).collect();
        for id in &extended {
            self.alter(id, |job| job.due_ms = Some(due_ms));
        }
        extended
    }

    /// A queue as it stands; one that nobody has used is empty.
    pub(super) fn queue(&mut self, name: &str) -> QueueView {
        self.settle();
        let (paused, counts) =
            self.queues.get(name).map_or_else(Default::default, |queue| (queue.paused, queue.counts));
        QueueView { name: name.to_owned(), paused, counts }
    }

    pub(super) fn queues(&mut self) -> Vec<QueueView> {
        let names: Vec<_> = self.queues.keys().cloned().collect();
        names.iter().map(|name| self.queue(name)).collect()
    }

    pub(super) fn pause(&mut self, name: &str, paused: bool) {
        self.queues.entry(name.to_owned()).or_default().paused = paused;
    }

    pub(super) fn define(&mut self, kind: &'static str, source: Bytes) {
        self.definitions.push(Definition { kind, source });
    }

    pub(super) fn definitions(&self) -> Vec<Definition> {
        self.definitions.clone()
    }

    pub(super) fn snapshot(&mut self) -> Jobs {
        self.settle();
        let mut jobs: Vec<&Job> = self.jobs.values().collect();
        jobs.sort_by_key(|job| job.sequence);
        Jobs(jobs.into_iter().map(Job::snapshot).collect())
    }

    /// Makes every job available whose lease, delay or back-off is over.
    fn settle(&mut self) {
        let now = self.clock.unix_ms();
        while self.due.first().is_some_and(|(due_ms, _)| *due_ms <= now) {
            if let Some((_, id)) = self.due.pop_first() {
                self.alter(&id, |job| (job.state, job.due_ms) = (JobState::Available, None));
            }
        }
    }

    fn check(&self, id: &str, allowed: impl Fn(JobState) -> bool) -> Result<(), Refused> {
        let job = self.jobs.get(id).ok_or(Refused::NotFound)?;
        if allowed(job.state) { Ok(()) } else { Err(Refused::Conflict(job.state)) }
    }

    fn end(&mut self, id: &str, state: JobState, change: impl FnOnce(&mut Job)) -> Result<&Job, Refused> {
        let now = self.clock.unix_ms();
        let sequence = self.jobs.get(id).map_or(0, |job| job.sequence);
        self.finished.push_back((sequence, id.to_owned()));
        if self.finished.len() > FINISHED_MAX
            && let Some((sequence, oldest)) = self.finished.pop_front()
            && self.jobs.get(&oldest).is_some_and(|job| job.sequence == sequence)
        {
            self.jobs.remove(&oldest);
        }
        self.change(id, |job| {
            change(job);
            (job.state, job.due_ms, job.times.ended) = (state, None, Some(now));
        })
    }

    /// Changes a job that is known to be there.
    fn alter(&mut self, id: &str, change: impl FnOnce(&mut Job)) {
        let altered = self.change(id, change);
        debug_assert!(altered.is_ok(), "the id comes from the store itself");
    }

    /// Changes a job and everything that is filed by its state.
    fn change(&mut self, id: &str, change: impl FnOnce(&mut Job)) -> Result<&Job, Refused> {
        let mut job = self.jobs.remove(id).ok_or(Refused::NotFound)?;
        self.leave(&job);
        change(&mut job);
        self.enter(&job);
        Ok(self.jobs.entry(id.to_owned()).insert_entry(job).into_mut())
    }

    /// Takes a job out, if it is there, and says how many times it was stored.
    fn forget(&mut self, id: &str) -> u32 {
        self.jobs.remove(id).map_or(0, |job| {
            self.leave(&job);
            job.stored
        })
    }

    fn leave(&mut self, job: &Job) {
        let queue = self.queues.entry(job.envelope.queue.clone()).or_default();
        let count = queue.counts.of_mut(job.state);
        *count = count.saturating_sub(1);
        queue.ready.remove(&job.rank());
        if let Some(due_ms) = job.due_ms {
            self.due.remove(&(due_ms, job.id.clone()));
        }
    }

    fn enter(&mut self, job: &Job) {
        let queue = self.queues.entry(job.envelope.queue.clone()).or_default();
        *queue.counts.of_mut(job.state) += 1;
        if job.state == JobState::Available {
            queue.ready.insert(job.rank(), job.id.clone());
        }
        if let Some(due_ms) = job.due_ms {
            self.due.insert((due_ms, job.id.clone()));
        }
        self.changed.send_modify(|version| *version += 1);
    }
}

#[cfg(test)]
mod tests;
