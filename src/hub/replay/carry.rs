//! Takes one job of a replay from step to step.
//!
//! The id of the new job is on its row before its first byte leaves. Servers overwrite a job whose id is enqueued again, so a new job that may
//! have been sent is looked for until a write cannot be on its way any more, and is sent again only where its region does not have it.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::super::ledger::{self, NewJob};
use super::super::name::random_uuid7;
use super::super::record::{RecordError, ReplayJob, ReplayStep};
use super::super::state::Hub;
use super::super::target::Word;
use super::super::views::Views;
use super::digest::{differs, digest_of, expected_by_ledger};
use super::document::{Replay, has_ended, step_of};
use super::owner::{NoOwner, Owner, find};
use crate::base::RegionId;
use crate::base::text::{read_rfc3339, rfc3339};
use crate::ojs::answer::error_code;
use crate::ojs::{Original, Renewal, Unrepeatable};
use crate::region::JobQuestion;

/// A write that began so long ago has reached its region or never will. Longer than a region has for its answer. Units: milliseconds.
const WRITE_MS: u64 = 30_000;
/// From the note that a job is sent to its first byte; a process that was stopped in between sends nothing.
const SEND_WITHIN: Duration = Duration::from_secs(5);
/// A new job that may have been sent so often and was never found is left to people.
const SENDS_MAX: u64 = 3;
/// Behind that a region may have run and deleted a new job, so that its absence says nothing about a send. Units: milliseconds.
const TOO_LATE_MS: u64 = 15 * 60 * 1_000;
/// Before the time of the last send in the note of a job.
const SENT: &str = "sent at ";

/// The carrying out of one replay by this hub.
pub(super) struct Carrier<'a> {
    pub(super) hub: &'a Hub,
    pub(super) views: &'a Views,
    pub(super) replay: &'a Replay,
    /// The version of the replay in the record: a job is only sent while it has this one.
    pub(super) version: u64,
    /// The time at the record. Units: milliseconds since the Unix epoch.
    pub(super) now_ms: u64,
    /// Whether the time of the replay is over: a region that stays silent is waited for no longer.
    pub(super) is_over: bool,
}

/// The end of one try.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// The job came to another step, or waits for a write that may be on its way.
    Advanced,
    /// Someone has changed the replay, or this job.
    Behind,
    /// A region says nothing about it; why.
    Silent(String),
}

/// Why a job cannot be run again: the word, the status of an answer, and a sentence.
pub(super) fn explained(why: Unrepeatable, region: &RegionId) -> (&'static str, StatusCode, String) {
    match why {
        Unrepeatable::NoArguments => (
            "arguments_gone",
            StatusCode::GONE,
            format!(
                "{region} shows this job without its arguments, which it no longer has: enqueue it anew from its source"
            ),
        ),
        Unrepeatable::PinnedElsewhere => (
            "pinned_elsewhere",
            StatusCode::CONFLICT,
            format!("the job is pinned to another region than {region}, which shows it; nothing was sent"),
        ),
        Unrepeatable::Unclear(member) => (
            "unclear",
            StatusCode::CONFLICT,
            format!(
                "the answer of {region} shows the member `{member}` of this job twice, or in no form of the protocol"
            ),
        ),
        Unrepeatable::InOptions(member) => (
            "unclear",
            StatusCode::CONFLICT,
            format!(
                "{region} shows the member `{member}` of this job in its `options` alone, and a new job would lack it: enqueue it anew from its source"
            ),
        ),
        Unrepeatable::NoJob => {
            ("unclear", StatusCode::CONFLICT, format!("the answer of {region} about this job cannot be read"))
        }
    }
}

