//! The record of one hub in SQLite, on a thread of its own.
//!
//! One hub holds the file alone. A change is answered once its commit is synced. A file of a later version of the program is left as it is.

mod bodies;
pub(super) mod conflict;
pub(super) mod drill;
pub(super) mod incident;
pub(super) mod index;
mod keys;
pub(super) mod ledger;
mod limits;
pub(super) mod promotion;
pub(super) mod replay;
mod reports;
mod tables;
pub(super) mod uwer;

use std::cell::Cell;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::super::audit::AuditRow;
use super::body::{BodiesBehind, BodiesEnd, BodiesLeft, PlacedBody, SavedBody};
use super::content::{
    ANSWER_WAIT, ClaimedKey, IndexPlace, IndexedChange, Kept, OutcomeQuery, Outcomes, RecordError, ReportsEnd,
    SavedKey, SavedLimit, SavedReport, SavedSidecar, State, StatusPlace, Statuses, Wanted,
};
use crate::replica::Change;
use crate::switch::Version;

/// Requests that wait for the thread. Changes by operators are rare; a full queue means that the disk is stuck.
const QUEUE_MAX: usize = 256;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A file that this hub holds alone, or memory. Dropped, its thread ends.
#[derive(Debug)]
pub(in crate::hub) struct Sqlite {
    work: SyncSender<Job>,
    thread: JoinHandle<()>,
    has_file: bool,
    /// The number of requests that wait for the thread, and since when it has not answered one; none while it has nothing to do.
    busy: Cell<Option<(usize, Instant)>>,
}

/// A request that waits for the thread.
struct Busy<'r>(&'r Cell<Option<(usize, Instant)>>);

impl<'r> Busy<'r> {
    fn begin(busy: &'r Cell<Option<(usize, Instant)>>) -> Self {
        let (requests, since) = busy.get().unwrap_or_else(|| (0, Instant::now()));
        busy.set(Some((requests + 1, since)));
        Self(busy)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let left = self.0.get().map_or(0, |(requests, _)| requests.saturating_sub(1));
        self.0.set((left > 0).then(|| (left, Instant::now())));
    }
}

impl Sqlite {
    /// Opens the file, or makes it; without a path the record is in memory.
    ///
    /// Errors: [`RecordError`].
    pub(super) fn open(path: Option<&Path>) -> Result<Self, RecordError> {
        let connection = tables::open(path)?;
        let (work, waiting) = mpsc::sync_channel(QUEUE_MAX);
        let body = move || run(connection, &waiting);
        let thread =
            std::thread::Builder::new().name("ojs-record".to_owned()).spawn(body).map_err(RecordError::Thread)?;
        Ok(Self { work, thread, has_file: path.is_some(), busy: Cell::new(None) })
    }

    pub(super) const fn has_file(&self) -> bool {
        self.has_file
    }

    pub(super) async fn newer(&self, known: &Version) -> Result<Option<State>, RecordError> {
        let state = tokio::time::timeout(ANSWER_WAIT, self.ask(tables::state)).await;
        let state = state.map_err(|_| RecordError::Slow)??;
        Ok(Some(state).filter(|state| state.version != *known))
    }

    /// Waits for as long as the disk takes: only its answer says whether the change was kept.
    pub(super) async fn change(&self, to: &State, rows: Vec<AuditRow>) -> Result<Kept, RecordError> {
        let to = to.clone();
        self.ask(move |connection| {
            let changed = tables::change(connection, &to, &rows);
            // A commit that failed may have been kept all the same.
            let is_kept =
                |connection: &mut _| Ok::<_, rusqlite::Error>(tables::state(connection)?.version == to.version);
            changed.or_else(|error| if is_kept(connection)? { Ok(()) } else { Err(error) })
        })
        .await
        .map(|()| Kept::Kept)
    }

