//! The region's state: jobs, queues and definitions, as a state machine that knows time only through its clock.
//!
//! Due changes (leases, delays, back-offs) are settled before every operation, each at the moment when it was due and
//! not at the moment of the question, so that the outcome does not depend on the frequency of questions.

mod admin;
mod bounds;
mod cron;
mod dead;
mod failing;
mod idempotency;
mod limits;
mod lists;
mod parts;
mod queues;
mod unique;
mod work;
mod workflow;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use bytes::Bytes;
use tokio::sync::watch;
use uuid::Uuid;

use super::dialect::{Dialect, DuplicateIds};
use super::envelope::Envelope;
use super::events::EventLog;
use super::flow::Flow;
use super::job::{Job, Jobs, Times};
use super::kept::Kept;
use super::queue::Queue;
use super::refused::Refused;
use super::state::JobState;
use super::workflow::Membership;
use ojs_handles::{Clock, Draw};

pub(super) use idempotency::Known;
pub(super) use lists::WorkerView;
pub use parts::Directive;
use parts::{Answers, Crons, Keys, Workflows};
pub(super) use work::Claim;

/// How many finished jobs are usually kept, so that a demo that runs for days does not grow.
pub(super) const FINISHED_MAX: usize = 100_000;

/// How many definitions are kept as they were submitted, for the same reason.
const DEFINITIONS_MAX: usize = 10_000;

/// A cron job or a workflow as it was submitted.
#[derive(Debug, Clone)]
pub struct Definition {
    /// `cron` or `workflows`.
    pub kind: &'static str,
    /// The text as it was submitted.
    pub source: Bytes,
}

#[derive(Debug)]
pub(super) struct Store {
    clock: Clock,
    dialect: Dialect,
    duplicate_ids: DuplicateIds,
    finished_max: usize,
    draw: Draw,
    /// The moment that is being settled or served.
    at_ms: u64,
    /// The most active jobs of each queue that there were at once.
    most_active: HashMap<String, usize>,
    jobs: HashMap<String, Job>,
    queues: BTreeMap<String, Queue>,
    due: BTreeSet<(u64, String)>,
    finished: VecDeque<(u64, String)>,
    /// The dead letters, in the order in which they died.
    dead: BTreeSet<(u64, String)>,
    events: EventLog,
    flow: Flow,
    directives: HashMap<String, Directive>,
    kept: Kept,
    definitions: VecDeque<Definition>,
    crons: Crons,
    workflows: Workflows,
    keys: Keys,
    answers: Answers,
    next_sequence: u64,
    changed: watch::Sender<u64>,
}

impl Store {
    pub(super) fn new(clock: Clock, dialect: Dialect) -> Self {
        Self {
            at_ms: clock.unix_ms(),
            draw: Draw::from_seed(clock.unix_ms()),
            clock,
            dialect,
            duplicate_ids: dialect.duplicate_ids(),
            finished_max: FINISHED_MAX,
            most_active: HashMap::new(),
            jobs: HashMap::new(),
            queues: BTreeMap::new(),
            due: BTreeSet::new(),
            finished: VecDeque::new(),
            dead: BTreeSet::new(),
            events: EventLog::default(),
            flow: Flow::default(),
            directives: HashMap::new(),
            kept: Kept::default(),
            definitions: VecDeque::new(),
            crons: Crons::default(),
            workflows: Workflows::default(),
            keys: Keys::default(),
            answers: Answers::default(),
            next_sequence: 0,
            changed: watch::Sender::new(0),
        }
    }

    /// The same store, with another rule for ids that are taken, and another bound for finished jobs.
    pub(super) const fn keeping(mut self, duplicate_ids: DuplicateIds, finished_max: usize) -> Self {
        (self.duplicate_ids, self.finished_max) = (duplicate_ids, finished_max);
        self
    }

    /// Notifies of every change of any job.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The events so far.
    pub(super) fn events(&mut self) -> &EventLog {
        self.settle();
        &self.events
    }

    /// The same, for listeners.
    pub(super) fn events_mut(&mut self) -> &mut EventLog {
        self.settle();
        &mut self.events
    }

    /// Wakes all tasks that wait for a change.
    pub(super) fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// How much was done when.
    pub(super) fn flow(&mut self) -> &Flow {
        self.settle();
        &self.flow
    }

    /// In how many milliseconds something changes by itself.
    pub(super) fn due_in_ms(&self) -> Option<u64> {
        self.next_due_ms().map(|due_ms| due_ms.saturating_sub(self.clock.unix_ms()))
    }

    fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms).into_iter().chain(self.crons.due_ms()).min()
    }

    /// Stores a job. One that has the same id is a conflict, is the answer, or is overwritten.
    ///
    /// Errors: [`Refused::Duplicate`]; the job that is there counts the attempt all the same.
    pub(super) fn enqueue(&mut self, envelope: Envelope) -> Result<&Job, Refused> {
        self.settle();
        let Some(id) = envelope.id.clone().filter(|id| self.is_taken(id)) else {
            return Ok(self.put(envelope, None));
        };
        let there = self.jobs.get_mut(&id).ok_or(Refused::NotFound)?;
        there.stored += 1;
        if self.duplicate_ids == DuplicateIds::Same { Ok(there) } else { Err(Refused::Duplicate) }
    }

    /// Whether a new job cannot have this id.
    fn is_taken(&self, id: &str) -> bool {
        self.duplicate_ids != DuplicateIds::Overwrite && self.jobs.contains_key(id)
    }

    /// Stores a job at the moment that is being settled or served.
    fn put(&mut self, envelope: Envelope, membership: Option<Membership>) -> &Job {
        let now = self.at_ms;
        let id = envelope.id.clone().unwrap_or_else(|| Uuid::now_v7().to_string());
        let before = self.forget(&id);
        let due_ms = envelope.scheduled.as_ref().map(|at| at.unix_ms(now)).filter(|at| *at > now);
        let (state, due_ms) = match due_ms {
            _ if envelope.is_pending => (JobState::Pending, None),
            Some(_) => (JobState::Scheduled, due_ms),
            None => (JobState::Available, None),
        };
        let job = Job {
            id: id.clone(),
            envelope,
            sequence: self.next_sequence(),
            stored: before.as_ref().map_or(0, |it| it.stored) + 1,
            runs_before: before.as_ref().map_or(0, Job::runs),
            acknowledged: before.as_ref().map_or(0, |it| it.acknowledged),
            state,
            due_ms,
            lease: None,
            attempt: 0,
            retry_delay_ms: None,
            worker_id: None,
            times: Times {
                first: before.map_or(now, |it| it.times.first),
                created: now,
                enqueued: now,
                ..Times::default()
            },
            result: None,
            errors: VecDeque::new(),
            is_dead: false,
            notes: super::notes::Notes::default(),
            is_expired: false,
            membership,
        };
        self.keys.file(&job);
        self.pace(&job.envelope);
        self.count_limit(job.envelope.limit.as_ref(), now);
        self.enter(&job);
        self.events.moved(None, &job, now);
        self.flow.moved(None, &job, now);
        self.jobs.entry(id).insert_entry(job).into_mut()
    }

    /// The first of these jobs that exists already, or is earlier among them, and the id of the existing one; nothing
    /// where jobs are stored one by one, independent of those after them.
    pub(super) fn first_duplicate(&mut self, envelopes: &[Envelope]) -> Option<(usize, String)> {
        if self.dialect.in_go() {
            return None;
        }
        let (index, id) = self.clashes(envelopes).into_iter().next()?;
        let id = id.unwrap_or_default();
        let repeats_id = envelopes.get(index).is_some_and(|envelope| envelope.id.as_ref() == Some(&id));
        if let Some(there) = self.jobs.get_mut(&id).filter(|_| repeats_id) {
            there.stored += 1;
        }
        Some((index, id))
    }

    pub(super) fn job(&mut self, id: &str) -> Option<&Job> {
        self.settle();
        self.jobs.get(id)
    }

    pub(super) fn cancel(&mut self, id: &str) -> Result<&Job, Refused> {
        self.settle();
        self.check(id, |state| !state.is_terminal())?;
        self.end(id, JobState::Cancelled, |_| ())
    }

    /// Makes a job that was only put down available.
    pub(super) fn activate(&mut self, id: &str) -> Result<&Job, Refused> {
        self.settle();
        self.check(id, |state| state == JobState::Pending)?;
        self.change(id, |job| job.be_in(JobState::Available, None))
    }

    pub(super) fn define(&mut self, kind: &'static str, source: Bytes) {
        self.definitions.push_back(Definition { kind, source });
        if self.definitions.len() > DEFINITIONS_MAX {
            self.definitions.pop_front();
        }
    }

    pub(super) fn definitions(&self) -> Vec<Definition> {
        self.definitions.iter().cloned().collect()
    }

    pub(super) fn snapshot(&mut self) -> Jobs {
        self.settle();
        let mut jobs: Vec<&Job> = self.jobs.values().collect();
        jobs.sort_by_key(|job| job.sequence);
        Jobs(jobs.into_iter().map(Job::snapshot).collect())
    }

    /// Makes all due changes, each at its moment, and returns the time.
    fn settle(&mut self) -> u64 {
        let now = self.clock.unix_ms();
        while let Some(due_ms) = self.next_due_ms().filter(|due_ms| *due_ms <= now) {
            // A change that was due before it was known, such as that of a job that had expired when it came, is due
            // when it came.
            self.at_ms = self.at_ms.max(due_ms);
            match self.due.pop_first() {
                Some((first_ms, id)) if first_ms == due_ms => self.wake(&id),
                later => {
                    self.due.extend(later);
                    self.fire(now);
                }
            }
        }
        self.at_ms = now;
        now
    }

    /// Makes the due change of a job.
    fn wake(&mut self, id: &str) {
        let at_ms = self.at_ms;
        match self.jobs.get(id) {
            Some(job) if job.state == JobState::Active => self.lapse(id),
            Some(job) if job.expires_ms().is_some_and(|expires_ms| expires_ms <= at_ms) => {
                let ended = self.end(id, JobState::Discarded, |job| job.is_expired = true);
                debug_assert!(ended.is_ok(), "the id comes from the store itself");
            }
            _ => self.alter(id, |job| job.be_in(JobState::Available, None)),
        }
    }

    const fn next_sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    fn check(&self, id: &str, allowed: impl Fn(JobState) -> bool) -> Result<(), Refused> {
        let job = self.jobs.get(id).ok_or(Refused::NotFound)?;
        if allowed(job.state) { Ok(()) } else { Err(Refused::Conflict(job.state)) }
    }

    fn end(&mut self, id: &str, state: JobState, change: impl FnOnce(&mut Job)) -> Result<&Job, Refused> {
        let at_ms = self.at_ms;
        let sequence = self.jobs.get(id).map_or(0, |job| job.sequence);
        self.finished.push_back((sequence, id.to_owned()));
        if self.finished.len() > self.finished_max
            && let Some((sequence, oldest)) = self.finished.pop_front()
            && self.jobs.get(&oldest).is_some_and(|job| job.sequence == sequence)
            && let Some(job) = self.jobs.remove(&oldest)
        {
            self.keys.unfile(&job);
            self.dead.remove(&(job.died_ms().unwrap_or_default(), oldest));
        }
        let ended = self.change(id, |job| {
            change(job);
            // No worker takes the job up again. Spec: ojs-durable-execution 4.3.
            job.notes.checkpoint = None;
            job.be_in(state, None);
            job.times.ended = Some(at_ms);
        });
        ended?;
        self.follow(id);
        self.jobs.get(id).ok_or(Refused::NotFound)
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
        let was = job.state;
        change(&mut job);
        self.enter(&job);
        self.events.moved(Some(was), &job, self.at_ms);
        self.flow.moved(Some(was), &job, self.at_ms);
        Ok(self.jobs.entry(id.to_owned()).insert_entry(job).into_mut())
    }

    /// Takes a job out, if it is there.
    fn forget(&mut self, id: &str) -> Option<Job> {
        let job = self.jobs.remove(id)?;
        self.keys.unfile(&job);
        self.leave(&job);
        Some(job)
    }

    fn leave(&mut self, job: &Job) {
        let queue = self.queues.entry(job.envelope.queue.clone()).or_default();
        let count = queue.counts.of_mut(job.state);
        *count = count.saturating_sub(1);
        queue.ready.remove(&job.rank());
        if let Some(due_ms) = job.wakes_ms() {
            self.due.remove(&(due_ms, job.id.clone()));
        }
        if let Some(died_ms) = job.died_ms() {
            self.dead.remove(&(died_ms, job.id.clone()));
        }
    }

    fn enter(&mut self, job: &Job) {
        let queue = self.queues.entry(job.envelope.queue.clone()).or_default();
        *queue.counts.of_mut(job.state) += 1;
        if job.state == JobState::Available {
            queue.ready.insert(job.rank(), job.id.clone());
        }
        if let Some(due_ms) = job.wakes_ms() {
            self.due.insert((due_ms, job.id.clone()));
        }
        if let Some(died_ms) = job.died_ms() {
            self.dead.insert((died_ms, job.id.clone()));
        }
        self.changed.send_modify(|version| *version += 1);
    }
}

#[cfg(test)]
mod tests;
