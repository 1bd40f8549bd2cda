//! Jobs that no sidecar describes, with the steps that wait until their region has shown them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::taken_step::TakenStep;

/// For the report of a sidecar to come first: sidecars report within a quarter of a second, and their report says also whether a rule binds the job.
const REPORT_WAIT: Duration = Duration::from_secs(2);
/// Between two questions about a job that its region does not answer, and how often it is asked.
const ASK_AGAIN: Duration = Duration::from_secs(5);
const TRIES_MAX: u32 = 12;
/// Jobs that wait, and steps of all of them, of some 200 bytes each. Beyond, no event is read.
const JOBS_MAX: usize = 2_000;
const STEPS_MAX: usize = 8_000;

/// One job.
#[derive(Debug)]
pub(super) struct LaterJob {
    pub(super) job_id: String,
    pub(super) steps: Vec<TakenStep>,
    due: Instant,
    tries: u32,
}

/// The jobs that wait.
#[derive(Debug, Default)]
pub(super) struct Later {
    jobs: BTreeMap<String, LaterJob>,
    steps: usize,
}

impl Later {
    /// Whether no further job is to be taken in.
    pub(super) fn is_full(&self) -> bool {
        self.jobs.len() >= JOBS_MAX || self.steps >= STEPS_MAX
    }

    /// The number of steps.
    pub(super) const fn steps(&self) -> usize {
        self.steps
    }

    /// Whether a job waits.
    pub(super) fn has(&self, job_id: &str) -> bool {
        self.jobs.contains_key(job_id)
    }

    /// When the oldest step was read.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.jobs.values().filter_map(|it| it.steps.first()).map(|it| it.heard).min()
    }

    /// Adds a step of a job, which is due after a wait for the report of a sidecar.
    pub(super) fn add(&mut self, step: TakenStep, now: Instant) {
        self.steps += 1;
        let job_id = step.job_id.clone();
        let new = || LaterJob { job_id: job_id.clone(), steps: Vec::new(), due: now + REPORT_WAIT, tries: 0 };
        self.jobs.entry(job_id.clone()).or_insert_with(new).steps.push(step);
    }

    /// When the first job is due.
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.jobs.values().map(|it| it.due).min()
    }

    /// Takes at most so many jobs that are due, those that were due first before the others.
    pub(super) fn take_due(&mut self, now: Instant, max: usize) -> Vec<LaterJob> {
        let mut due: Vec<(Instant, String)> =
            self.jobs.values().filter(|it| it.due <= now).map(|it| (it.due, it.job_id.clone())).collect();
        due.sort_unstable();
        let jobs: Vec<LaterJob> = due.iter().take(max).filter_map(|(_, id)| self.jobs.remove(id)).collect();
        self.steps -= jobs.iter().map(|it| it.steps.len()).sum::<usize>();
        jobs
    }

    /// Puts a job back that its region has not shown. `Err` with the job where it was asked often enough.
    pub(super) fn put_back(&mut self, job: LaterJob, now: Instant) -> Result<(), LaterJob> {
        let tries = job.tries + 1;
        if tries >= TRIES_MAX {
            return Err(job);
        }
        self.steps += job.steps.len();
        self.jobs.insert(job.job_id.clone(), LaterJob { due: now + ASK_AGAIN, tries, ..job });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ojs::job_events::JobStep;

    fn step(job: usize, heard: Instant) -> TakenStep {
        TakenStep { job_id: format!("job-{job}"), step: JobStep::Started, at_ms: 1, is_timed: true, heard }
    }

    #[test]
    fn a_job_is_due_behind_the_wait_for_a_report_and_is_asked_about_a_bounded_number_of_times() {
        let (mut later, begun) = (Later::default(), Instant::now());
        later.add(step(1, begun), begun);
        later.add(step(1, begun), begun);
        assert!(later.has("job-1") && later.take_due(begun, 9).is_empty() && later.steps() == 2);
        let mut now = begun + REPORT_WAIT;
        assert_eq!((later.first_due(), later.oldest()), (Some(now), Some(begun)));
        let mut tries = 0;
        loop {
            let mut due = later.take_due(now, 9);
            assert_eq!((due.len(), later.steps()), (1, 0));
            tries += 1;
            if let Err(job) = later.put_back(due.remove(0), now) {
                assert_eq!((job.steps.len(), tries), (2, TRIES_MAX));
                break;
            }
            assert!(later.take_due(now, 9).is_empty());
            now += ASK_AGAIN;
        }
        assert!(!later.has("job-1") && later.first_due().is_none());
    }

    #[test]
    fn jobs_and_steps_are_bounded_and_are_taken_in_parts() {
        let (mut later, now) = (Later::default(), Instant::now());
        (0..JOBS_MAX).for_each(|job| later.add(step(job, now), now));
        assert!(later.is_full());
        assert_eq!(later.take_due(now + REPORT_WAIT, 8).len(), 8);
        assert!(!later.is_full());
        let mut two = Later::default();
        two.add(step(1, now), now + REPORT_WAIT);
        two.add(step(2, now), now);
        assert_eq!(two.take_due(now + REPORT_WAIT * 3, 1)[0].job_id, "job-2");
        (0..STEPS_MAX).for_each(|_| later.add(step(0, now), now));
        assert!(later.is_full());
    }
}
