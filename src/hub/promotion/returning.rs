//! The lost region is back: the copies of moved jobs are cancelled there, before the region gets traffic.

use std::cell::RefCell;
use std::collections::HashMap;

use super::super::record::{JobStep, PromotionJob, RecordError};
use super::super::target::Word;
use super::moving::Mover;
use super::plan::Why;
use super::{Promotion, Stage};
use crate::telemetry::event;

/// Copies that are cancelled in one step.
const JOBS_AT_ONCE: usize = 100;
/// Jobs one after the other without a word of a region; then it is left alone for a while.
const SILENT_MAX: u32 = 3;
/// A copy that the region refuses to cancel so often stays, and is reported.
const REFUSALS_MAX: u8 = 5;

/// How often a region has refused to cancel a copy, by the job, since this hub has started.
#[derive(Debug, Default)]
pub(super) struct Refusals(RefCell<HashMap<String, u8>>);

impl Refusals {
    /// Notes one. Returns whether it was the last one.
    fn note(&self, job_id: &str) -> bool {
        let mut all = self.0.borrow_mut();
        let count = all.entry(job_id.to_owned()).or_default();
        *count += 1;
        let is_last = *count >= REFUSALS_MAX;
        if is_last {
            all.remove(job_id);
        }
        is_last
    }
}

/// A decision about the copy in the region that came back, or why there is none yet.
type Decided = Result<JobStep, String>;

impl Mover<'_> {
    /// Cancels the next copies. Returns the promotion as it is behind them.
    ///
    /// Errors: it goes on from the record.
    pub(super) async fn go_back(&self, refusals: &Refusals) -> Result<Promotion, RecordError> {
        let promotion = self.promotion;
        // A job that was not sent yet is in a region that works again.
        self.hub.record.leave_promotion_jobs(&promotion.id, Why::RegionReturned.as_str()).await?;
        let (is_open, mut trouble) = self.settle().await?;
        let first = (0, String::new());
        let jobs = self.hub.record.promotion_jobs(&promotion.id, &[JobStep::Moved], first, JOBS_AT_ONCE).await?;
        let is_over = jobs.is_empty() && !is_open;
        let mut silent = 0;
        for job in jobs {
            match self.decide(&job, refusals).await? {
                Ok(step) => {
                    silent = 0;
                    self.note(job, step).await?;
                }
                Err(why) => {
                    trouble = Some(why);
                    silent += 1;
                    if silent >= SILENT_MAX {
                        break;
                    }
                }
            }
        }
        let stage = if is_over { Stage::Done } else { Stage::Returning };
        Ok(Promotion { stage, trouble, ..promotion.clone() })
    }

    async fn note(&self, job: PromotionJob, step: JobStep) -> Result<(), RecordError> {
        let (from, to) = (self.promotion.from.as_str(), self.promotion.to.as_str());
        if matches!(step, JobStep::Doubled | JobStep::Kept) {
            event::promotion_doubled(&job.job_id, from, to);
        }
        let next = PromotionJob { step: step.as_str().to_owned(), ..job };
        self.has_advanced.set(true);
        self.hub.record.advance_promotion_job(&self.promotion.id, JobStep::Moved, next, None).await.map(drop)
    }

    /// Decides about the copy of a job in the region that came back: it is cancelled, unless a worker has had it, or the region that took the job
    /// has lost it.
    async fn decide(&self, job: &PromotionJob, refusals: &Refusals) -> Result<Decided, RecordError> {
        let (from, to) = (&self.promotion.from, &self.promotion.to);
        let state = match self.regions.look(self.views, from, &job.job_id).await {
            Word::Has { state, .. } => state,
            Word::Absent => return Ok(Ok(JobStep::Gone)),
            Word::Refused(_) if refusals.note(&job.job_id) => return Ok(Ok(JobStep::Doubled)),
            Word::Refused(status) => return Ok(Err(format!("{from} answers {status} about job {}", job.job_id))),
            Word::Other(_) => return Ok(Err(format!("{from} shows another job than {}", job.job_id))),
            Word::NotSent(why) | Word::Silent(why) => return Ok(Err(why)),
        };
        match state.as_str() {
            "scheduled" | "available" | "pending" | "retryable" => {}
            "cancelled" => return Ok(Ok(JobStep::Cancelled)),
            "" => return Ok(Err(format!("{from} shows no state of job {}", job.job_id))),
            _ => return Ok(Ok(JobStep::Doubled)),
        }
        let there = job.detail.as_deref().unwrap_or(&job.job_id);
        match self.regions.look(self.views, to, there).await {
            Word::Has { .. } => {}
            Word::Absent if self.has_ended(there).await? => {}
            Word::Absent => return Ok(Ok(JobStep::Kept)),
            Word::Refused(_) | Word::Other(_) => return Ok(Err(format!("{to} does not show job {there}"))),
            Word::NotSent(why) | Word::Silent(why) => return Ok(Err(why)),
        }
        Ok(match self.regions.cancel(self.views, from, &job.job_id).await {
            Word::Has { state, .. } if state == "cancelled" => Ok(JobStep::Cancelled),
            Word::Refused(_) if refusals.note(&job.job_id) => Ok(JobStep::Doubled),
            // A worker was first, or the answer shows nothing: the next look says which.
            _ => Err(format!("{from} has not said that job {} is cancelled", job.job_id)),
        })
    }

    /// Whether the index has the end of a job in the region that took it.
    async fn has_ended(&self, job_id: &str) -> Result<bool, RecordError> {
        let copies = self.copies(job_id).await?;
        let is_end = |state: &str| matches!(state, "completed" | "cancelled" | "discarded");
        Ok(copies.iter().any(|it| it.region == self.promotion.to && is_end(&it.state)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_given_up_after_some_refusals_and_others_are_counted_apart() {
        let refusals = Refusals::default();
        let last: Vec<bool> = (0..REFUSALS_MAX).map(|_| refusals.note("a")).collect();
        assert_eq!(last, [false, false, false, false, true]);
        assert!(!refusals.note("b") && !refusals.note("a"));
    }
}
