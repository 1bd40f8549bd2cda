//! Attempts that fail: by a worker's report, or by its silence.

use super::super::failure::{Failure, Wish};
use super::{Dialect, Job, JobState, Store};
use crate::refused::Refused;

/// The fate of a job after a failed attempt.
enum Verdict {
    Retry,
    Discard,
    DeadLetter,
}

impl Store {
    /// A worker's word that its attempt has failed.
    pub(crate) fn nack(&mut self, id: &str, failure: &Failure) -> Result<&Job, Refused> {
        let now = self.settle();
        self.check(id, |state| state == JobState::Active)?;
        if failure.requeue {
            return self.change(id, |job| {
                job.note(failure, now);
                job.be_in(JobState::Available, None);
            });
        }
        self.fail(id, failure)
    }

    /// An active job whose time is over: its attempt took too long, or its worker was silent.
    pub(super) fn lapse(&mut self, id: &str) {
        let at_ms = self.at_ms;
        let Some(job) = self.jobs.get(id) else { return };
        let is_timeout = job.lease.and_then(|lease| lease.timeout_ms).is_some_and(|timeout_ms| timeout_ms <= at_ms);
        let exhausted = is_exhausted(job);
        if is_timeout {
            let failure = Failure::lapsed("timeout", "the attempt took longer than the job allows");
            let failed = self.fail(id, &failure);
            debug_assert!(failed.is_ok(), "the id comes from the store itself");
            return;
        }
        let failure = Failure::lapsed("stalled", "the worker was not heard of within the visibility timeout");
        // Without a bound, a job that kills its worker would kill one worker after the other.
        if self.dialect == Dialect::Spec && exhausted {
            let failed = self.fail(id, &failure);
            debug_assert!(failed.is_ok(), "the id comes from the store itself");
            return;
        }
        let keeps_record = self.dialect == Dialect::Spec;
        self.alter(id, |job| {
            if keeps_record {
                job.note(&failure, at_ms);
            }
            job.times.started = None;
            job.be_in(JobState::Available, None);
        });
    }

    fn fail(&mut self, id: &str, failure: &Failure) -> Result<&Job, Refused> {
        let at_ms = self.at_ms;
        if self.dialect == Dialect::Redis {
            self.alter(id, |job| job.attempt += 1);
        }
        let verdict = self.jobs.get(id).map(|job| verdict(job, failure)).ok_or(Refused::NotFound)?;
        let keeps_dead = match verdict {
            Verdict::Retry => {
                let mut draw = self.draw;
                let retried = self.change(id, |job| {
                    job.note(failure, at_ms);
                    let delay = job.envelope.retry.delay(job.attempt, &mut draw);
                    let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
                    job.retry_delay_ms = Some(delay_ms);
                    job.be_in(JobState::Retryable, Some(at_ms.saturating_add(delay_ms)));
                });
                retried?;
                self.draw = draw;
                return self.jobs.get(id).ok_or(Refused::NotFound);
            }
            Verdict::Discard => false,
            Verdict::DeadLetter => true,
        };
        self.end(id, JobState::Discarded, |job| {
            job.note(failure, at_ms);
            job.is_dead = keeps_dead;
        })
    }
}

const fn is_exhausted(job: &Job) -> bool {
    job.attempt >= job.envelope.retry.attempts_max
}

fn verdict(job: &Job, failure: &Failure) -> Verdict {
    let retry = &job.envelope.retry;
    match failure.wish() {
        Wish::Discard => return Verdict::Discard,
        Wish::DeadLetter => return Verdict::DeadLetter,
        Wish::Policy => {}
    }
    if failure.retryable && !is_exhausted(job) && !failure.kinds().any(|kind| retry.is_fatal(&kind)) {
        return Verdict::Retry;
    }
    if retry.keeps_dead { Verdict::DeadLetter } else { Verdict::Discard }
}
