//! Conflicts in a record: copies of this region whose tracking id other regions have, too, and the result for each.

use super::conflict::{Conflict, ConflictStep};
use super::{Record, RecordError, postgres, sqlite};

impl Record {
    /// Gives the conflicts to one hub of those that share the record, for so long. Returns the time at the record; none where another hub
    /// has them.
    ///
    /// Errors: [`RecordError`]; the hub may have them.
    pub(in crate::hub) async fn take_conflicts(&self, hub: &str, lasts_ms: u64) -> Result<Option<u64>, RecordError> {
        let hub = hub.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::take(connection, &hub, lasts_ms)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::take(line, settings, &hub, lasts_ms)).await
            }
        }
    }

    /// Of these tracking ids, notes those that several regions have, and opens a conflict for each copy in `region`, to be looked at once a
    /// time is over. Returns those that were not noted before.
    ///
    /// Errors: [`RecordError`]; they may have been noted, and a second time changes nothing.
    pub(in crate::hub) async fn note_conflicts(
        &self,
        region: &str,
        federation_ids: Vec<String>,
        due_after_ms: u64,
    ) -> Result<Vec<String>, RecordError> {
        let (region, ids) = (region.to_owned(), serde_json::json!(federation_ids).to_string());
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::conflict::note(connection, &region, &ids, due_after_ms)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::note(line, settings, &region, &ids, due_after_ms)).await
            }
        }
    }

    /// The conflicts of a region that are not decided and whose time has come, at most so many.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn due_conflicts(&self, region: &str, max: usize) -> Result<Vec<Conflict>, RecordError> {
        let region = region.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::due(connection, &region, max)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::due(line, settings, &region, max)).await
            }
        }
    }

    /// Moves a conflict from a step to that of `to`, or looks at it again once `due_after_ms` are over. Returns whether it was moved.
    ///
    /// Errors: [`RecordError`]; it may have been moved.
    pub(in crate::hub) async fn advance_conflict(
        &self,
        from: ConflictStep,
        to: Conflict,
        due_after_ms: u64,
    ) -> Result<bool, RecordError> {
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::conflict::advance(connection, from, &to, due_after_ms)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::advance(line, settings, from, &to, due_after_ms)).await
            }
        }
    }

    /// Drops a conflict that is none: the copy counts.
    ///
    /// Errors: [`RecordError`]; it may have been dropped, and a second time changes nothing.
    pub(in crate::hub) async fn drop_conflict(&self, conflict: &Conflict) -> Result<(), RecordError> {
        let (job_id, region, step) = (conflict.job_id.clone(), conflict.region.clone(), conflict.step);
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::conflict::remove(connection, &job_id, &region, step)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::remove(line, settings, &job_id, &region, step)).await
            }
        }
    }

    /// The conflicts of copies with a tracking id, in any step.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn conflicts_of(&self, federation_id: &str) -> Result<Vec<Conflict>, RecordError> {
        let id = federation_id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::of(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::of(line, settings, &id)).await
            }
        }
    }

    /// Drops the conflicts and the noted tracking ids that are older than so long.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn prune_conflicts(&self, older_than_ms: u64) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::prune(connection, older_than_ms)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::prune(line, settings, older_than_ms)).await
            }
        }
    }
}
