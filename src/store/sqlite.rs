//! The journal's file: SQLite with a write-ahead log, every commit synced, locked by this process alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};

use super::record::{Change, Digest, Keyed, Place, State, Unknown};
use crate::base::RegionId;

/// Says in the file's head that it is ours.
const APPLICATION: i64 = 0x4f4a_5346;
/// The version of the tables.
const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS unknown (
  number INTEGER PRIMARY KEY, job_id TEXT, region TEXT NOT NULL, federation_id TEXT, request_id TEXT NOT NULL,
  at_ms INTEGER NOT NULL, ended INTEGER NOT NULL, private INTEGER NOT NULL, state TEXT NOT NULL,
  elsewhere_region TEXT, elsewhere_job_id TEXT, cancelled_in TEXT, resolved_ms INTEGER);
CREATE TABLE IF NOT EXISTS keyed (
  key BLOB PRIMARY KEY, body BLOB NOT NULL, at_ms INTEGER NOT NULL, job_id TEXT, region TEXT,
  status INTEGER NOT NULL) WITHOUT ROWID;
";

/// Why the file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// What is in it cannot be read as a journal.
    Corrupt,
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

impl Sqlite {
    /// Opens the file, or makes it, and reads everything. A torn end of the log is left out by SQLite itself.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Change>), Trouble> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
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
            "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION}; COMMIT;"
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
        transaction.execute_batch("DELETE FROM unknown; DELETE FROM keyed;")?;
        for change in all {
            apply(&transaction, change)?;
        }
        Ok(transaction.commit()?)
    }

    /// Bounds the file, as a full disk would; for tests.
    #[cfg(test)]
    pub(super) fn set_pages_max(&self, pages: u32) {
        pragma(&self.0, &format!("PRAGMA max_page_count={pages}")).unwrap();
    }
}

/// Moves a file that cannot be read aside, with what belongs to it.
pub(super) fn move_aside(path: &Path, now_ms: u64) -> std::io::Result<()> {
    let with = |ending: &str| -> PathBuf {
        let mut name = OsString::from(path);
        name.push(ending);
        name.into()
    };
    std::fs::rename(path, with(&format!(".corrupt-{now_ms}")))?;
    for ending in ["-wal", "-shm", "-journal"] {
        match std::fs::rename(with(ending), with(&format!(".corrupt-{now_ms}{ending}"))) {
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
    if number("PRAGMA user_version")? > VERSION {
        return Err(Trouble::Unusable("written_by_a_later_version"));
    }
    Ok(())
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
            "INSERT OR REPLACE INTO unknown VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)",
            params![
                whole(it.number),
                it.job_id,
                it.region.as_str(),
                it.federation_id,
                it.request_id,
                whole(it.at_ms),
                it.ended,
                it.private,
                it.state.as_str(),
                it.elsewhere.as_ref().map(|place| place.region.as_str()),
                it.elsewhere.as_ref().map(|place| &place.job_id),
                it.cancelled_in.as_ref().map(RegionId::as_str),
                it.resolved_ms.map(whole),
            ],
        ),
        Change::Keyed(it) => connection.execute(
            "INSERT OR REPLACE INTO keyed VALUES (?1,?2,?3,?4,?5,?6)",
            params![it.key, it.body, whole(it.at_ms), it.job_id, it.region.as_ref().map(RegionId::as_str), it.status,],
        ),
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
    let mut statement = connection.prepare(
        "SELECT number, job_id, region, federation_id, request_id, at_ms, ended, private, state, elsewhere_region,
                elsewhere_job_id, cancelled_in, resolved_ms FROM unknown ORDER BY number",
    )?;
    for row in statement.query_map([], unknown)? {
        changes.extend(row?.map(Change::Unknown));
    }
    let mut statement =
        connection.prepare("SELECT key, body, at_ms, job_id, region, status FROM keyed ORDER BY at_ms")?;
    for row in statement.query_map([], keyed)? {
        changes.push(Change::Keyed(row?));
    }
    Ok(changes)
}

fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0))
}

fn region(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<RegionId>> {
    Ok(row.get::<_, Option<String>>(at)?.and_then(|id| RegionId::parse(&id).ok()))
}

fn unknown(row: &Row<'_>) -> rusqlite::Result<Option<Unknown>> {
    let (Some(sent_to), Some(state)) = (region(row, 2)?, State::parse(&row.get::<_, String>(8)?)) else {
        return Ok(None);
    };
    let elsewhere = region(row, 9)?.zip(row.get::<_, Option<String>>(10)?);
    Ok(Some(Unknown {
        number: number(row, 0)?,
        job_id: row.get(1)?,
        region: sent_to,
        federation_id: row.get(3)?,
        request_id: row.get(4)?,
        at_ms: number(row, 5)?,
        ended: row.get(6)?,
        private: row.get(7)?,
        state,
        elsewhere: elsewhere.map(|(region, job_id)| Place { region, job_id }),
        cancelled_in: region(row, 11)?,
        resolved_ms: row.get::<_, Option<i64>>(12)?.and_then(|at| u64::try_from(at).ok()),
    }))
}

fn keyed(row: &Row<'_>) -> rusqlite::Result<Keyed> {
    Ok(Keyed {
        key: row.get::<_, Digest>(0)?,
        body: row.get::<_, Digest>(1)?,
        at_ms: number(row, 2)?,
        job_id: row.get(3)?,
        region: region(row, 4)?,
        status: row.get(5)?,
    })
}