    pub(super) async fn audit(&self, after: u64, max: usize) -> Result<Vec<AuditRow>, RecordError> {
        let rows = self.ask(move |connection| tables::audit(connection, after, max));
        tokio::time::timeout(ANSWER_WAIT, rows).await.map_err(|_| RecordError::Slow)?
    }

    /// Whether the thread has ended, or has had work for longer than a disk needs.
    pub(super) fn is_stuck(&self) -> bool {
        let is_late = self.busy.get().is_some_and(|(_, since)| since.elapsed() > ANSWER_WAIT);
        is_late || self.thread.is_finished()
    }

    pub(super) async fn save_sidecars(
        &self,
        sidecars: Vec<SavedSidecar>,
        forget_before_unix_ms: u64,
    ) -> Result<(), RecordError> {
        self.ask(move |connection| tables::save_sidecars(connection, &sidecars, forget_before_unix_ms)).await
    }

    pub(super) async fn save_reports(&self, reports: Vec<SavedReport>) -> Result<(), RecordError> {
        self.ask(move |connection| reports::save(connection, &reports)).await
    }

    pub(super) async fn outcomes(&self, query: OutcomeQuery) -> Result<Outcomes, RecordError> {
        let found = self.ask(move |connection| reports::find(connection, &query));
        tokio::time::timeout(ANSWER_WAIT, found).await.map_err(|_| RecordError::Slow)?
    }

    pub(super) async fn prune_reports(&self, end: ReportsEnd) -> Result<u64, RecordError> {
        self.ask(move |connection| reports::prune(connection, end)).await
    }

    pub(super) async fn claim_key(&self, claim: SavedKey) -> Result<ClaimedKey, RecordError> {
        self.ask(move |connection| keys::claim(connection, &claim)).await
    }

    pub(super) async fn settle_key(&self, claim: SavedKey, stored: (u64, String, String)) -> Result<bool, RecordError> {
        self.ask(move |connection| keys::settle(connection, &claim, &stored)).await
    }

    pub(super) async fn release_key(&self, claim: SavedKey) -> Result<(), RecordError> {
        self.ask(move |connection| keys::release(connection, &claim)).await
    }

    pub(super) async fn has_key(&self, key: String) -> Result<bool, RecordError> {
        self.ask(move |connection| keys::is_known(connection, &key)).await
    }

    pub(super) async fn prune_keys(&self, now_unix_ms: u64) -> Result<u64, RecordError> {
        self.ask(move |connection| keys::prune(connection, now_unix_ms)).await
    }

    pub(super) async fn save_changes(
        &self,
        origin: &str,
        changes: Vec<Change>,
        place: Option<IndexPlace>,
    ) -> Result<(), RecordError> {
        let origin = origin.to_owned();
        self.ask(move |connection| index::save(connection, &origin, &changes, place.as_ref())).await
    }

    pub(super) async fn find_changes(&self, wanted: Wanted) -> Result<Vec<IndexedChange>, RecordError> {
        let found = self.ask(move |connection| index::find(connection, &wanted));
        tokio::time::timeout(ANSWER_WAIT, found).await.map_err(|_| RecordError::Slow)?
    }

    pub(super) async fn find_changes_of(
        &self,
        jobs: Vec<String>,
        federation_ids: Vec<String>,
    ) -> Result<Vec<IndexedChange>, RecordError> {
        let found = self.ask(move |connection| index::find_of(connection, &jobs, &federation_ids));
        tokio::time::timeout(ANSWER_WAIT, found).await.map_err(|_| RecordError::Slow)?
    }

    pub(super) async fn changes_behind(
        &self,
        origin: &str,
        after: IndexPlace,
        max: usize,
    ) -> Result<Vec<IndexedChange>, RecordError> {
        let origin = origin.to_owned();
        let found = self.ask(move |connection| index::behind(connection, &origin, &after, max));
        tokio::time::timeout(ANSWER_WAIT, found).await.map_err(|_| RecordError::Slow)?
    }

