//! Decides about the copies of this hub's region that have a tracking id whose time has come, and carries the decisions out: the regions of
//! both copies are asked before one is cancelled.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::copies::note_ended;
use super::super::index::Index;
use super::super::index_settings::ConflictMode;
use super::super::record::{CONFLICT_FACTS_MAX, Conflict, ConflictStep, Next, RecordError};
use super::super::state::Hub;
use super::super::target::Word;
use super::confirm::Peers;
use super::decide::{Decision, Known, Why, Winner, confirm, decide, news_ms};
use super::discover::millis;
use crate::base::{RegionId, SwitchKind};
use crate::replica::{Life, Record};
use crate::telemetry::event;

/// Tracking ids that one round looks at, which is at most one a second: regions are asked about those whose copies are cancelled.
const IDS_AT_ONCE: usize = 50;
/// The same where copies are only reported, which takes some milliseconds each; the next round comes at once behind so many.
const IDS_AT_ONCE_OF_REPORTS: usize = 500;
/// Copies of this region with one tracking id: beyond, a client uses it for a group of jobs, which is reported as a whole.
const COPIES_MAX: usize = 100;
/// A round ends after so long.
const ROUND_MAX: Duration = Duration::from_secs(10);
/// Tracking ids one after the other without a word of a region; then they are left alone until the next round.
const SILENT_MAX: u32 = 3;
/// An id that cannot be decided about is looked at again after half of the time that it has waited, within these bounds. Units: milliseconds.
const AGAIN_MS: (u64, u64) = (2_000, 5 * 60_000);

/// One round at one hub.
pub(super) struct Resolver<'h> {
    pub(super) hub: &'h Hub,
    pub(super) index: &'h Index,
    peers: &'h Peers,
    /// The time at the record. Units: milliseconds since the Unix epoch.
    now_ms: u64,
    /// The copies that were cancelled in this round.
    pub(super) cancelled: RefCell<Vec<Conflict>>,
}

/// The end of one try; of several the greatest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tried {
    /// There is a result, or nothing to do.
    Done,
    /// There are too many facts.
    Crowd,
    /// It is looked at again later.
    Later,
    /// A region, or its hub, has said nothing about it.
    Silent,
}

/// A copy of this region.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own<'r> {
    pub(super) job_id: &'r str,
    pub(super) federation_id: &'r str,
    /// Whether an order to cancel it may have left before.
    pub(super) is_ordered: bool,
}

/// The regions that are isolated, or that a promotion is about.
///
/// Errors: [`RecordError`], also for one that is no region's id.
pub(super) async fn closed_regions(hub: &Hub) -> Result<Vec<RegionId>, RecordError> {
    hub.refresh().await?;
    let in_force = hub.current().in_force();
    let isolated = in_force.iter().filter(|it| it.kind == SwitchKind::Isolate).filter_map(|it| it.subject.region());
    let mut closed: Vec<RegionId> = isolated.cloned().collect();
    let held = hub.record.promotions().await?.all.into_iter().filter_map(|it| it.holds);
    for id in held {
        // A region that a later version names in another way must not be taken for one that is open.
        closed.push(RegionId::parse(&id).map_err(|_| RecordError::Later)?);
    }
    Ok(closed)
}

impl<'h> Resolver<'h> {
    pub(super) fn new(hub: &'h Hub, index: &'h Index, peers: &'h Peers, now_ms: u64) -> Self {
        Self { hub, index, peers, now_ms, cancelled: RefCell::default() }
    }

    /// The region of this hub.
    pub(super) fn region(&self) -> &RegionId {
        &self.index.settings.region
    }

    /// Looks at the tracking ids whose time has come. Returns whether there may be more, which can be looked at right behind them.
    ///
    /// Errors: the last one; each id that was begun is looked at again later.
    pub(super) async fn resolve_due(&self) -> Result<bool, RecordError> {
        let is_report = self.index.settings.conflicts == ConflictMode::Report;
        let due = self.hub.record.due_ids(if is_report { IDS_AT_ONCE_OF_REPORTS } else { IDS_AT_ONCE }).await?;
        if due.is_empty() {
            return Ok(false);
        }
        let has_more = is_report && due.len() >= IDS_AT_ONCE_OF_REPORTS;
        let closed = closed_regions(self.hub).await?;
        let (began, mut silent, mut failed) = (Instant::now(), 0, None);
        for id in due {
            let tried = self.resolve(&id.federation_id, &closed).await.unwrap_or_else(|error| {
                failed = Some(error);
                Tried::Silent
            });
            let next = match tried {
                Tried::Done => Next::OnFact,
                Tried::Crowd => Next::Never,
                Tried::Later | Tried::Silent => Next::After(again_ms(id.waited_ms)),
            };
            if let Err(error) = self.hub.record.put_off(id, next).await {
                failed = Some(error);
            }
            silent = if tried == Tried::Silent { silent + 1 } else { 0 };
            if silent >= SILENT_MAX || began.elapsed() > ROUND_MAX {
                break;
            }
        }
        let noted = self.note_cancelled().await;
        failed.map_or(noted, Err).map(|()| has_more)
    }

