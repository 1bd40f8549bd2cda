//! The record of a hub: switches, the audit trail and the inventory, in a SQLite file for one hub, or in PostgreSQL for several.
//!
//! A change is answered once its commit is durable. Hubs that share a record change it by comparing: a change names the state that it was made
//! from, and is not kept where another hub was first.

mod bodies;
mod body;
mod conflict;
mod conflicts;
mod content;
mod drill;
mod drills;
mod incident;
mod incidents;
mod ledger;
mod ledgers;
mod postgres;
mod postgres_error;
mod promotions;
mod replay;
mod replays;
mod sqlite;
mod step;
mod uwer;
mod uwers;

use super::audit::AuditRow;
use super::settings::RecordSettings;
use crate::replica::Change;
use crate::switch::Version;
pub(super) use body::{BodiesBehind, BodiesEnd, PlacedBody, SavedBody};
pub(super) use conflict::{CONFLICT_FACTS_MAX, CONFLICT_TURN_MS, Conflict, ConflictStep, Conflicts, Next};
pub use content::RecordError;
pub(super) use content::{
    ANSWER_WAIT, ClaimedKey, INDEX_ROWS_MAX, IndexPlace, IndexedChange, KEYS_MAX, Kept, KnownKey, OutcomeQuery,
    Outcomes, PRUNED_AT_ONCE, PromotionJob, Promotions, ReportsEnd, SavedKey, SavedLimit, SavedPromotion, SavedReport,
    SavedSidecar, State, StatusPlace, Statuses, StepCount, Wanted,
};
pub(super) use drill::{SavedCounts, SavedDrill};
pub(super) use incident::{IncidentQuery, OPEN_INCIDENTS_MAX, SavedEnds, SavedIncident};
pub(super) use ledger::{
    LEDGER_NAMES_MAX, LedgerAppend, LedgerDay, LedgerJob, LedgerName, LedgerPlace, LedgerQuery, LedgerRow,
};
use postgres::Postgres;
pub use postgres_error::PostgresError;
pub(super) use replay::{OPEN_REPLAYS_MAX, OpenReplays, ReplayJob, ReplayStep, SavedReplay};
use sqlite::Sqlite;
pub(super) use step::JobStep;
pub(super) use uwer::{ClaimedTask, SavedLetter, TaskClaim};

/// The record of a hub.
#[derive(Debug)]
pub(super) enum Record {
    /// A file that this hub holds alone, or memory.
    Sqlite(Sqlite),
    /// A database that several hubs share.
    Postgres(Box<Postgres>),
}

impl Record {
    /// Opens the file, or makes it; a database is reached later.
    ///
    /// Errors: [`RecordError`]; for a database, only those of its settings.
    pub(super) fn open(settings: &RecordSettings) -> Result<Self, RecordError> {
        Ok(match &settings.postgres {
            Some(postgres) => Self::Postgres(Box::new(Postgres::new(postgres)?)),
            None => Self::Sqlite(Sqlite::open(settings.path.as_deref())?),
        })
    }

    /// Whether the files that the settings name can be used. Opens no record.
    ///
    /// Errors: [`RecordError`].
    pub(super) fn check(settings: &RecordSettings) -> Result<(), RecordError> {
        let postgres = settings.postgres.as_ref();
        Ok(postgres.map_or(Ok(()), |postgres| Postgres::new(postgres).map(drop))?)
    }

    /// Makes the tables, or brings them to the version of this program, where that is needed.
    ///
    /// Errors: [`RecordError`]; nothing was changed.
    pub(super) async fn migrate(&self) -> Result<(), RecordError> {
        match self {
            // Opening the file has done so.
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(it) => it.migrate().await,
        }
    }

    /// Whether a restart keeps its content.
    pub(super) const fn is_durable(&self) -> bool {
        match self {
            Self::Sqlite(it) => it.has_file(),
            Self::Postgres(_) => true,
        }
    }

    /// Whether other hubs may change it.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Whether it has not answered for longer than a disk or a network needs.
    pub(super) fn is_stuck(&self) -> bool {
        match self {
            Self::Sqlite(it) => it.is_stuck(),
            Self::Postgres(it) => it.is_stuck(),
        }
    }

    /// Whether other hubs may have changed it unseen.
    pub(super) fn is_behind(&self) -> bool {
        self.is_shared() && self.is_stuck()
    }

