//! The journal's file: SQLite with a write-ahead log, every commit synced, locked by this process alone.

use std::ffi::OsString;
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};

use super::decision;
use super::leases::Lease;
use super::record::{Cancelled, Change, Keyed, Place, State, Unknown};
use crate::base::RegionId;

/// Says in the file's head that it is ours.
const APPLICATION: i64 = 0x4f4a_5346;
/// The journal's permission bits.
const MODE: u32 = 0o600;
/// The version of the tables.
const VERSION: i64 = 3;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS unknown (
  number INTEGER PRIMARY KEY, run INTEGER NOT NULL, job_id TEXT, known_as TEXT, tenant BLOB NOT NULL, body BLOB NOT NULL,
  region TEXT NOT NULL, federation_id TEXT, request_id TEXT NOT NULL, at_ms INTEGER NOT NULL, ended INTEGER NOT NULL,
  private INTEGER NOT NULL, proved INTEGER NOT NULL, state TEXT NOT NULL, going_region TEXT, going_job_id TEXT, elsewhere_region TEXT,
  elsewhere_job_id TEXT, cancelled TEXT, resolved_ms INTEGER);
CREATE TABLE IF NOT EXISTS keyed (
  key BLOB PRIMARY KEY, body BLOB NOT NULL, run INTEGER NOT NULL, at_ms INTEGER NOT NULL, job_id TEXT,
  private INTEGER NOT NULL, region TEXT, status INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lease (
  number INTEGER PRIMARY KEY, job_id TEXT NOT NULL, region TEXT NOT NULL, worker_id TEXT, started_at TEXT,
  visibility_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL);
";

/// Why the file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// What is in it cannot be read as a journal.
    Corrupt,
    /// An older version of this program has written it.
    Older,
    /// Anything else, by a closed word.
    Unusable(&'static str),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        let Some(code) = error.sqlite_error_code() else { return Self::Corrupt };
        match code {
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Unusable("held_by_another_process"),
            ErrorCode::DiskFull => Self::Unusable("disk_full"),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Self::Unusable("read_only"),
            ErrorCode::CannotOpen => Self::Unusable("cannot_open"),
            ErrorCode::SystemIoFailure => Self::Unusable("io_error"),
            ErrorCode::OutOfMemory => Self::Unusable("out_of_memory"),
            _ => Self::Unusable("sqlite_error"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Sqlite(Connection);

/// Makes the file one that only its owner may read, before anything is in it; SQLite gives its log the same mode. Ids and digests of
/// keys are nobody else's business.
fn keep_private(path: &Path) {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    // What does not come about here is told of when SQLite opens the file.
    let _ = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    for path in [path, Path::new(&log)] {
        let _ = std::fs::set_permissions(path, Permissions::from_mode(MODE));
    }
}

impl Sqlite {
    /// Opens the file, or makes it, and reads everything. A torn end of the log is left out by SQLite itself.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Change>), Trouble> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        keep_private(path);
        let connection = Connection::open_with_flags(path, flags)?;
        // Nobody else may have it, so there is nobody to wait for; and the index of the log then needs no shared memory.
        connection.busy_timeout(std::time::Duration::ZERO)?;
        pragma(&connection, "PRAGMA locking_mode=EXCLUSIVE")?;
        check_head(&connection)?;
        pragma(&connection, "PRAGMA journal_mode=WAL")?;
        pragma(&connection, "PRAGMA synchronous=FULL")?;
        if text(&connection, "PRAGMA quick_check(1)")? != "ok" {
            return Err(Trouble::Corrupt);
        }
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {TABLES} {} PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION}; COMMIT;",
            decision::TABLES
        ))?;
        let changes = read(&connection)?;
        Ok((Self(connection), changes))
    }

    /// Writes changes, all or none, and returns when they are on disk.
    pub(super) fn write<'c>(&mut self, changes: impl IntoIterator<Item = &'c Change>) -> Result<(), Trouble> {
        let transaction = self.0.transaction()?;
        for change in changes {
            apply(&transaction, change)?;
        }
        Ok(transaction.commit()?)
    }

    /// Puts these rows in the place of all others.
    pub(super) fn rewrite(&mut self, all: &[Change]) -> Result<(), Trouble> {
        let transaction = self.0.transaction()?;
        transaction.execute_batch("DELETE FROM unknown; DELETE FROM keyed; DELETE FROM lease;")?;
        for change in all {
            apply(&transaction, change)?;
        }
        Ok(transaction.commit()?)
    }

    /// Writes notes of jobs, all or none.
    pub(super) fn save_decisions(&mut self, rows: &[decision::Row], rows_max: usize) -> Result<(), Trouble> {
        Ok(decision::save(&mut self.0, rows, rows_max)?)
    }

    /// What is noted of a job; nothing where that cannot be read.
    pub(super) fn find_decisions(&self, wanted: &decision::Wanted) -> Vec<(u64, serde_json::Value)> {
        decision::find(&self.0, wanted).unwrap_or_default()
    }

    /// Bounds the file, as a full disk would; for tests.
    #[cfg(test)]
    pub(super) fn set_pages_max(&self, pages: u32) {
        pragma(&self.0, &format!("PRAGMA max_page_count={pages}")).unwrap();
    }
}