    pub(super) async fn index_place(&self, origin: &str) -> Result<IndexPlace, RecordError> {
        let origin = origin.to_owned();
        self.ask(move |connection| index::place(connection, &origin)).await
    }

    pub(super) async fn index_epoch(&self) -> Result<String, RecordError> {
        self.ask(index::epoch).await
    }

    pub(super) async fn prune_changes(&self, before_ms: u64, rows_max: u64) -> Result<u64, RecordError> {
        self.ask(move |connection| index::prune(connection, before_ms, rows_max)).await
    }

    pub(super) async fn save_bodies(
        &self,
        origin: &str,
        bodies: Vec<SavedBody>,
        place: Option<IndexPlace>,
    ) -> Result<(), RecordError> {
        let origin = origin.to_owned();
        self.ask(move |connection| bodies::save(connection, &origin, &bodies, place.as_ref())).await
    }

    pub(super) async fn bodies_behind(
        &self,
        origin: &str,
        asked: BodiesBehind,
    ) -> Result<Vec<PlacedBody>, RecordError> {
        let origin = origin.to_owned();
        let found = self.ask(move |connection| bodies::behind(connection, &origin, &asked));
        tokio::time::timeout(ANSWER_WAIT, found).await.map_err(|_| RecordError::Slow)?
    }

    pub(super) async fn body(&self, job_id: String, region: String) -> Result<Option<SavedBody>, RecordError> {
        self.ask(move |connection| bodies::find(connection, &job_id, &region)).await
    }

    pub(super) async fn having_bodies(
        &self,
        copies: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, RecordError> {
        let found = self.ask(move |connection| bodies::having(connection, &copies));
        tokio::time::timeout(ANSWER_WAIT, found).await.map_err(|_| RecordError::Slow)?
    }

    pub(super) async fn bodies_place(&self, origin: &str) -> Result<IndexPlace, RecordError> {
        let origin = origin.to_owned();
        self.ask(move |connection| bodies::place(connection, &origin)).await
    }

    pub(super) async fn bodies_key_check(&self, sealed: Vec<u8>) -> Result<Vec<u8>, RecordError> {
        self.ask(move |connection| bodies::key_check(connection, &sealed)).await
    }

    pub(super) async fn prune_bodies(&self, end: BodiesEnd) -> Result<BodiesLeft, RecordError> {
        self.ask(move |connection| bodies::prune(connection, end)).await
    }

    pub(super) async fn limit(&self, region: &str) -> Result<SavedLimit, RecordError> {
        let region = region.to_owned();
        let found = self.ask(move |connection| limits::read(connection, &region));
        tokio::time::timeout(ANSWER_WAIT, found).await.map_err(|_| RecordError::Slow)?
    }

    pub(super) async fn change_limit(&self, region: &str, from: u64, holders: String) -> Result<Kept, RecordError> {
        let region = region.to_owned();
        self.ask(move |connection| limits::change(connection, &region, from, &holders)).await
    }

    /// Those of earlier processes: this one holds the file alone.
    pub(super) async fn statuses(&self, after: &StatusPlace) -> Result<Statuses, RecordError> {
        let sidecars = if after.written > 0 { Vec::new() } else { self.ask(tables::sidecars).await? };
        Ok(Statuses { sidecars, mark: 1, last: None })
    }

    /// Carries out work on the thread of the file.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, RecordError> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move |connection: &mut Connection| {
            // A client that disconnected waits for nothing.
            let _ = done.send(work(connection));
        });
        let _busy = Busy::begin(&self.busy);
        self.work.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => RecordError::Busy,
            TrySendError::Disconnected(_) => RecordError::Ended,
        })?;
        Ok(result.await.map_err(|_| RecordError::Ended)??)
    }
}

fn run(mut connection: Connection, waiting: &Receiver<Job>) {
    while let Ok(job) = waiting.recv() {
        job(&mut connection);
    }
}
