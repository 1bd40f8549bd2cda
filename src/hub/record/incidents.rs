//! Incidents in a record, and the ends of jobs that hubs which share it have heard of.

use super::incident::{IncidentQuery, SavedEnds, SavedIncident};
use super::{Kept, Record, RecordError, postgres, sqlite};

impl Record {
    /// The incidents of a query, the oldest first.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn incidents(&self, query: IncidentQuery) -> Result<Vec<SavedIncident>, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::incident::some(connection, query)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::incident::some(line, settings, query)).await
            }
        }
    }

    /// A page of incidents, the newest first, behind a place: the start and the name of an incident. `is_open`: those that are open, or are not.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn incident_page(
        &self,
        is_open: Option<bool>,
        behind: (u64, String),
        max: u64,
    ) -> Result<Vec<SavedIncident>, RecordError> {
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::incident::page(connection, is_open, &behind, max)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::incident::page(line, settings, is_open, (behind.0, &behind.1), max)).await
            }
        }
    }

    /// One incident.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn incident(&self, id: &str) -> Result<Option<SavedIncident>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::incident::one(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::incident::one(line, settings, &id)).await
            }
        }
    }

    /// Keeps an incident that was made from its version, or a new one with version 0. Nothing is kept where it has another version, or where
    /// another one of its type and tenant is open.
    ///
    /// Errors: [`RecordError`]; it may have been kept.
    pub(in crate::hub) async fn change_incident(&self, to: SavedIncident) -> Result<Kept, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::incident::change(connection, &to)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::incident::change(line, settings, &to)).await
            }
        }
    }

    /// Drops the incidents that were closed before a time and about which nothing is due, and the ends before another time.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn prune_incidents(&self, before_ms: u64, ends_before_ms: u64) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::incident::prune(connection, before_ms)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::incident::prune(line, settings, before_ms, ends_before_ms)).await
            }
        }
    }

    /// Keeps the ends that a hub has heard of, each in place of those that it had for the same span, and returns those of other hubs since a
    /// time, summed. A record of one hub keeps none.
    ///
    /// Errors: [`RecordError`]; some may have been kept, and a second time changes nothing.
    pub(in crate::hub) async fn share_ends(
        &self,
        hub: &str,
        own: Vec<SavedEnds>,
        since_ms: u64,
    ) -> Result<Vec<SavedEnds>, RecordError> {
        match self {
            Self::Sqlite(_) => Ok(Vec::new()),
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::incident::share_ends(line, settings, hub, &own, since_ms)).await
            }
        }
    }
}
