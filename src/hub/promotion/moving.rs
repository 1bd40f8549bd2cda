//! Enqueues the planned jobs of a promotion at the region of the hub, one after the other, the oldest first.
//!
//! Servers overwrite a job whose id is enqueued again. So a job is looked for before its first byte is sent, and a job that may have been
//! sent is looked for until a write cannot be on its way any more.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::super::record::{JobStep, PromotionJob, RecordError, Wanted};
use super::super::state::Hub;
use super::super::target::{Regions, Word};
use super::super::views::Views;
use super::bytes::sendable_of;
use super::plan::Why;
use super::planning::why_left;
use super::{Promotion, Stage};
use crate::replica::{Change, ChangeKind, Copy, JobFacts, Record};

/// How long one step enqueues jobs before its hub says that it goes on.
const STEP: Duration = Duration::from_secs(1);
/// Jobs that are read from the record at a time.
const JOBS_AT_ONCE: usize = 100;
/// A write that began so long ago has reached its region or never will. Longer than a region has for its answer. Units: milliseconds.
const WRITE_MS: u64 = 30_000;
/// From the note that a job is sent to its first byte; a process that was stopped in between sends nothing.
const SEND_WITHIN: Duration = Duration::from_secs(5);
/// A job that may have been sent so often and was never found is left to people.
const SENDS_MAX: u64 = 3;
/// Jobs one after the other without a word of the region; then it is left alone for a while.
const SILENT_MAX: u32 = 3;

/// The carrying out of one promotion by this hub.
pub(super) struct Mover<'a> {
    pub(super) hub: &'a Hub,
    pub(super) views: &'a Views,
    pub(super) regions: &'a Regions,
    pub(super) promotion: &'a Promotion,
    /// The version of the promotion in the record: a job is only sent while it has this one.
    pub(super) version: u64,
    /// The time at the record. Units: milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// Whether a job has come to another step.
    pub(super) has_advanced: Cell<bool>,
}

/// The end of one try.
enum Tried {
    /// The job came to another step.
    Advanced,
    /// The region says nothing about it; why.
    Silent(String),
    /// Someone has changed the promotion.
    Behind,
}

