//! The record of a hub: switches, the audit trail and the inventory, in SQLite, on a thread of its own.
//!
//! One hub holds the file alone. A change is answered once its commit is synced. A file of a later version of the program is left as it is.

mod content;
mod tables;

use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::audit::AuditRow;
use crate::switch::{Switches, Version};
pub use content::RecordError;
pub(super) use content::{Loaded, SavedSidecar};

/// Requests that wait for the thread. Changes by operators are rare; a full queue means that the disk is stuck.
const QUEUE_MAX: usize = 256;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The record of a hub. Dropped, its thread ends.
#[derive(Debug)]
pub(super) struct Record {
    work: SyncSender<Job>,
    has_file: bool,
}

impl Record {
    /// Opens the file, or makes it, and reads all of it; without a path the record is in memory.
    ///
    /// Errors: [`RecordError`].
    pub(super) fn open(path: Option<&Path>) -> Result<(Self, Loaded), RecordError> {
        let mut connection = tables::open(path)?;
        let loaded = tables::load(&mut connection)?;
        let (work, waiting) = mpsc::sync_channel(QUEUE_MAX);
        let body = move || run(connection, &waiting);
        std::thread::Builder::new().name("ojs-record".to_owned()).spawn(body).map_err(RecordError::Thread)?;
        Ok((Self { work, has_file: path.is_some() }, loaded))
    }

    /// Whether a restart keeps its content.
    pub(super) const fn is_durable(&self) -> bool {
        self.has_file
    }

    /// Keeps a state of the switches, and the rows of the audit trail that led to it, whole or not at all.
    ///
    /// Errors: nothing was kept.
    pub(super) async fn change(
        &self,
        version: &Version,
        switches: &Switches,
        rows: Vec<AuditRow>,
    ) -> Result<(), RecordError> {
        let (version, switches) = (version.clone(), switches.clone());
        self.ask(move |connection| {
            let changed = tables::change(connection, &version, &switches, &rows);
            // A commit that failed may have been kept all the same.
            changed.or_else(|error| if tables::version(connection)? == version { Ok(()) } else { Err(error) })
        })
        .await
    }

    /// Rows of the audit trail behind a number, in order, at most so many.
    pub(super) async fn audit(&self, after: u64, max: usize) -> Result<Vec<AuditRow>, RecordError> {
        self.ask(move |connection| tables::audit(connection, after, max)).await
    }

    /// Keeps the last statuses of sidecars, and drops those that were last seen before a time.
    pub(super) async fn save_sidecars(
        &self,
        sidecars: Vec<SavedSidecar>,
        forget_before_unix_ms: u64,
    ) -> Result<(), RecordError> {
        self.ask(move |connection| tables::save_sidecars(connection, &sidecars, forget_before_unix_ms)).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, RecordError> {
        let (done, result) = oneshot::channel();
        let job = Box::new(move |connection: &mut Connection| {
            // A client that disconnected waits for nothing.
            let _ = done.send(work(connection));
        });
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

#[cfg(test)]
mod tests;
