//! Dead letters: jobs that have failed for good and are kept for somebody to look at.

use super::{Job, JobState, Refused, Store};

impl Store {
    /// The dead letters of a queue, or of all, oldest first: a part of them, and how many there are.
    pub(in crate::demo) fn dead_letters(
        &mut self,
        queue: Option<&str>,
        offset: usize,
        limit: usize,
    ) -> (Vec<&Job>, usize) {
        self.settle();
        let jobs = self.dead.iter().filter_map(|(_, id)| self.jobs.get(id));
        let jobs: Vec<_> = jobs.filter(|job| queue.is_none_or(|queue| job.envelope.queue == queue)).collect();
        let total = jobs.len();
        (jobs.into_iter().skip(offset).take(limit).collect(), total)
    }

    pub(in crate::demo) fn dead_letter(&mut self, id: &str) -> Option<&Job> {
        self.settle();
        self.jobs.get(id).filter(|job| job.is_dead)
    }

    /// Gives a dead letter all its attempts again; its history stays.
    pub(in crate::demo) fn retry_dead_letter(&mut self, id: &str) -> Result<&Job, Refused> {
        let now = self.settle();
        if self.dead_letter(id).is_none() {
            return Err(Refused::NotFound);
        }
        let sequence = self.next_sequence();
        self.change(id, |job| {
            // A new place in line; the old one in the list of finished jobs means this job no more.
            job.sequence = sequence;
            (job.attempt, job.retry_delay_ms, job.is_dead) = (0, None, false);
            (job.times.enqueued, job.times.started, job.times.ended) = (now, None, None);
            job.be_in(JobState::Available, None);
        })
    }

    pub(in crate::demo) fn delete_dead_letter(&mut self, id: &str) -> Result<(), Refused> {
        if self.dead_letter(id).is_none() {
            return Err(Refused::NotFound);
        }
        self.forget(id);
        self.changed.send_modify(|version| *version += 1);
        Ok(())
    }
}
