//! Carries the decisions about copies of this hub's region out: the region is asked before a copy is cancelled there.
//!
//! A row of the record says `cancelling` before the order leaves, so that a hub which was killed, or another one behind it, looks for the
//! copy before it orders anything again.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::super::audit::Entry;
use super::super::index::Index;
use super::super::index_settings::ConflictMode;
use super::super::promotion::{Regions, Word};
use super::super::record::{Conflict, ConflictStep, INDEX_ROWS_MAX, RecordError, Wanted};
use super::super::state::Hub;
use super::decide::{Decision, Known, Why, Winner, decide};
use crate::base::{RegionId, SwitchKind};
use crate::replica::{Change, ChangeKind, Life, Record};
use crate::telemetry::event;

/// Copies that one round looks at, which is at most one a second: each is up to two calls to the region.
const COPIES_AT_ONCE: usize = 50;
/// A round ends after so long.
const ROUND_MAX: Duration = Duration::from_secs(10);
/// From the facts to the order to cancel. Beyond, the facts are read again.
const ACT_WITHIN: Duration = Duration::from_secs(3);
/// A copy that cannot be decided about is looked at again after so long. Units: milliseconds.
const AGAIN_MS: u64 = 2_000;
/// Copies one after the other without a word of the region; then it is left alone until the next round.
const SILENT_MAX: u32 = 3;
/// A copy that its region refuses to cancel so often stays, and is reported.
const REFUSALS_MAX: u64 = 5;
/// Jobs that one row of the audit trail names.
const NAMED_MAX: usize = 5;
/// The caller in the audit trail.
const CALLER: &str = "conflicts";

/// One round at one hub.
pub(super) struct Resolver<'h> {
    hub: &'h Hub,
    index: &'h Index,
    regions: &'h Regions,
    /// The time at the record. Units: milliseconds since the Unix epoch.
    now_ms: u64,
    closed: Vec<RegionId>,
    sources: Vec<RegionId>,
    /// The jobs that were cancelled in this round.
    cancelled: RefCell<Vec<String>>,
}

/// The end of one try.
enum Tried {
    /// There is a result, or nothing to do.
    Done,
    /// It is looked at again later.
    Later,
    /// The region has said nothing about it.
    Silent,
}

