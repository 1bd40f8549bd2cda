//! Conflicts in a record: tracking ids that several regions have, when each is looked at, and the result for each copy of this region.

use std::time::Duration;

use super::super::name::random_name;
use super::conflict::{Conflict, Conflicts, DueId, Next, RepeatedIds};
use super::content::IndexedChange;
use super::{Record, RecordError, postgres, sqlite};

/// Between two looks at an index that another hub builds.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long `--migrate` waits for the index: what waits for the command needs the tables, and not the index.
const BUILD_WAIT: Duration = Duration::from_secs(60);

impl Record {
    /// Whether conflicts can be looked for: the index by tracking id and region is there, and no other one is taken in its place.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn is_searchable(&self) -> Result<bool, RecordError> {
        match self {
            // Opening the file has made the index.
            Self::Sqlite(_) => Ok(true),
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::search::is_ready(line, settings)).await
            }
        }
    }

    /// Builds the index by tracking id and region where it is missing and no other hub builds it, which takes minutes where there are millions
    /// of facts; these are read and written meanwhile. Returns whether conflicts can be looked for. `hub`: the name of this hub among those that
    /// take turns with the conflicts.
    ///
    /// Errors: [`RecordError`]; a further time goes on.
    pub(in crate::hub) async fn make_searchable(&self, hub: &str) -> Result<bool, RecordError> {
        match self {
            Self::Sqlite(_) => Ok(true),
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::search::prepare(line, settings, hub)).await
            }
        }
    }

    /// Makes the tables, or brings them to the version of this program; `with_search`: and builds the index that conflicts are looked for with.
    /// Returns whether that is ready: the server goes on with a build that takes longer.
    ///
    /// Errors: [`RecordError`]; a further time goes on.
    pub(in crate::hub) async fn migrate_whole(&self, with_search: bool) -> Result<bool, RecordError> {
        self.migrate().await?;
        let hub = random_name();
        let built = async {
            while !self.make_searchable(&hub).await? {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            Ok(true)
        };
        if !with_search {
            return Ok(true);
        }
        tokio::time::timeout(BUILD_WAIT, built).await.unwrap_or(Ok(false))
    }

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

    /// Gives the event streams of the region to one hub of those that share the record, for so long. Returns whether this hub has them.
    ///
    /// Errors: [`RecordError`]; the hub may have them.
    pub(in crate::hub) async fn take_events(&self, hub: &str, lasts_ms: u64) -> Result<bool, RecordError> {
        match self {
            // One hub holds the file.
            Self::Sqlite(_) => Ok(true),
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::take_events(line, settings, hub, lasts_ms)).await
            }
        }
    }

    /// Looks at up to `max` facts of an origin behind those of the last time, and notes the tracking ids that several regions have. Those of
    /// which `region` has a copy are to be looked at once a time is over. The cost does not depend on the number of facts about an id.
    ///
    /// Errors: [`RecordError`]; a second time changes nothing.
    pub(in crate::hub) async fn find_repeated(
        &self,
        origin: &str,
        region: &str,
        due_after_ms: u64,
        max: usize,
    ) -> Result<RepeatedIds, RecordError> {
        let (origin, region) = (origin.to_owned(), region.to_owned());
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::conflict::find(connection, &origin, &region, due_after_ms, max)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::find(line, settings, (&origin, &region), due_after_ms, max)).await
            }
        }
    }

    /// The tracking ids whose time has come, at most so many.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn due_ids(&self, max: usize) -> Result<Vec<DueId>, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::due(connection, max)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::due(line, settings, max)).await
            }
        }
    }

    /// Says when a tracking id is looked at again, unless another hub has said so meanwhile.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn put_off(&self, id: DueId, next: Next) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::put_off(connection, &id, next)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::put_off(line, settings, &id, next)).await
            }
        }
    }

    /// The facts about the copies with a tracking id, at most [`super::CONFLICT_FACTS_MAX`]: of the copies of `region` first.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn conflict_facts(
        &self,
        federation_id: &str,
        region: &str,
    ) -> Result<Vec<IndexedChange>, RecordError> {
        let (id, region) = (federation_id.to_owned(), region.to_owned());
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::facts(connection, &id, &region)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::facts(line, settings, &id, &region)).await
            }
        }
    }

    /// Keeps a step of a copy. Returns false where the copy has a result, which stays, or an order to cancel it may be on its way that this
    /// look does not know of. `is_ordered`: whether it knows of one.
    ///
    /// Errors: [`RecordError`]; it may have been kept.
    pub(in crate::hub) async fn save_conflict(
        &self,
        conflict: Conflict,
        is_ordered: bool,
    ) -> Result<bool, RecordError> {
        match self {
            Self::Sqlite(it) => {
                it.ask(move |connection| sqlite::conflict::save(connection, &conflict, is_ordered)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::save(line, settings, &conflict, is_ordered)).await
            }
        }
    }

    /// Drops the note of an order: it had no effect, and the copy counts.
    ///
    /// Errors: [`RecordError`]; a second time changes nothing.
    pub(in crate::hub) async fn drop_order(&self, job_id: &str, region: &str) -> Result<(), RecordError> {
        let (job_id, region) = (job_id.to_owned(), region.to_owned());
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::remove(connection, &job_id, &region)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::remove(line, settings, &job_id, &region)).await
            }
        }
    }

    /// The knowledge about a tracking id.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn conflicts_of(&self, federation_id: &str) -> Result<Conflicts, RecordError> {
        let id = federation_id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::of(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::of(line, settings, &id)).await
            }
        }
    }

    /// Drops some of the results, of the tracking ids that are not to be looked at, and of those that wait without an order, which are older
    /// than so long. Returns whether there may be more.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn prune_conflicts(&self, older_than_ms: u64) -> Result<bool, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::conflict::prune(connection, older_than_ms)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::conflict::prune(line, settings, older_than_ms)).await
            }
        }
    }
}