impl Carrier<'_> {
    /// Takes a job that waits.
    ///
    /// Errors: it goes on from the record.
    pub(super) async fn take(&self, job: ReplayJob) -> Result<Tried, RecordError> {
        // Another region than the one of the record could take the job a second time.
        let Ok(known) = job.region.as_deref().map(RegionId::parse).transpose() else {
            return self.lose(ReplayStep::Waiting, job, "no_region").await;
        };
        if let Some(region) = known.as_ref().filter(|_| job.new_id.is_some())
            && let Some(tried) = self.by_earlier(region, &job).await?
        {
            return Ok(tried);
        }
        if self.replay.filter.is_some() && self.replay.region.is_none() {
            // A filter finds a copy, and the job may have been done by another one.
            let copies = self.hub.record.ledger_job(job.job_id.clone()).await?;
            if copies.len() > 1 {
                let regions = copies.into_iter().filter_map(|copy| RegionId::parse(&copy.region).ok()).collect();
                let several = NoOwner::Several(regions);
                return self.refuse(ReplayStep::Waiting, job, several.word(), several.message()).await;
            }
        }
        let region = known.or_else(|| self.replay.region.clone());
        match find(self.hub, self.views, &job.job_id, region.as_ref()).await? {
            Ok(owner) => self.go_on(job, owner).await,
            Err(NoOwner::Silent(region, why)) => self.put_back(job, format!("{region}: {why}")).await,
            Err(none) => self.refuse(ReplayStep::Waiting, job, none.word(), none.message()).await,
        }
    }

    /// Ends a job that was sent before and is there, or was sent too often. `None` where it is to be sent again.
    async fn by_earlier(&self, region: &RegionId, job: &ReplayJob) -> Result<Option<Tried>, RecordError> {
        let waiting = ReplayStep::Waiting;
        match self.look(region, job).await {
            Word::Has { state, .. } => self.replayed(waiting, region, job.clone(), state).await.map(Some),
            Word::Absent if job.sends >= SENDS_MAX => self.lose(waiting, job.clone(), "never_shown").await.map(Some),
            Word::Absent if is_too_late(job, self.now_ms) => {
                self.lose(waiting, job.clone(), "too_late").await.map(Some)
            }
            Word::Absent => Ok(None),
            Word::NotSent(why) | Word::Silent(why) => self.put_back(job.clone(), why).await.map(Some),
            Word::Refused(_) | Word::Other(_) => {
                self.put_back(job.clone(), format!("{region} does not say whether it has the new job")).await.map(Some)
            }
        }
    }

    /// Goes on with a job that its region has just shown.
    ///
    /// Errors: it goes on from the record.
    pub(super) async fn go_on(&self, job: ReplayJob, owner: Owner) -> Result<Tried, RecordError> {
        let waiting = ReplayStep::Waiting;
        let job = ReplayJob { region: Some(owner.region.as_str().to_owned()), ..job };
        let original = match Original::read(&owner.shown, owner.region.as_str()) {
            Ok(original) => original,
            Err(why) => {
                let (word, _, sentence) = explained(why, &owner.region);
                return self.refuse(waiting, job, word, sentence).await;
            }
        };
        let found = digest_of(original.args());
        let is_compared = self.replay.digest.is_none() && !self.replay.is_ledger_ignored;
        let of_ledger =
            if is_compared { expected_by_ledger(self.hub, &job.job_id, &owner, &found).await? } else { None };
        let expected = [self.replay.digest.as_deref(), job.digest.as_deref(), of_ledger.as_deref()];
        let differs = expected.into_iter().find_map(|expected| differs(&found, expected));
        if let Some(differs) = differs {
            let is_of_ledger = of_ledger.as_ref() == Some(&differs.expected);
            let remedy =
                if is_of_ledger { ", unlike the ledger; `ledger`: \"ignore\" runs it again all the same" } else { "" };
            let note = format!("expected {}, and the region has {}{remedy}", differs.expected, differs.found);
            return self.refuse(waiting, job, "digest_differs", note).await;
        }
        let job = ReplayJob { digest: Some(found), why: None, detail: None, ..job };
        if self.replay.is_dry_run {
            return self
                .advance(waiting, ReplayStep::WouldReplay, ReplayJob { detail: Some(owner.state), ..job })
                .await;
        }
        let unix_ms = self.hub.clock.unix_ms();
        let new_id = job.new_id.clone().unwrap_or_else(|| random_uuid7(unix_ms));
        let body = original.again(&Renewal {
            id: &new_id,
            federation_id: &random_uuid7(unix_ms),
            replay_of: &job.job_id,
            priority: self.replay.priority,
        });
        let detail = Some(format!("{SENT}{}", rfc3339(self.now_ms)));
        let sending = ReplayJob { new_id: Some(new_id), sends: job.sends + 1, detail, ..job };
        self.send(&owner.region, sending, body.into()).await
    }

    /// Notes that a new job is sent, and sends it.
    async fn send(&self, region: &RegionId, job: ReplayJob, body: Bytes) -> Result<Tried, RecordError> {
        let sending = ReplayStep::Sending;
        let noting = Instant::now();
        let noted = ReplayJob { step: sending.as_str().to_owned(), ..job };
        let advanced =
            self.hub.record.advance_replay_job(&self.replay.id, ReplayStep::Waiting, noted.clone(), Some(self.version));
        if !advanced.await? {
            return Ok(Tried::Behind);
        }
        if noting.elapsed() > SEND_WITHIN {
            return self.again(unsent(noted)).await;
        }
        let question = JobQuestion::Enqueue { headers: HeaderMap::new(), body };
        let Some(new_id) = noted.new_id.clone() else {
            debug_assert!(false, "a job has its new id before it is sent");
            return self.lose(sending, noted, "no_id").await;
        };
        let (word, answer) = self.hub.replays.regions.ask_whole(self.views, region, &new_id, &question).await;
        match word {
            Word::Has { state, .. } => self.replayed(sending, region, noted, state).await,
            // Some servers give ids of their own.
            Word::Other(other) if other == noted.job_id => {
                let note = format!("{region} answers with the first job, and has stored no new one");
                self.refuse(sending, noted, "deduplicated", note).await
            }
            Word::Other(other) => {
                let new_id = Some(other).filter(|it| !it.is_empty()).or_else(|| noted.new_id.clone());
                let state = "stored under another id".to_owned();
                self.replayed(sending, region, ReplayJob { new_id, ..noted }, state).await
            }
            Word::Refused(status) => {
                let code = error_code(&answer).unwrap_or_default();
                self.refused(region, noted, format!("{region} answers {} {code}", status.as_u16())).await
            }
            Word::NotSent(why) => self.again(unsent(noted)).await.map(|_| Tried::Silent(why)),
            Word::Silent(why) => Ok(Tried::Silent(why)),
            Word::Absent => Ok(Tried::Silent(format!("{region} shows another job"))),
        }
    }

    /// A new job that its region refuses: an earlier send of it may be the cause.
    async fn refused(&self, region: &RegionId, job: ReplayJob, note: String) -> Result<Tried, RecordError> {
        match self.look(region, &job).await {
            Word::Has { state, .. } => self.replayed(ReplayStep::Sending, region, job, state).await,
            Word::NotSent(why) | Word::Silent(why) => Ok(Tried::Silent(why)),
            _ => self.refuse(ReplayStep::Sending, job, "region_refused", note).await,
        }
    }

    /// Looks for a new job that may have been sent: it was replayed, or waits again once no write can be on its way.
    ///
    /// Errors: it goes on from the record.
    pub(super) async fn resume(&self, job: ReplayJob) -> Result<Tried, RecordError> {
        let Some(region) = job.region.as_deref().and_then(|id| RegionId::parse(id).ok()) else {
            return self.lose(ReplayStep::Sending, job, "no_region").await;
        };
        let word = self.look(&region, &job).await;
        match word {
            Word::Has { state, .. } => self.replayed(ReplayStep::Sending, &region, job, state).await,
            Word::Absent if is_too_late(&job, self.now_ms) => self.lose(ReplayStep::Sending, job, "too_late").await,
            Word::Absent if self.now_ms.saturating_sub(job.changed_ms) > WRITE_MS => self.again_later(job).await,
            Word::Absent => Ok(Tried::Advanced),
            _ if self.is_over => self.lose(ReplayStep::Sending, job, "silent").await,
            Word::NotSent(why) | Word::Silent(why) => Ok(Tried::Silent(why)),
            Word::Refused(_) | Word::Other(_) => {
                Ok(Tried::Silent(format!("{region} does not say whether it has the new job")))
            }
        }
    }

    async fn look(&self, region: &RegionId, job: &ReplayJob) -> Word {
        let Some(new_id) = job.new_id.as_deref() else {
            return Word::Silent("the record names no new job to look for".to_owned());
        };
        self.hub.replays.regions.ask_whole(self.views, region, new_id, &JobQuestion::Look).await.0
    }

    async fn replayed(
        &self,
        from: ReplayStep,
        region: &RegionId,
        job: ReplayJob,
        state: String,
    ) -> Result<Tried, RecordError> {
        let detail = Some(state).filter(|state| !state.is_empty());
        if let Some(id) = job.new_id.as_deref() {
            // Before the step: a kill in between repeats both.
            let (priority, digest) = (self.replay.priority, job.digest.as_deref());
            let new = NewJob { region, id, replay_of: &job.job_id, priority, digest };
            ledger::replayed(self.hub, &new).await?;
        }
        self.advance(from, ReplayStep::Replayed, ReplayJob { detail, why: None, ..job }).await
    }

    async fn refuse(&self, from: ReplayStep, job: ReplayJob, why: &str, note: String) -> Result<Tried, RecordError> {
        let job = ReplayJob { why: Some(why.to_owned()), detail: Some(note), ..job };
        self.advance(from, ReplayStep::Refused, job).await
    }

    async fn lose(&self, from: ReplayStep, job: ReplayJob, why: &str) -> Result<Tried, RecordError> {
        self.advance(from, ReplayStep::Unknown, ReplayJob { why: Some(why.to_owned()), ..job }).await
    }

    /// The job is to be sent again: only in the turn of this hub, because another one may have sent it since. That it may have been sent stays on
    /// its row.
    async fn again_later(&self, job: ReplayJob) -> Result<Tried, RecordError> {
        let job = ReplayJob { step: ReplayStep::Waiting.as_str().to_owned(), ..job };
        let (from, version) = (ReplayStep::Sending, Some(self.version));
        let advanced = self.hub.record.advance_replay_job(&self.replay.id, from, job, version).await?;
        Ok(if advanced { Tried::Advanced } else { Tried::Behind })
    }

    /// The job was certainly not sent by this try, and waits again.
    async fn again(&self, job: ReplayJob) -> Result<Tried, RecordError> {
        self.advance(ReplayStep::Sending, ReplayStep::Waiting, job).await
    }

    /// Puts a job behind the others that wait, so that a region which is away does not hold them up.
    async fn put_back(&self, job: ReplayJob, why: String) -> Result<Tried, RecordError> {
        self.advance(ReplayStep::Waiting, ReplayStep::Waiting, job).await.map(|_| Tried::Silent(why))
    }

    async fn advance(&self, from: ReplayStep, to: ReplayStep, job: ReplayJob) -> Result<Tried, RecordError> {
        let job = ReplayJob { step: to.as_str().to_owned(), ..job };
        let is_end = has_ended(&job);
        debug_assert_eq!(step_of(&job), Some(to), "a step has one word");
        if !self.hub.record.advance_replay_job(&self.replay.id, from, job, None).await? {
            return Ok(Tried::Behind);
        }
        if is_end {
            self.hub.replays.note_replayed(to);
        }
        Ok(Tried::Advanced)
    }

    /// Ends a job that was certainly never sent, because the region takes nothing now.
    ///
    /// Errors: it goes on from the record.
    pub(super) async fn give_up_unsent(&self, job: ReplayJob, why: String) -> Result<(), RecordError> {
        if step_of(&job) == Some(ReplayStep::Waiting) && job.sends == 0 {
            self.refuse(ReplayStep::Waiting, job, "region_unavailable", why).await?;
        }
        Ok(())
    }
}