/// Moves a file that cannot be used aside, with what belongs to it; `word` says why in its new name.
pub(super) fn move_aside(path: &Path, word: &str, now_ms: u64) -> std::io::Result<()> {
    let with = |ending: &str| -> PathBuf {
        let mut name = OsString::from(path);
        name.push(ending);
        name.into()
    };
    std::fs::rename(path, with(&format!(".{word}-{now_ms}")))?;
    for ending in ["-wal", "-shm", "-journal"] {
        match std::fs::rename(with(ending), with(&format!(".{word}-{now_ms}{ending}"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A file of somebody else's, or of a later version, is left alone.
fn check_head(connection: &Connection) -> Result<(), Trouble> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if tables > 0 && number("PRAGMA application_id")? != APPLICATION {
        return Err(Trouble::Unusable("not_a_journal"));
    }
    match number("PRAGMA user_version")? {
        later if later > VERSION => Err(Trouble::Unusable("written_by_a_later_version")),
        older if older < VERSION && tables > 0 => Err(Trouble::Older),
        _ => Ok(()),
    }
}

fn text(connection: &Connection, pragma: &str) -> rusqlite::Result<String> {
    connection.query_row(pragma, [], |row| row.get(0))
}

fn pragma(connection: &Connection, pragma: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(pragma)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

fn apply(connection: &Connection, change: &Change) -> rusqlite::Result<()> {
    match change {
        Change::Unknown(it) => connection.execute(
            "INSERT OR REPLACE INTO unknown
             VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20)",
            params![
                whole(it.number),
                whole(it.run),
                it.job_id,
                it.known_as,
                it.tenant,
                it.body,
                it.region.as_str(),
                it.federation_id,
                it.request_id,
                whole(it.at_ms),
                it.ended,
                it.private,
                it.proved,
                it.state.as_str(),
                it.going.as_ref().map(|place| place.region.as_str()),
                it.going.as_ref().map(|place| &place.job_id),
                it.elsewhere.as_ref().map(|place| place.region.as_str()),
                it.elsewhere.as_ref().map(|place| &place.job_id),
                it.cancelled.map(Cancelled::as_str),
                it.resolved_ms.map(whole),
            ],
        ),
        Change::Keyed(it) => connection.execute(
            "INSERT OR REPLACE INTO keyed VALUES (?1,?2,?3,?4,?5,?6,?7,?8)",
            params![
                it.key,
                it.body,
                whole(it.run),
                whole(it.at_ms),
                it.job_id,
                it.private,
                it.region.as_ref().map(RegionId::as_str),
                it.status,
            ],
        ),
        Change::Lease(it) => connection.execute(
            "INSERT OR REPLACE INTO lease VALUES (?1,?2,?3,?4,?5,?6,?7)",
            params![
                whole(it.number),
                it.job_id,
                it.region.as_str(),
                it.worker_id,
                it.started_at,
                whole(u64::try_from(it.visibility.as_millis()).unwrap_or(u64::MAX)),
                whole(it.ends_ms),
            ],
        ),
        Change::DropLease(number) => connection.execute("DELETE FROM lease WHERE number=?1", [whole(*number)]),
        Change::DropUnknown(number) => connection.execute("DELETE FROM unknown WHERE number=?1", [whole(*number)]),
        Change::DropKeyed(key) => connection.execute("DELETE FROM keyed WHERE key=?1", [key]),
    }
    .map(drop)
}

/// Times and numbers are far below 2^63.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A row that makes no sense is passed over: it could not be acted on.
fn read(connection: &Connection) -> rusqlite::Result<Vec<Change>> {
    let mut changes = Vec::new();
    let mut statement = connection.prepare("SELECT * FROM unknown ORDER BY number")?;
    for row in statement.query_map([], unknown)? {
        changes.extend(row?.map(Change::Unknown));
    }
    let mut statement = connection.prepare("SELECT * FROM keyed ORDER BY at_ms")?;
    for row in statement.query_map([], keyed)? {
        changes.push(Change::Keyed(row?));
    }
    let mut statement = connection.prepare("SELECT * FROM lease ORDER BY number")?;
    for row in statement.query_map([], lease)? {
        changes.extend(row?.map(Change::Lease));
    }
    Ok(changes)
}

fn number(row: &Row<'_>, name: &str) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(name)?).unwrap_or(0))
}

fn region(row: &Row<'_>, name: &str) -> rusqlite::Result<Option<RegionId>> {
    Ok(row.get::<_, Option<String>>(name)?.and_then(|id| RegionId::parse(&id).ok()))
}

fn place(row: &Row<'_>, [region_name, job_id]: [&str; 2]) -> rusqlite::Result<Option<Place>> {
    let place = region(row, region_name)?.zip(row.get(job_id)?);
    Ok(place.map(|(region, job_id)| Place { region, job_id }))
}

fn unknown(row: &Row<'_>) -> rusqlite::Result<Option<Unknown>> {
    let (Some(sent_to), Some(state)) = (region(row, "region")?, State::parse(&row.get::<_, String>("state")?)) else {
        return Ok(None);
    };
    Ok(Some(Unknown {
        number: number(row, "number")?,
        run: number(row, "run")?,
        job_id: row.get("job_id")?,
        known_as: row.get("known_as")?,
        tenant: row.get("tenant")?,
        body: row.get("body")?,
        region: sent_to,
        federation_id: row.get("federation_id")?,
        request_id: row.get("request_id")?,
        at_ms: number(row, "at_ms")?,
        ended: row.get("ended")?,
        private: row.get("private")?,
        proved: row.get("proved")?,
        state,
        going: place(row, ["going_region", "going_job_id"])?,
        elsewhere: place(row, ["elsewhere_region", "elsewhere_job_id"])?,
        cancelled: row.get::<_, Option<String>>("cancelled")?.and_then(|word| Cancelled::parse(&word)),
        resolved_ms: row.get::<_, Option<i64>>("resolved_ms")?.and_then(|at| u64::try_from(at).ok()),
    }))
}

fn keyed(row: &Row<'_>) -> rusqlite::Result<Keyed> {
    Ok(Keyed {
        key: row.get("key")?,
        body: row.get("body")?,
        run: number(row, "run")?,
        at_ms: number(row, "at_ms")?,
        job_id: row.get("job_id")?,
        private: row.get("private")?,
        region: region(row, "region")?,
        status: row.get("status")?,
    })
}

/// Of an earlier run: whether it still holds, only its region knows.
fn lease(row: &Row<'_>) -> rusqlite::Result<Option<Lease>> {
    let Some(region) = region(row, "region")? else { return Ok(None) };
    Ok(Some(Lease {
        number: number(row, "number")?,
        job_id: row.get("job_id")?,
        region,
        worker_id: row.get("worker_id")?,
        started_at: row.get("started_at")?,
        visibility: std::time::Duration::from_millis(number(row, "visibility_ms")?),
        until: None,
        ends_ms: number(row, "ends_ms")?,
    }))
}
