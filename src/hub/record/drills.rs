//! Failover drills in a record: the order and the end of each, and the counts of its sidecars.

use super::drill::{SavedCounts, SavedDrill};
use super::{Kept, Record, RecordError, postgres, sqlite};

impl Record {
    /// All drills, the oldest first.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn drills(&self) -> Result<Vec<SavedDrill>, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(sqlite::drill::all).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::drill::all(line, settings)).await
            }
        }
    }

    /// The drill that is on, and the last one, the older first.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn last_drills(&self) -> Result<Vec<SavedDrill>, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(sqlite::drill::last).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::drill::last(line, settings)).await
            }
        }
    }

    /// Keeps a drill that was made from its version, or a new one with version 0. Nothing is kept where it has another version, or where another
    /// drill is on or has its number.
    ///
    /// Errors: [`RecordError`]; it may have been kept.
    pub(in crate::hub) async fn change_drill(&self, to: SavedDrill) -> Result<Kept, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::drill::change(connection, &to)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::drill::change(line, settings, &to)).await
            }
        }
    }

    /// Keeps counts in a drill, each in place of those of the same process that have no higher number.
    ///
    /// Errors: [`RecordError`]; some may have been kept, and a second time changes nothing.
    pub(in crate::hub) async fn keep_drill_counts(
        &self,
        id: &str,
        counts: Vec<SavedCounts>,
    ) -> Result<(), RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::drill::keep(connection, &id, &counts)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::drill::keep(line, settings, &id, &counts)).await
            }
        }
    }

    /// The counts of all sidecars in a drill.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn drill_counts(&self, id: &str) -> Result<Vec<SavedCounts>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::drill::counts(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::drill::counts(line, settings, &id)).await
            }
        }
    }

    /// Drops the drills that have ended and were ordered before a time, with their counts, but for the last one, whose number the next one needs.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn prune_drills(&self, before_ms: u64) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::drill::prune(connection, before_ms)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::drill::prune(line, settings, before_ms)).await
            }
        }
    }
}