/// Whether the last send of a job is too old for a region's word that it does not have it.
fn is_too_late(job: &ReplayJob, now_ms: u64) -> bool {
    let noted = job.detail.as_deref().and_then(|it| read_rfc3339(it.strip_prefix(SENT)?));
    job.sends > 0 && now_ms.saturating_sub(noted.unwrap_or(job.changed_ms)) > TOO_LATE_MS
}

/// A job that has certainly not been sent by this try.
fn unsent(sending: ReplayJob) -> ReplayJob {
    ReplayJob { sends: sending.sends.saturating_sub(1), ..sending }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_counts_for_a_quarter_of_an_hour_from_the_last_send() {
        let job = |sends, sent: Option<u64>, changed_ms| ReplayJob {
            sends,
            detail: sent.map(|at| format!("{SENT}{}", rfc3339(at))),
            changed_ms,
            ..ReplayJob::default()
        };
        let now_ms = 1_767_225_600_000;
        let edge = now_ms - TOO_LATE_MS;
        for (sends, sent, changed_ms, expected) in [
            (1, Some(edge), now_ms, false),
            (1, Some(edge - 1), now_ms, true),
            (2, None, edge - 1, true),
            (2, None, edge, false),
            (1, Some(now_ms), edge - 1, false),
            (0, Some(edge - 1), edge - 1, false),
        ] {
            assert_eq!(is_too_late(&job(sends, sent, changed_ms), now_ms), expected, "{sends} {sent:?} {changed_ms}");
        }
    }
}