    /// Looks at all copies of this region with one tracking id.
    async fn resolve(&self, federation_id: &str, closed: &[RegionId]) -> Result<Tried, RecordError> {
        let (began, own) = (Instant::now(), self.region());
        let found = self.hub.record.conflict_facts(federation_id, own.as_str()).await?;
        let noted = self.hub.record.conflicts_of(federation_id).await?.copies;
        let is_whole = found.len() < CONFLICT_FACTS_MAX;
        let news_ms = news_ms(&found);
        let record = Record::of(found.into_iter().map(|it| it.change));
        let of = |is_wanted: fn(ConflictStep) -> bool| -> BTreeSet<&str> {
            noted.iter().filter(|it| is_wanted(it.step)).map(|it| it.job_id.as_str()).collect()
        };
        let (ordered, ended) = (of(|it| it == ConflictStep::Cancelling), of(|it| it != ConflictStep::Cancelling));
        let here = record.copies.iter().filter(|it| it.region == *own).map(|it| it.job_id.as_str());
        let mut jobs: BTreeSet<&str> = here.filter(|it| !ended.contains(it)).collect();
        let is_crowd = !is_whole || jobs.len() > COPIES_MAX;
        // A group stays one for as long as its report is kept: its copies may end one after the other.
        let mut is_group = noted.iter().any(Conflict::is_of_group);
        if is_crowd || is_group {
            jobs.clear();
        }
        jobs.extend(&ordered);
        let sources: Vec<RegionId> = self.index.settings.from.iter().map(|it| it.region.clone()).collect();
        let settle_ms = millis(self.index.settings.conflicts_after);
        let known = Known {
            mode: self.index.settings.conflicts,
            is_settled: news_ms.saturating_add(settle_ms) <= self.now_ms,
            is_whole: !is_crowd,
            is_current: self.index.is_current(self.hub.clock.unix_ms(), settle_ms),
            closed,
            sources: &sources,
        };
        let (mut tried, standings) = (Tried::Done, record.standings());
        for job_id in jobs {
            let copy = Own { job_id, federation_id, is_ordered: ordered.contains(job_id) };
            let decision = decide(&record, &standings, (own, job_id), known);
            let is_report = matches!(decision, Decision::Result(_, Some(Why::Group), _)) && !copy.is_ordered;
            // The others are the same report.
            if is_report && std::mem::replace(&mut is_group, true) {
                continue;
            }
            tried = tried.max(self.resolve_copy(copy, decision, began).await?);
        }
        if is_crowd && tried == Tried::Done {
            if !is_group {
                self.report_crowd(&record);
            }
            return Ok(Tried::Crowd);
        }
        Ok(tried)
    }

    /// `began`: when the facts were read.
    async fn resolve_copy(&self, own: Own<'_>, decision: Decision, began: Instant) -> Result<Tried, RecordError> {
        let views = self.hub.views.as_ref();
        let is_cancelled = matches!(decision, Decision::Cancel(_));
        let Some(views) = views.filter(|_| own.is_ordered || is_cancelled) else {
            return self.settle(own, decision).await;
        };
        let decision = match decision {
            Decision::Cancel(winner) => match self.confirmed(winner).await {
                Some(decision) => decision,
                None if own.is_ordered => Decision::Wait,
                None => return Ok(Tried::Silent),
            },
            decision => decision,
        };
        // An order may have left before the hub was killed: its effect comes first.
        if !own.is_ordered && !matches!(decision, Decision::Cancel(_)) {
            return self.settle(own, decision).await;
        }
        match self.hub.copies_in.look(views, self.region(), own.job_id).await {
            Word::Has { state, enqueued_ms, is_started } => {
                self.by_state(own, decision, (&state, is_started, enqueued_ms), began).await
            }
            Word::Absent => self.finish(own, ConflictStep::Gone, None, winner_of(decision)).await,
            Word::Refused(_) | Word::Other(_) => match winner_of(decision) {
                Some(winner) => self.finish(own, ConflictStep::Reported, Some(Why::Refused), Some(winner)).await,
                None => Ok(Tried::Silent),
            },
            Word::NotSent(_) | Word::Silent(_) => Ok(Tried::Silent),
        }
    }

    /// Asks the hub of the copy that counts. `None` where it does not answer.
    async fn confirmed(&self, winner: Winner) -> Option<Decision> {
        let source = self.index.settings.from.iter().find(|it| it.region == winner.region)?;
        let shown = self.peers.ask(source, &winner.job_id).await?;
        Some(confirm(winner, &shown))
    }

