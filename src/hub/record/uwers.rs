//! Tasks of UWER and dead letters in a record.

use super::uwer::{ClaimedTask, SavedLetter, SavedTask, TaskClaim};
use super::{Record, RecordError, postgres, sqlite};

impl Record {
    /// Claims a task for a call, unless another call has it.
    ///
    /// Errors: [`RecordError`]; it may have been claimed, and a second time changes nothing.
    pub(in crate::hub) async fn claim_task(&self, claim: TaskClaim) -> Result<ClaimedTask, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::claim(connection, &claim)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::claim(line, settings, &claim)).await
            }
        }
    }

    /// Keeps that the job of a task is in a region. Returns whether the record has it; else the task has another job.
    ///
    /// Errors: [`RecordError`]; it may have been kept, and a second time changes nothing.
    pub(in crate::hub) async fn settle_task(&self, claim: TaskClaim, region: &str) -> Result<bool, RecordError> {
        let region = region.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::settle(connection, &claim, &region)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::settle(line, settings, &claim, &region)).await
            }
        }
    }

    /// Ends the claim of a call that has sent nothing, or sent it in vain: the next call gets the task at once.
    ///
    /// Errors: [`RecordError`]; a second time changes nothing.
    pub(in crate::hub) async fn release_task(&self, claim: TaskClaim) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::release(connection, &claim)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::release(line, settings, &claim)).await
            }
        }
    }

    /// Drops the claim of a call, because no region takes its job: the key is free.
    ///
    /// Errors: [`RecordError`]; a second time changes nothing.
    pub(in crate::hub) async fn withdraw_task(&self, claim: TaskClaim) -> Result<(), RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::withdraw(connection, &claim)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::withdraw(line, settings, &claim)).await
            }
        }
    }

    /// The tasks of a workflow, or the task of a job, the oldest first, at most so many. `name`: either id, in small letters.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn tasks(&self, name: &str, max: u64) -> Result<Vec<SavedTask>, RecordError> {
        let name = name.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::tasks(connection, &name, max)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::tasks(line, settings, &name, max)).await
            }
        }
    }

    /// Drops the tasks that were stored, the claims that led to no job, and the dead letters that came last, longer than `retention_ms` ago: at most so
    /// many of each. Returns their number. `now_ms`: by the clock of a record of one hub; a database has its own.
    ///
    /// Errors: [`RecordError`]; some may have been dropped.
    pub(in crate::hub) async fn prune_tasks(
        &self,
        retention_ms: u64,
        now_ms: u64,
        max: u64,
    ) -> Result<u64, RecordError> {
        match self {
            Self::Sqlite(it) => {
                let before_ms = now_ms.saturating_sub(retention_ms);
                it.ask(move |connection| sqlite::uwer::prune(connection, before_ms, max)).await
            }
            Self::Postgres(it) => {
                let (line, settings) = it.index_line();
                Box::pin(postgres::uwer::prune(line, settings, retention_ms, max)).await
            }
        }
    }

    /// Keeps a dead letter, or counts one that is there already. Returns whether it is there: else there is no room for it.
    ///
    /// Errors: [`RecordError`]; it may have been kept.
    pub(in crate::hub) async fn keep_letter(&self, letter: SavedLetter) -> Result<bool, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::keep_letter(connection, &letter)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::keep_letter(line, settings, &letter)).await
            }
        }
    }

    /// A page of dead letters without their bytes, the newest first, behind a place: the time and the name of a letter.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn letters(
        &self,
        behind: (u64, String),
        max: u64,
    ) -> Result<Vec<SavedLetter>, RecordError> {
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::letters(connection, &behind, max)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::letters(line, settings, (behind.0, &behind.1), max)).await
            }
        }
    }

    /// One dead letter with its bytes.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn letter(&self, id: &str) -> Result<Option<SavedLetter>, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::letter(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::letter(line, settings, &id)).await
            }
        }
    }

    /// Drops a dead letter. Returns whether it was there.
    ///
    /// Errors: [`RecordError`]; it may have been dropped.
    pub(in crate::hub) async fn drop_letter(&self, id: &str) -> Result<bool, RecordError> {
        let id = id.to_owned();
        match self {
            Self::Sqlite(it) => it.ask(move |connection| sqlite::uwer::drop_letter(connection, &id)).await,
            Self::Postgres(it) => {
                let (line, settings) = it.key_line();
                Box::pin(postgres::uwer::drop_letter(line, settings, &id)).await
            }
        }
    }
}