    /// The present state, where it is another one than `known`.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn newer(&self, known: &Version) -> Result<Option<State>, RecordError> {
        match self {
            Self::Sqlite(it) => it.newer(known).await,
            Self::Postgres(it) => it.newer(known).await,
        }
    }

    /// Keeps a state, and the rows of the audit trail that led to it from the state `from`, whole or not at all.
    ///
    /// Errors: nothing was kept, but for [`RecordError::Unknown`].
    pub(super) async fn change(&self, from: &Version, to: &State, rows: Vec<AuditRow>) -> Result<Kept, RecordError> {
        match self {
            Self::Sqlite(it) => it.change(to, rows).await,
            // Boxed, because it can make a connection, which needs much room.
            Self::Postgres(it) => Box::pin(it.change(from, to, rows)).await,
        }
    }

    /// Rows of the audit trail behind a number, in order, at most so many.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn audit(&self, after: u64, max: usize) -> Result<Vec<AuditRow>, RecordError> {
        match self {
            Self::Sqlite(it) => it.audit(after, max).await,
            Self::Postgres(it) => it.audit(after, max).await,
        }
    }

    /// Keeps the last statuses of sidecars, and drops those that were last seen before a time.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn save_sidecars(
        &self,
        sidecars: Vec<SavedSidecar>,
        forget_before: u64,
    ) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.save_sidecars(sidecars, forget_before).await,
            Self::Postgres(it) => it.save_sidecars(sidecars, forget_before).await,
        }
    }

    /// Keeps reports, each in place of an earlier one about the same outcome.
    ///
    /// Errors: [`RecordError`]; they may have been kept, and a second time changes nothing.
    pub(super) async fn save_reports(&self, reports: Vec<SavedReport>) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.save_reports(reports).await,
            Self::Postgres(it) => it.save_reports(&reports).await,
        }
    }

    /// The reports that a query selects.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn outcomes(&self, query: OutcomeQuery) -> Result<Outcomes, RecordError> {
        match self {
            Self::Sqlite(it) => it.outcomes(query).await,
            Self::Postgres(it) => it.outcomes(&query).await,
        }
    }

    /// Drops reports that are too old, and those beyond [`content::REPORTS_MAX`]. Returns the number of those beyond.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn prune_reports(&self, end: ReportsEnd) -> Result<u64, RecordError> {
        match self {
            Self::Sqlite(it) => it.prune_reports(end).await,
            Self::Postgres(it) => it.prune_reports(end).await,
        }
    }

    /// Claims a key, unless another claim has it or this one comes late.
    ///
    /// Errors: [`RecordError`]; it may have been claimed, and a second time changes nothing.
    pub(super) async fn claim_key(&self, claim: SavedKey) -> Result<ClaimedKey, RecordError> {
        match self {
            Self::Sqlite(it) => it.claim_key(claim).await,
            // Boxed, because it can make a connection, which needs much room.
            Self::Postgres(it) => Box::pin(it.claim_key(&claim)).await,
        }
    }

    /// Keeps that the job of a claimed key is stored: its status, region and id. Also where the claim was never kept, unless another one has
    /// the key. Returns whether the record has it.
    ///
    /// Errors: [`RecordError`]; it may have been kept, and a second time changes nothing.
    pub(super) async fn settle_key(&self, claim: SavedKey, stored: (u64, String, String)) -> Result<bool, RecordError> {
        match self {
            Self::Sqlite(it) => it.settle_key(claim, stored).await,
            // Boxed, because it can make a connection, which needs much room.
            Self::Postgres(it) => Box::pin(it.settle_key(&claim, stored)).await,
        }
    }

    /// Frees a key that this claim has.
    ///
    /// Errors: [`RecordError`]; it may have been freed, and a second time changes nothing.
    pub(super) async fn release_key(&self, claim: SavedKey) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.release_key(claim).await,
            // Boxed, because it can make a connection, which needs much room.
            Self::Postgres(it) => Box::pin(it.release_key(&claim)).await,
        }
    }

    /// Whether it has a row for a key, in any state.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn has_key(&self, key: String) -> Result<bool, RecordError> {
        match self {
            Self::Sqlite(it) => it.has_key(key).await,
            // Boxed, because it can make a connection, which needs much room.
            Self::Postgres(it) => Box::pin(it.has_key(&key)).await,
        }
    }

    /// Drops the keys that are over, by the clock of a database, or by this one of the hub. Returns how many are left.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn prune_keys(&self, now_unix_ms: u64) -> Result<u64, RecordError> {
        match self {
            Self::Sqlite(it) => it.prune_keys(now_unix_ms).await,
            Self::Postgres(it) => it.prune_keys().await,
        }
    }

    /// Keeps facts about jobs from `origin`, joined with those that came from there before; and the place there up to which this record
    /// has them, where they come from another hub.
    ///
    /// Errors: [`RecordError`]; they may have been kept, and a second time changes nothing.
    pub(super) async fn save_changes(
        &self,
        origin: &str,
        changes: Vec<Change>,
        place: Option<IndexPlace>,
    ) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.save_changes(origin, changes, place).await,
            // Boxed, because it can make a connection, which needs much room.
            Self::Postgres(it) => Box::pin(it.save_changes(origin, &changes, place.as_ref())).await,
        }
    }

    /// The facts about the wanted jobs.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn find_changes(&self, wanted: Wanted) -> Result<Vec<IndexedChange>, RecordError> {
        match self {
            Self::Sqlite(it) => it.find_changes(wanted).await,
            Self::Postgres(it) => Box::pin(it.find_changes(&wanted)).await,
        }
    }

    /// The facts about several jobs, and about each copy that has one of these tracking ids; of more than [`INDEX_ROWS_MAX`] some.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn find_changes_of(
        &self,
        jobs: Vec<String>,
        federation_ids: Vec<String>,
    ) -> Result<Vec<IndexedChange>, RecordError> {
        match self {
            Self::Sqlite(it) => it.find_changes_of(jobs, federation_ids).await,
            Self::Postgres(it) => Box::pin(it.find_changes_of(&jobs, &federation_ids)).await,
        }
    }

    /// The facts from `origin` behind a place, in order, at most so many; from the first one on where the place is one of another
    /// record.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn changes_behind(
        &self,
        origin: &str,
        after: IndexPlace,
        max: usize,
    ) -> Result<Vec<IndexedChange>, RecordError> {
        match self {
            Self::Sqlite(it) => it.changes_behind(origin, after, max).await,
            Self::Postgres(it) => Box::pin(it.changes_behind(origin, &after, max)).await,
        }
    }

    /// The place up to which this record has the facts of another hub.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn index_place(&self, origin: &str) -> Result<IndexPlace, RecordError> {
        match self {
            Self::Sqlite(it) => it.index_place(origin).await,
            Self::Postgres(it) => Box::pin(it.index_place(origin)).await,
        }
    }

    /// The name of this record as a source of facts.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn index_epoch(&self) -> Result<String, RecordError> {
        match self {
            Self::Sqlite(it) => it.index_epoch().await,
            Self::Postgres(it) => Box::pin(it.index_epoch()).await,
        }
    }

    /// Drops some of the facts that were learnt before a time, and of the oldest ones beyond about a number. Returns how many.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn prune_changes(&self, before_ms: u64, rows_max: u64) -> Result<u64, RecordError> {
        match self {
            Self::Sqlite(it) => it.prune_changes(before_ms, rows_max).await,
            Self::Postgres(it) => Box::pin(it.prune_changes(before_ms, rows_max)).await,
        }
    }

    /// The holders of the limit of a region; none before the first change.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn limit(&self, region: &str) -> Result<SavedLimit, RecordError> {
        match self {
            Self::Sqlite(it) => it.limit(region).await,
            Self::Postgres(it) => it.limit(region).await,
        }
    }

    /// Keeps the holders of a limit that were made from the version `from`.
    ///
    /// Errors: [`RecordError`]; they may have been kept.
    pub(super) async fn change_limit(&self, region: &str, from: u64, holders: String) -> Result<Kept, RecordError> {
        match self {
            Self::Sqlite(it) => it.change_limit(region, from, holders).await,
            Self::Postgres(it) => it.change_limit(region, from, &holders).await,
        }
    }

    /// The statuses that other hubs, or earlier processes, have kept from a place on; the default place is before all.
    ///
    /// Errors: [`RecordError`].
    pub(super) async fn statuses(&self, after: &StatusPlace) -> Result<Statuses, RecordError> {
        match self {
            Self::Sqlite(it) => it.statuses(after).await,
            Self::Postgres(it) => it.statuses(after).await,
        }
    }
}

#[cfg(test)]
mod tests;