impl<'h> Resolver<'h> {
    /// Reads which regions are closed.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn new(
        hub: &'h Hub,
        index: &'h Index,
        regions: &'h Regions,
        now_ms: u64,
    ) -> Result<Self, RecordError> {
        hub.refresh().await?;
        let in_force = hub.current().in_force();
        let isolated = in_force.iter().filter(|it| it.kind == SwitchKind::Isolate).filter_map(|it| it.subject.region());
        let mut closed: Vec<RegionId> = isolated.cloned().collect();
        let held = hub.record.promotions().await?.all.into_iter().filter_map(|it| it.holds);
        closed.extend(held.filter_map(|id| RegionId::parse(&id).ok()));
        let sources = index.settings.from.iter().map(|it| it.region.clone()).collect();
        Ok(Self { hub, index, regions, now_ms, closed, sources, cancelled: RefCell::default() })
    }

    /// Looks at the copies whose time has come.
    ///
    /// Errors: those that are left are looked at again.
    pub(super) async fn resolve_due(&self) -> Result<(), RecordError> {
        let (began, mut silent) = (Instant::now(), 0);
        let own = &self.index.settings.region;
        for conflict in self.hub.record.due_conflicts(own.as_str(), COPIES_AT_ONCE).await? {
            match self.resolve(&conflict).await? {
                Tried::Done => silent = 0,
                Tried::Later => self.again(&conflict).await?,
                Tried::Silent => {
                    silent += 1;
                    self.again(&conflict).await?;
                }
            }
            if silent >= SILENT_MAX || began.elapsed() > ROUND_MAX {
                break;
            }
        }
        self.note_cancelled().await
    }

    async fn resolve(&self, conflict: &Conflict) -> Result<Tried, RecordError> {
        let (began, own) = (Instant::now(), &self.index.settings.region);
        let found = self.hub.record.find_changes(Wanted::Federation(conflict.federation_id.clone())).await?;
        let learned_ms = found.iter().map(|it| it.learned_ms).max().unwrap_or(0);
        let settle_ms = u64::try_from(self.index.settings.conflicts_after.as_millis()).unwrap_or(u64::MAX);
        let known = Known {
            mode: self.index.settings.conflicts,
            is_settled: learned_ms.saturating_add(settle_ms) <= self.now_ms,
            is_whole: found.len() < INDEX_ROWS_MAX,
            is_current: self.index.is_current(self.hub.clock.unix_ms(), settle_ms),
            closed: &self.closed,
            sources: &self.sources,
        };
        let record = Record::of(found.into_iter().map(|it| it.change));
        let decision = decide(&record, own, &conflict.job_id, known);
        // An order may have left before the hub was killed: its result comes first.
        let must_look = conflict.step == ConflictStep::Cancelling || matches!(decision, Decision::Cancel(_));
        if !must_look || self.index.settings.conflicts == ConflictMode::Report {
            return self.settle(conflict, decision).await;
        }
        let Some(views) = &self.hub.views else { return Ok(Tried::Later) };
        match self.regions.look(views, own, &conflict.job_id).await {
            Word::Has { state, enqueued_ms } => {
                let life = Life::of(&state, false);
                match (decision, life) {
                    (Decision::Cancel(winner), Life::Waits)
                        if enqueued_ms.is_none_or(|at| winner.beats(at, own, &conflict.job_id)) =>
                    {
                        self.cancel(conflict, winner, began).await
                    }
                    (Decision::Cancel(winner), Life::Waits) => {
                        self.finish(conflict, ConflictStep::Reported, Some(Why::Time), Some(winner)).await
                    }
                    (decision, Life::EndedUnrun) => self.ended(conflict, decision).await,
                    (Decision::Cancel(winner), Life::Started) => {
                        self.finish(conflict, ConflictStep::Doubled, None, Some(winner)).await
                    }
                    (_, Life::Odd) if state.is_empty() => Ok(Tried::Silent),
                    (Decision::Cancel(winner), Life::Odd) => {
                        self.finish(conflict, ConflictStep::Reported, Some(Why::State), Some(winner)).await
                    }
                    (decision, _) => self.settle(conflict, decision).await,
                }
            }
            Word::Absent => self.finish(conflict, ConflictStep::Gone, None, winner_of(decision)).await,
            Word::Refused(_) | Word::Other(_) => self.refused(conflict, winner_of(decision)).await,
            Word::NotSent(_) | Word::Silent(_) => Ok(Tried::Silent),
        }
    }

    /// Carries out a decision that needs no word of the region.
    async fn settle(&self, conflict: &Conflict, decision: Decision) -> Result<Tried, RecordError> {
        match decision {
            Decision::None => self.hub.record.drop_conflict(conflict).await.map(|()| Tried::Done),
            Decision::Wait | Decision::Cancel(_) => Ok(Tried::Later),
            Decision::Result(step, why, winner) => self.finish(conflict, step, why, Some(winner)).await,
        }
    }

    /// Cancels a copy. `began`: when the facts were read.
    async fn cancel(&self, conflict: &Conflict, winner: Winner, began: Instant) -> Result<Tried, RecordError> {
        let Some(views) = &self.hub.views else { return Ok(Tried::Later) };
        let cancelling = Conflict { step: ConflictStep::Cancelling, ..conflict.clone() };
        if conflict.step != ConflictStep::Cancelling
            && !self.hub.record.advance_conflict(conflict.step, cancelling.clone(), AGAIN_MS).await?
        {
            return Ok(Tried::Done);
        }
        if began.elapsed() > ACT_WITHIN {
            return self.again(&cancelling).await.map(|()| Tried::Done);
        }
        match self.regions.cancel(views, &self.index.settings.region, &conflict.job_id).await {
            Word::Has { state, .. } if state == "cancelled" => {
                self.finish(&cancelling, ConflictStep::Cancelled, None, Some(winner)).await
            }
            Word::Refused(_) => self.refused(&cancelling, Some(winner)).await,
            // The next look says whether the order has arrived.
            _ => self.again(&cancelling).await.map(|()| Tried::Silent),
        }
    }

    /// The region says that the copy ended before a worker had it.
    async fn ended(&self, conflict: &Conflict, decision: Decision) -> Result<Tried, RecordError> {
        let is_own = conflict.step == ConflictStep::Cancelling;
        let step = if is_own { ConflictStep::Cancelled } else { ConflictStep::Gone };
        self.finish(conflict, step, None, winner_of(decision)).await
    }

    /// The region refuses an order or a look-up: a worker may have been first, which the next look says.
    async fn refused(&self, conflict: &Conflict, winner: Option<Winner>) -> Result<Tried, RecordError> {
        let refusals = conflict.refusals + 1;
        if refusals >= REFUSALS_MAX {
            return self.finish(conflict, ConflictStep::Reported, Some(Why::Refused), winner).await;
        }
        self.again(&Conflict { refusals, ..conflict.clone() }).await.map(|()| Tried::Done)
    }

    /// Looks at a copy again later.
    async fn again(&self, conflict: &Conflict) -> Result<(), RecordError> {
        self.hub.record.advance_conflict(conflict.step, conflict.clone(), AGAIN_MS).await.map(drop)
    }

    /// Notes a result once: in the index where the copy was cancelled, in its row, in the figures and in the log.
    async fn finish(
        &self,
        conflict: &Conflict,
        step: ConflictStep,
        why: Option<Why>,
        winner: Option<Winner>,
    ) -> Result<Tried, RecordError> {
        let own = &self.index.settings.region;
        if step == ConflictStep::Cancelled {
            // Before its row, so that a hub that is killed in between does so again.
            self.hub
                .record
                .save_changes(own.as_str(), vec![cancelled(conflict, own, self.hub.clock.unix_ms())], None)
                .await?;
        }
        let counts = winner.map(|it| (it.region.as_str().to_owned(), it.job_id));
        let why = why.map(Why::as_str);
        let done = Conflict { step, why: why.map(str::to_owned), winner: counts.clone(), ..conflict.clone() };
        if !self.hub.record.advance_conflict(conflict.step, done, 0).await? {
            return Ok(Tried::Done);
        }
        self.index.conflicts.note(step);
        let (winner_region, winner_job) = counts.unwrap_or_default();
        let of = (conflict.job_id.as_str(), own.as_str());
        event::hub_conflict(of, step.as_str(), (&winner_job, &winner_region), why.unwrap_or_default());
        if step == ConflictStep::Cancelled {
            self.cancelled.borrow_mut().push(conflict.job_id.clone());
        }
        Ok(Tried::Done)
    }

    /// Adds a row for the copies that were cancelled to the audit trail.
    async fn note_cancelled(&self) -> Result<(), RecordError> {
        let jobs = self.cancelled.take();
        if jobs.is_empty() {
            return Ok(());
        }
        let named = jobs.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let reason = format!("index.conflicts: {} copies were enqueued later elsewhere: {named}", jobs.len());
        let entry = Entry {
            unix_ms: self.hub.clock.unix_ms(),
            caller: CALLER.to_owned(),
            action: "copies_cancelled",
            subject: self.index.settings.region.as_str().to_owned(),
            lasts_ms: None,
            force: false,
            reason,
            ticket: String::new(),
            author: CALLER.to_owned(),
        };
        self.hub.change(|_, _| ((), vec![entry.clone()])).await
    }
}

/// The fact that the copy was cancelled, by the word of its region.
fn cancelled(conflict: &Conflict, region: &RegionId, at_ms: u64) -> Change {
    Change {
        job_id: conflict.job_id.clone(),
        region: region.clone(),
        kind: ChangeKind::Cancelled,
        lease_ms: 0,
        at_ms,
        federation_id: Some(conflict.federation_id.clone()),
        state: Some("cancelled".to_owned()),
        replicated_from: None,
        job: None,
    }
}

fn winner_of(decision: Decision) -> Option<Winner> {
    match decision {
        Decision::Cancel(winner) | Decision::Result(_, _, winner) => Some(winner),
        Decision::None | Decision::Wait => None,
    }
}