impl Mover<'_> {
    /// Enqueues jobs for a second. Returns the promotion as it is behind them.
    ///
    /// Errors: it goes on from the record.
    pub(super) async fn go_on(&self) -> Result<Promotion, RecordError> {
        let promotion = self.promotion;
        let (mut is_open, mut trouble) = self.settle().await?;
        if promotion.is_stopped {
            self.hub.record.leave_promotion_jobs(&promotion.id, Why::Stopped.as_str()).await?;
        } else {
            let (more, silent) = self.take_some().await?;
            (is_open, trouble) = (is_open || more, trouble.or(silent));
        }
        let stage = if is_open { Stage::Moving } else { Stage::Moved };
        Ok(Promotion { stage, trouble, ..promotion.clone() })
    }

    /// Takes planned jobs for a second. Returns whether there were any, and why it broke off.
    async fn take_some(&self) -> Result<(bool, Option<String>), RecordError> {
        let (began, pace) = (self.hub.clock.now(), Duration::from_secs(1) / self.promotion.rate.max(1));
        let (mut is_open, mut silent, mut after) = (false, 0, (0, String::new()));
        loop {
            let id = &self.promotion.id;
            let jobs = self.hub.record.promotion_jobs(id, &[JobStep::Planned], after, JOBS_AT_ONCE).await?;
            let Some(last) = jobs.last() else { return Ok((is_open, None)) };
            is_open = true;
            after = (last.enqueued_ms, last.job_id.clone());
            for job in jobs {
                if self.hub.clock.now().saturating_duration_since(began) >= STEP {
                    return Ok((true, None));
                }
                match self.take(job).await? {
                    Tried::Advanced => silent = 0,
                    Tried::Behind => return Ok((true, None)),
                    Tried::Silent(why) => {
                        silent += 1;
                        if silent >= SILENT_MAX {
                            return Ok((true, Some(why)));
                        }
                    }
                }
                self.hub.clock.sleep(pace).await;
            }
        }
    }

    /// Looks for the jobs whose answers were lost. Returns whether one is still open, and why.
    ///
    /// Errors: it goes on from the record.
    pub(super) async fn settle(&self) -> Result<(bool, Option<String>), RecordError> {
        let (id, first) = (&self.promotion.id, (0, String::new()));
        let (mut is_open, mut silent, mut trouble) = (false, 0, None);
        for job in self.hub.record.promotion_jobs(id, &[JobStep::Sending], first, JOBS_AT_ONCE).await? {
            is_open = true;
            let Tried::Silent(why) = self.resume(job).await? else {
                silent = 0;
                continue;
            };
            (silent, trouble) = (silent + 1, Some(why));
            if silent >= SILENT_MAX {
                break;
            }
        }
        Ok((is_open, trouble))
    }

    /// Gives up the jobs whose answers were lost and whose region does not say whether it has them, once no write can be on its way.
    ///
    /// Errors: it goes on from the record.
    pub(super) async fn give_up(&self) -> Result<(), RecordError> {
        let (id, first) = (&self.promotion.id, (0, String::new()));
        for job in self.hub.record.promotion_jobs(id, &[JobStep::Sending], first, JOBS_AT_ONCE).await? {
            if self.now_ms.saturating_sub(job.changed_ms) > WRITE_MS {
                self.leave(JobStep::Sending, job, Why::Unknown, None).await?;
            }
        }
        Ok(())
    }

    /// Enqueues a planned job.
    async fn take(&self, job: PromotionJob) -> Result<Tried, RecordError> {
        let copies = self.copies(&job.job_id).await?;
        let Some(copy) = copies.iter().find(|it| it.region == self.promotion.from) else {
            return self.leave(JobStep::Planned, job, Why::Unknown, None).await;
        };
        if job.sends > 0 && copies.iter().any(|it| it.region == self.promotion.to) {
            return self.moved(JobStep::Planned, job, (None, None)).await;
        }
        // The index may have learnt of its end since it was planned.
        if let Some(why) =
            why_left(self.hub, self.promotion, std::slice::from_ref(copy)).await?.into_iter().flatten().next()
        {
            return self.leave(JobStep::Planned, job, why, None).await;
        }
        let Some(sendable) = sendable_of(self.hub, &job.job_id, &self.promotion.from).await? else {
            return self.leave(JobStep::Planned, job, Why::NoBytes, None).await;
        };
        match self.regions.look(self.views, &self.promotion.to, &job.job_id).await {
            Word::Has { state, enqueued_ms, .. } if job.sends > 0 => {
                return self.moved(JobStep::Planned, job, (Some(state), enqueued_ms)).await;
            }
            Word::Has { .. } | Word::Other(_) => {
                return self.leave(JobStep::Planned, job, Why::AlreadyThere, None).await;
            }
            Word::Absent if job.sends >= SENDS_MAX => {
                return self.leave(JobStep::Planned, job, Why::Unknown, None).await;
            }
            Word::Absent => {}
            Word::Refused(status) => {
                return self.leave(JobStep::Planned, job, Why::Refused, Some(status.as_u16().to_string())).await;
            }
            Word::NotSent(why) | Word::Silent(why) => return Ok(Tried::Silent(why)),
        }
        let sending = PromotionJob { step: JobStep::Sending.as_str().to_owned(), sends: job.sends + 1, ..job };
        let noting = Instant::now();
        if !self.advance(JobStep::Planned, sending.clone(), Some(self.version)).await? {
            return Ok(Tried::Behind);
        }
        if noting.elapsed() > SEND_WITHIN {
            return self.again(unsent(sending)).await;
        }
        let id = sending.job_id.clone();
        match self.regions.store(self.views, &self.promotion.to, &id, sendable).await {
            Word::Has { state, enqueued_ms, .. } => {
                self.moved(JobStep::Sending, sending, (Some(state), enqueued_ms)).await
            }
            Word::Other(other) => {
                let detail = Some(other).filter(|it| !it.is_empty());
                self.moved(JobStep::Sending, PromotionJob { detail, ..sending }, (None, None)).await
            }
            Word::Refused(status) => self.refused(sending, status.as_u16()).await,
            Word::NotSent(why) => self.again(unsent(sending)).await.map(|_| Tried::Silent(why)),
            Word::Absent => Ok(Tried::Advanced),
            Word::Silent(why) => Ok(Tried::Silent(why)),
        }
    }

    /// A job that its region refuses: an earlier copy of it may be the cause.
    async fn refused(&self, sending: PromotionJob, status: u16) -> Result<Tried, RecordError> {
        match self.regions.look(self.views, &self.promotion.to, &sending.job_id).await {
            Word::Has { state, enqueued_ms, .. } => {
                self.moved(JobStep::Sending, sending, (Some(state), enqueued_ms)).await
            }
            Word::NotSent(why) | Word::Silent(why) => Ok(Tried::Silent(why)),
            _ => self.leave(JobStep::Sending, sending, Why::Refused, Some(status.to_string())).await,
        }
    }

    /// Looks for a job that may have been sent: it was moved, or is planned again once no write can be on its way.
    async fn resume(&self, job: PromotionJob) -> Result<Tried, RecordError> {
        match self.regions.look(self.views, &self.promotion.to, &job.job_id).await {
            Word::Has { state, enqueued_ms, .. } => self.moved(JobStep::Sending, job, (Some(state), enqueued_ms)).await,
            Word::Absent if self.now_ms.saturating_sub(job.changed_ms) > WRITE_MS => self.again(job).await,
            Word::Absent | Word::Refused(_) | Word::Other(_) => Ok(Tried::Advanced),
            Word::NotSent(why) | Word::Silent(why) => Ok(Tried::Silent(why)),
        }
    }

    /// Notes in the index and in the plan that the region of the hub has the job, in this state and from this time on, where it says so.
    async fn moved(
        &self,
        from: JobStep,
        job: PromotionJob,
        (state, enqueued_ms): (Option<String>, Option<u64>),
    ) -> Result<Tried, RecordError> {
        let lost = self.copies(&job.job_id).await?.into_iter().find(|it| it.region == self.promotion.from);
        let now_ms = self.hub.clock.unix_ms();
        // Without a description it is not known whether the job is bound, and nothing says that it is free.
        let described = lost.as_ref().and_then(|it| it.job.clone());
        let created = Change {
            job_id: job.detail.clone().unwrap_or_else(|| job.job_id.clone()),
            region: self.promotion.to.clone(),
            kind: ChangeKind::Created,
            lease_ms: 0,
            at_ms: now_ms,
            federation_id: lost.and_then(|it| it.federation_id),
            state: state.filter(|state| !state.is_empty()),
            replicated_from: None,
            job: described.map(|it| JobFacts { enqueued_ms: Some(enqueued_ms.unwrap_or(now_ms)), ..it }),
            observed_by: None,
        };
        self.hub.record.save_changes(self.promotion.to.as_str(), vec![created], None).await?;
        let moved = PromotionJob { step: JobStep::Moved.as_str().to_owned(), ..job };
        self.advance(from, moved, None).await.map(|_| Tried::Advanced)
    }

    /// The job is to be sent again. That it may have been sent stays on its row.
    async fn again(&self, sending: PromotionJob) -> Result<Tried, RecordError> {
        let planned = PromotionJob { step: JobStep::Planned.as_str().to_owned(), ..sending };
        self.advance(JobStep::Sending, planned, None).await.map(|_| Tried::Advanced)
    }

    async fn leave(
        &self,
        from: JobStep,
        job: PromotionJob,
        why: Why,
        detail: Option<String>,
    ) -> Result<Tried, RecordError> {
        let (step, why) = (JobStep::Left.as_str().to_owned(), Some(why.as_str().to_owned()));
        self.advance(from, PromotionJob { step, why, detail, ..job }, None).await.map(|_| Tried::Advanced)
    }

    async fn advance(&self, from: JobStep, to: PromotionJob, version: Option<u64>) -> Result<bool, RecordError> {
        // A try that is planned again is no progress.
        let is_end = !matches!(to.step.as_str(), "planned" | "sending");
        let is_advanced = self.hub.record.advance_promotion_job(&self.promotion.id, from, to, version).await?;
        if is_advanced && is_end {
            self.has_advanced.set(true);
        }
        Ok(is_advanced)
    }

    /// The copies of a job that the index has.
    pub(super) async fn copies(&self, job_id: &str) -> Result<Vec<Copy>, RecordError> {
        let facts = self.hub.record.find_changes(Wanted::Job(job_id.to_owned())).await?;
        Ok(Record::of(facts.into_iter().map(|it| it.change)).copies)
    }
}

/// A job that has certainly not been sent by this try.
fn unsent(sending: PromotionJob) -> PromotionJob {
    PromotionJob { sends: sending.sends.saturating_sub(1), ..sending }
}
