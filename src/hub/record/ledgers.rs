//! The ledger of jobs in a record: its history, a row for each step of a job, and the jobs that follow from it.

use super::ledger::{LedgerAppend, LedgerDay, LedgerDepth, LedgerJob, LedgerName, LedgerQuery, LedgerRow, LedgerState};
use super::{Kept, Record, RecordError, postgres, sqlite};

/// Calls the function of either engine.
macro_rules! of_either {
    ($record:expr, $name:ident($($value:ident),*)) => {
        match $record {
            Record::Sqlite(it) => it.ask(move |connection| sqlite::ledger::$name(connection, $(&$value),*)).await,
            Record::Postgres(it) => {
                let (line, settings) = it.index_line();
                // Boxed, because it can make a connection, which needs much room.
                Box::pin(postgres::ledger::$name(line, settings, $(&$value),*)).await
            }
        }
    };
}

impl Record {
    /// The state of a day, and that of the jobs that these names are of.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn ledger_state(
        &self,
        day: u64,
        names: Vec<LedgerName>,
    ) -> Result<LedgerState, RecordError> {
        of_either!(self, state(day, names))
    }

    /// Adds rows and keeps the jobs, all or nothing. Nothing is kept where the ledger has changed by now, or the day is closed.
    ///
    /// Errors: [`RecordError`]; it may have been kept, and the names of the rows say so.
    pub(in crate::hub) async fn append_ledger(&self, append: LedgerAppend) -> Result<Kept, RecordError> {
        of_either!(self, append(append))
    }

    /// A part of the list of jobs.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn ledger_jobs(&self, query: LedgerQuery) -> Result<Vec<LedgerJob>, RecordError> {
        of_either!(self, jobs(query))
    }

    /// The copies of one job, by region; at most a hundred.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn ledger_job(&self, job_id: String) -> Result<Vec<LedgerJob>, RecordError> {
        of_either!(self, copies(job_id))
    }

    /// How many jobs wait, by type and tenant, most first; at most so many kinds, and of the first [`super::ledger::LEDGER_COUNTED_MAX`] jobs.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn ledger_depth(&self) -> Result<Vec<LedgerDepth>, RecordError> {
        of_either!(self, depth())
    }

    /// The rows of a copy of a job, in order, at most so many.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn ledger_history(
        &self,
        copy: (String, String),
        max: usize,
    ) -> Result<Vec<LedgerRow>, RecordError> {
        of_either!(self, history(copy, max))
    }

    /// The rows of a day from a number on, in order, at most so many.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn ledger_rows(
        &self,
        day: u64,
        from: u64,
        max: usize,
    ) -> Result<Vec<LedgerRow>, RecordError> {
        of_either!(self, rows(day, from, max))
    }

    /// The leaves of a day from a number on, in order, at most so many.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn ledger_leaves(
        &self,
        day: u64,
        from: u64,
        max: usize,
    ) -> Result<Vec<Vec<u8>>, RecordError> {
        of_either!(self, leaves(day, from, max))
    }

    /// The days from one to another, both included, in order; at most a thousand.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn ledger_days(&self, from: u64, to: u64) -> Result<Vec<LedgerDay>, RecordError> {
        of_either!(self, days(from, to))
    }

    /// Closes a day that has these rows, with the signed head over them. Nothing is kept where it has others, or is closed.
    ///
    /// Errors: [`RecordError`]; it may have been kept.
    pub(in crate::hub) async fn close_ledger_day(
        &self,
        day: u64,
        rows: u64,
        head: String,
    ) -> Result<Kept, RecordError> {
        of_either!(self, close(day, rows, head))
    }

    /// Drops some of the rows of the days before one, and of the jobs that have had no row since a time. Returns how many.
    ///
    /// Errors: [`RecordError`].
    pub(in crate::hub) async fn prune_ledger(&self, before_day: u64, learned_ms: u64) -> Result<u64, RecordError> {
        of_either!(self, prune(before_day, learned_ms))
    }

    /// Erases some jobs of a tenant, and the lines of their rows; the leaves stay, and a mark, so that later steps of them add nothing. Returns how many
    /// jobs and lines. `mark`: the document that a job has from then on.
    ///
    /// Errors: [`RecordError`]; some may have been erased.
    pub(in crate::hub) async fn forget_ledger(&self, tenant: String, mark: String) -> Result<(u64, u64), RecordError> {
        of_either!(self, forget(tenant, mark))
    }

    /// Lets every append fail that has read the ledger before.
    ///
    /// Errors: [`RecordError`]; it may have been done.
    pub(in crate::hub) async fn turn_ledger(&self) -> Result<(), RecordError> {
        of_either!(self, turn())
    }
}
