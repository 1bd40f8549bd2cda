//! Operators' actions on jobs and queues, and workers' notes beside their jobs.

use super::super::kept::{Kept, Seen};
use super::super::members::Raw;
use super::super::notes::{Checkpoint, Progress};
use super::{Job, JobState, Store};
use crate::act::Act;
use crate::refused::Refused;

impl Store {
    /// The state besides the jobs.
    pub(crate) const fn kept(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// Applies an operation on many to one job: an active one is left to its worker, and only an ended one is deleted.
    pub(crate) fn apply(&mut self, act: Act, id: &str) -> Result<(), Refused> {
        self.settle();
        match act {
            Act::Retry => {
                self.check(id, |state| matches!(state, JobState::Discarded | JobState::Retryable))?;
                self.revive(id).map(|_| ())
            }
            Act::Cancel => {
                self.check(id, |state| state != JobState::Active)?;
                self.cancel(id).map(|_| ())
            }
            Act::Delete => {
                self.check(id, JobState::is_terminal)?;
                self.remove(id);
                Ok(())
            }
        }
    }

    /// An operator's wish that a job be tried again; servers in Go know it of dead letters only.
    pub(crate) fn retry(&mut self, id: &str) -> Result<&Job, Refused> {
        self.settle();
        if self.dialect.in_go() {
            return self.retry_dead_letter(id);
        }
        let again = [JobState::Discarded, JobState::Cancelled, JobState::Retryable];
        self.check(id, |state| again.contains(&state))?;
        self.revive(id)
    }

    /// Gives a job all its attempts again; its history stays.
    pub(super) fn revive(&mut self, id: &str) -> Result<&Job, Refused> {
        let now = self.settle();
        let sequence = self.next_sequence();
        self.change(id, |job| {
            // A new place in line; the old one in the list of finished jobs means this job no more.
            job.sequence = sequence;
            (job.attempt, job.retry_delay_ms, job.is_dead, job.is_expired) = (0, None, false, false);
            (job.times.enqueued, job.times.started, job.times.ended) = (now, None, None);
            job.be_in(JobState::Available, None);
        })
    }

    /// Takes a job out for good.
    pub(super) fn remove(&mut self, id: &str) {
        self.forget(id);
        self.changed.send_modify(|version| *version += 1);
    }

    /// Gives a job that waits another priority, and says which one it had.
    pub(crate) fn set_priority(&mut self, id: &str, priority: i64) -> Result<(i64, &Job), Refused> {
        self.settle();
        self.check(id, |state| matches!(state, JobState::Available | JobState::Scheduled | JobState::Pending))?;
        let mut previous = 0;
        let job = self.change(id, |job| previous = std::mem::replace(&mut job.envelope.priority, priority))?;
        Ok((previous, job))
    }

    /// Notes how far an active job has come, which is a sign of life too. Of any other it is passed over, since the note may only
    /// have been overtaken.
    pub(crate) fn note_progress(&mut self, id: &str, progress: Progress) -> Option<&Job> {
        self.settle();
        if self.jobs.get(id)?.state == JobState::Active {
            self.alter(id, |job| job.notes.progress = Some(progress));
            self.heartbeat(vec![id.to_owned()], None);
        }
        self.jobs.get(id)
    }

    /// Notes where an active job can be taken up again.
    pub(crate) fn note_checkpoint(&mut self, id: &str, state: Raw) -> Result<&Job, Refused> {
        let at_ms = self.settle();
        self.check(id, |state| state == JobState::Active)?;
        self.change(id, |job| {
            let sequence = job.notes.checkpoint.as_ref().map_or(1, |last| last.sequence + 1);
            job.notes.checkpoint = Some(Checkpoint { state, sequence, at_ms });
        })
    }

    /// Forgets it; false when there is none.
    pub(crate) fn drop_checkpoint(&mut self, id: &str) -> bool {
        self.settle();
        self.jobs.get_mut(id).is_some_and(|job| job.notes.checkpoint.take().is_some())
    }

    /// Takes the jobs of a queue that are in one of these states out for good, and says how many there were.
    pub(crate) fn purge(&mut self, queue: &str, states: &[JobState]) -> usize {
        self.settle();
        let wanted = |job: &&Job| job.envelope.queue == queue && states.contains(&job.state);
        let ids: Vec<String> = self.jobs.values().filter(wanted).map(|job| job.id.clone()).collect();
        ids.iter().for_each(|id| self.remove(id));
        ids.len()
    }

    /// Takes a queue out with everything in it, and says how many jobs were not over yet.
    ///
    /// Errors: [`Refused::Conflict`] unless `discarding` when there are any, [`Refused::NotFound`].
    pub(crate) fn delete_queue(&mut self, name: &str, discarding: bool) -> Result<usize, Refused> {
        if !self.has_queue(name) {
            return Err(Refused::NotFound);
        }
        let open: Vec<JobState> = JobState::ALL.into_iter().filter(|state| !state.is_terminal()).collect();
        let held = self.jobs.values().find(|job| job.envelope.queue == name && !job.state.is_terminal());
        if let Some(job) = held.filter(|_| !discarding) {
            return Err(Refused::Conflict(job.state));
        }
        let affected = self.purge(name, &open);
        self.purge(name, &JobState::ALL);
        self.queues.remove(name);
        self.kept.configs.take(name);
        self.changed.send_modify(|version| *version += 1);
        Ok(affected)
    }

    /// Whether a queue was used or configured.
    pub(crate) fn has_queue(&mut self, name: &str) -> bool {
        self.settle();
        self.queues.contains_key(name) || self.kept.configs.get(name).is_some()
    }

    /// A job to be changed beside its state.
    pub(crate) fn job_mut(&mut self, id: &str) -> Option<&mut Job> {
        self.settle();
        self.jobs.get_mut(id)
    }

    /// Every job, in no order.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = &Job> {
        self.settle();
        self.jobs.values()
    }

    /// Notes whether a worker has said that it fetches no more.
    pub(crate) fn drains(&mut self, worker_id: &str, is_draining: bool) {
        self.saw(worker_id, &[]);
        if let Some(seen) = self.kept.workers.get_mut(worker_id) {
            seen.is_draining = is_draining;
        }
    }

    /// Notes that a worker has shown itself.
    pub(crate) fn saw(&mut self, worker_id: &str, queues: &[String]) {
        let now = self.clock.unix_ms();
        let workers = &mut self.kept.workers;
        if workers.get(worker_id).is_none() {
            workers.put(worker_id, Seen { queues: Vec::new(), first_ms: now, last_ms: now, is_draining: false });
        }
        if let Some(seen) = workers.get_mut(worker_id) {
            seen.last_ms = now;
            seen.names(queues);
        }
    }
}
