//! The content of the ledger of jobs in a record.

/// The names of rows that one append is about: as many as one report has changes.
pub(in crate::hub) const LEDGER_NAMES_MAX: usize = crate::replica::REPORT_LINES_MAX;
/// Rows that one statement drops or erases, so that others have their turn.
pub(in crate::hub) const LEDGER_AT_ONCE: u64 = 5_000;

/// One day of the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::hub) struct LedgerDay {
    /// Days since the Unix epoch.
    pub(in crate::hub) day: u64,
    /// How many rows it has, or had.
    pub(in crate::hub) rows: u64,
    /// Whether no row is added any more.
    pub(in crate::hub) is_closed: bool,
    /// Whether its rows were dropped at the end of their time.
    pub(in crate::hub) is_dropped: bool,
    /// The last signed head over its rows, where a key signs them.
    pub(in crate::hub) head: Option<String>,
}

/// The name of a step of a copy of a job. No two rows have the same one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub(in crate::hub) struct LedgerName {
    pub(in crate::hub) job_id: String,
    pub(in crate::hub) region: String,
    pub(in crate::hub) name: String,
}

/// A row of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct LedgerRow {
    pub(in crate::hub) day: u64,
    /// Its place in the day, from 0, without gaps.
    pub(in crate::hub) number: u64,
    pub(in crate::hub) name: LedgerName,
    /// The hash of the line as a leaf of the day's tree.
    pub(in crate::hub) leaf: Vec<u8>,
    /// The line; none once it was erased.
    pub(in crate::hub) line: Option<String>,
    /// The tenant of its job, and whether the job is bound to some regions, as far as the ledger has the job.
    pub(in crate::hub) of_job: Option<(Option<String>, bool)>,
}

/// A copy of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::hub) struct LedgerJob {
    pub(in crate::hub) job_id: String,
    pub(in crate::hub) region: String,
    pub(in crate::hub) tenant: Option<String>,
    pub(in crate::hub) job_type: Option<String>,
    /// Whether it is bound to some regions.
    pub(in crate::hub) is_bound: bool,
    /// Whether no worker has it and one may get it.
    pub(in crate::hub) is_waiting: bool,
    /// Units: milliseconds since the Unix epoch.
    pub(in crate::hub) enqueued_ms: u64,
    /// When the ledger got its last row. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) learned_ms: u64,
    /// All else, as JSON.
    pub(in crate::hub) document: String,
}

/// The state that an append begins with.
#[derive(Debug, Default)]
pub(in crate::hub) struct LedgerState {
    /// Rises with each append and each erasure.
    pub(in crate::hub) change: u64,
    /// The last closed day, or 0.
    pub(in crate::hub) closed: u64,
    /// The rows of the asked day.
    pub(in crate::hub) rows: u64,
    /// Those of the asked names that have a row.
    pub(in crate::hub) known: Vec<LedgerName>,
    /// The jobs that the names are of.
    pub(in crate::hub) jobs: Vec<LedgerJob>,
}

/// Rows behind the last one of a day, with the jobs that they change.
#[derive(Debug, Clone)]
pub(in crate::hub) struct LedgerAppend {
    /// That of the state that it begins with.
    pub(in crate::hub) change: u64,
    pub(in crate::hub) day: u64,
    /// How many rows the day had.
    pub(in crate::hub) from: u64,
    pub(in crate::hub) rows: Vec<LedgerRow>,
    pub(in crate::hub) jobs: Vec<LedgerJob>,
    /// The copies whose lines are erased, by id and region: their sidecar keeps them out of the ledger.
    pub(in crate::hub) erased: Vec<(String, String)>,
}

/// Jobs that wait, of which no more than so many are counted.
pub(in crate::hub) const LEDGER_COUNTED_MAX: u64 = 200_000;

/// How many jobs of a type and a tenant wait.
pub(in crate::hub) type LedgerDepth = (Option<String>, Option<String>, u64);

/// A place in the list of jobs, the newest first: when it was enqueued, its id, its region.
pub(in crate::hub) type LedgerPlace = (u64, String, String);

/// A part of the list of jobs, the newest first.
#[derive(Debug, Clone, Default)]
pub(in crate::hub) struct LedgerQuery {
    pub(in crate::hub) tenant: Option<String>,
    /// When they were enqueued: from, and before. Units: milliseconds since the Unix epoch.
    pub(in crate::hub) from_ms: u64,
    pub(in crate::hub) to_ms: u64,
    /// The place that the part goes on behind; none for the first part.
    pub(in crate::hub) behind: Option<LedgerPlace>,
    pub(in crate::hub) max: usize,
}