    /// Goes on by the state that the region shows, with whether a worker has had the copy, and its time.
    async fn by_state(
        &self,
        own: Own<'_>,
        decision: Decision,
        (state, is_started, enqueued_ms): (&str, bool, Option<u64>),
        began: Instant,
    ) -> Result<Tried, RecordError> {
        match (decision, Life::of(state, is_started)) {
            (_, Life::Odd) if state.is_empty() => Ok(Tried::Silent),
            (Decision::Cancel(winner), Life::Waits) if winner.beats(enqueued_ms, self.region(), own.job_id) => {
                self.cancel(own, winner, began).await
            }
            (Decision::Cancel(winner), Life::Waits) => {
                self.finish(own, ConflictStep::Reported, Some(Why::Time), Some(winner)).await
            }
            (decision, Life::EndedUnrun) if own.is_ordered && state == "cancelled" => {
                self.was_cancelled(own, winner_of(decision));
                Ok(Tried::Later)
            }
            (decision, Life::EndedUnrun) => {
                let job = (own.job_id, Some(own.federation_id));
                note_ended(self.hub, self.region(), job, Some(state)).await?;
                self.finish(own, ConflictStep::Gone, None, winner_of(decision)).await
            }
            (Decision::Cancel(winner), Life::Started) => {
                self.finish(own, ConflictStep::Doubled, None, Some(winner)).await
            }
            (Decision::Cancel(winner), Life::Odd) => {
                self.finish(own, ConflictStep::Reported, Some(Why::State), Some(winner)).await
            }
            (decision, _) => self.settle(own, decision).await,
        }
    }

    /// Carries out a decision that needs no word of the region.
    async fn settle(&self, own: Own<'_>, decision: Decision) -> Result<Tried, RecordError> {
        match decision {
            Decision::None if own.is_ordered => {
                self.hub.record.drop_order(own.job_id, self.region().as_str()).await.map(|()| Tried::Done)
            }
            Decision::None => Ok(Tried::Done),
            Decision::Wait | Decision::Cancel(_) => Ok(Tried::Later),
            Decision::Result(step, why, winner) => self.finish(own, step, why, Some(winner)).await,
        }
    }

    /// Notes a result once: in its row, in the figures and in the log.
    pub(super) async fn finish(
        &self,
        own: Own<'_>,
        step: ConflictStep,
        why: Option<Why>,
        winner: Option<Winner>,
    ) -> Result<Tried, RecordError> {
        let mut conflict = self.conflict(own, step, winner);
        conflict.why = why.map(|it| it.as_str().to_owned());
        if self.hub.record.save_conflict(conflict.clone(), own.is_ordered).await? {
            self.show(&conflict);
            return Ok(Tried::Done);
        }
        // Another hub has its result, or its order may be on its way: the next look knows which.
        Ok(if own.is_ordered { Tried::Done } else { Tried::Later })
    }

    /// A copy at a step.
    pub(super) fn conflict(&self, own: Own<'_>, step: ConflictStep, winner: Option<Winner>) -> Conflict {
        Conflict {
            job_id: own.job_id.to_owned(),
            region: self.region().as_str().to_owned(),
            federation_id: own.federation_id.to_owned(),
            step,
            why: None,
            winner: winner.map(|it| (it.region.as_str().to_owned(), it.job_id)),
            changed_ms: 0,
        }
    }

    /// Counts and logs a result.
    pub(super) fn show(&self, conflict: &Conflict) {
        self.index.conflicts.note(conflict.step);
        let winner = conflict.winner.as_ref();
        let (winner_region, winner_job) = winner.map_or(("", ""), |(region, job)| (region, job));
        let (of, why) = ((conflict.job_id.as_str(), conflict.region.as_str()), conflict.why.as_deref());
        event::hub_conflict(of, conflict.step.as_str(), (winner_job, winner_region), why.unwrap_or_default());
    }

    /// Reports the copies of a tracking id with too many of them once: by one of this region, else by any of those that were read.
    fn report_crowd(&self, record: &Record) {
        let of_here = record.copies.iter().find(|it| it.region == *self.region());
        let Some(copy) = of_here.or(record.copies.first()) else { return };
        let own = Own { job_id: &copy.job_id, federation_id: "", is_ordered: false };
        let (region, why) = (copy.region.as_str().to_owned(), Some(Why::Group.as_str().to_owned()));
        self.show(&Conflict { region, why, ..self.conflict(own, ConflictStep::Reported, None) });
    }
}

/// The pause before the next look at an id that has waited for so long.
fn again_ms(waited_ms: u64) -> u64 {
    (waited_ms / 2).clamp(AGAIN_MS.0, AGAIN_MS.1)
}

fn winner_of(decision: Decision) -> Option<Winner> {
    match decision {
        Decision::Cancel(winner) | Decision::Result(_, _, winner) => Some(winner),
        Decision::None | Decision::Wait => None,
    }
}

#[cfg(test)]
mod tests {
    use super::again_ms;

    #[test]
    fn an_id_that_cannot_be_decided_about_is_looked_at_less_and_less() {
        assert_eq!([0, 6_000, 60_000, 86_400_000].map(again_ms), [2_000, 3_000, 30_000, 300_000]);
    }
}
