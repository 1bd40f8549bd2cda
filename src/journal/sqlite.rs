//! The journal's file: SQLite with a write-ahead log, every commit synced, locked by this process alone.

use std::ffi::OsString;
use std::fs::{OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Row, params};

use super::change::Change;
use super::columns::{number, region};
use super::engine::{Engine, Trouble};
use super::lease::{Lease, LeasePlace};
use super::{decision, older};
use crate::outcome::{Moment, Placement};

/// Says in the file's head that it is ours.
const APPLICATION: i64 = 0x4f4a_5346;
/// The journal's permission bits.
const MODE: u32 = 0o600;
/// The version of the tables.
const VERSION: i64 = 4;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS placement (number INTEGER PRIMARY KEY, run INTEGER NOT NULL, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS secret (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), bytes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS switches (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS hub (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS put_pools (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS quotas (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS lease (
  number INTEGER PRIMARY KEY, job_id TEXT NOT NULL, region TEXT NOT NULL, worker_id TEXT, started_at TEXT,
  visibility_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS place (number INTEGER PRIMARY KEY, pool TEXT, queue TEXT);
CREATE TABLE IF NOT EXISTS slot (number INTEGER PRIMARY KEY, quota TEXT NOT NULL);
";

#[derive(Debug)]
pub(super) struct Sqlite(Connection);

/// Makes the file readable for its owner only, before it has content; SQLite gives its log the same mode. Ids and
/// digests of keys are private.
fn keep_private(path: &Path) {
    // A file that cannot be made here is reported when SQLite opens it.
    let _ = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    for path in [path, &beside(path, "-wal")] {
        let _ = std::fs::set_permissions(path, Permissions::from_mode(MODE));
    }
}

impl Sqlite {
    /// Opens the file, or makes it, and changes nothing in it. A torn end of the log is left out by SQLite itself.
    pub(super) fn open(path: &Path) -> Result<Self, Trouble> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        keep_private(path);
        let connection = Connection::open_with_flags(path, flags)?;
        // No other process may have the file, so that there is no lock to wait for; and the index of the log then needs
        // no shared memory.
        connection.busy_timeout(std::time::Duration::ZERO)?;
        pragma(&connection, "PRAGMA locking_mode=EXCLUSIVE")?;
        check_head(&connection)?;
        pragma(&connection, "PRAGMA journal_mode=WAL")?;
        pragma(&connection, "PRAGMA synchronous=FULL")?;
        if text(&connection, "PRAGMA quick_check(1)")? != "ok" {
            return Err(Trouble::Corrupt);
        }
        Ok(Self(connection))
    }

    /// Opens a read-only file to load it: no lock is taken and no file is made beside it. Its log is read with an index
    /// in memory, for which the log must exist; without a log the file is complete.
    pub(super) fn open_to_read(path: &Path) -> Result<Self, Trouble> {
        let has_log = std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.is_file() && log.len() > 0);
        let how = if has_log { "vfs=unix-none" } else { "immutable=1" };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(format!("file:{}?{how}", in_uri(path)), flags)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        pragma(&connection, "PRAGMA locking_mode=EXCLUSIVE")?;
        check_head(&connection)?;
        Ok(Self(connection))
    }

    /// Bounds the file, as a full disk would; for tests.
    #[cfg(test)]
    pub(super) fn set_pages_max(&self, pages: u32) {
        pragma(&self.0, &format!("PRAGMA max_page_count={pages}")).unwrap();
    }
}

impl Engine for Sqlite {
    fn load(&mut self) -> Result<Vec<Change>, Trouble> {
        Ok(match version(&self.0)? {
            0 => Vec::new(),
            older::VERSION => [older::placements(&self.0)?, leases(&self.0)?].concat(),
            _ => read(&self.0)?,
        })
    }

    fn health(&mut self) -> Result<(), Trouble> {
        let older = if version(&self.0)? == older::VERSION { older::placements(&self.0)? } else { Vec::new() };
        let transaction = self.0.transaction()?;
        transaction.execute_batch(&format!(
            "{} {TABLES} {} PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION};",
            older::DROP,
            decision::TABLES
        ))?;
        for change in &older {
            apply(&transaction, change)?;
        }
        Ok(transaction.commit()?)
    }

    fn append(&mut self, changes: &[&Change]) -> Result<(), Trouble> {
        let transaction = self.0.transaction()?;
        for change in changes {
            apply(&transaction, change)?;
        }
        Ok(transaction.commit()?)
    }

    fn compact(&mut self, all: &[Change]) -> Result<(), Trouble> {
        let transaction = self.0.transaction()?;
        transaction.execute_batch(
            "DELETE FROM placement; DELETE FROM secret; DELETE FROM lease; DELETE FROM place; DELETE FROM slot; DELETE FROM switches; DELETE FROM hub; DELETE FROM put_pools; DELETE FROM quotas;",
        )?;
        for change in all {
            apply(&transaction, change)?;
        }
        Ok(transaction.commit()?)
    }

    fn tables(&mut self) -> Option<&mut Connection> {
        Some(&mut self.0)
    }
}

/// The name of a file that belongs to the journal's file.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

/// A path in which nothing is taken for a part of a URI that is none.
fn in_uri(path: &Path) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(byte);
    let shown = |byte: &u8| if is_plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    path.as_os_str().as_bytes().iter().map(shown).collect()
}

/// Renames an unusable file together with the files that belong to it; `word` in the new name says why.
pub(super) fn move_aside(path: &Path, word: &str, now_ms: u64) -> std::io::Result<()> {
    let with = |ending: &str| beside(path, ending);
    std::fs::rename(path, with(&format!(".{word}-{now_ms}")))?;
    for ending in ["-wal", "-shm", "-journal"] {
        match std::fs::rename(with(ending), with(&format!(".{word}-{now_ms}{ending}"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// A file of another program, or of a later version, is left as it is.
fn check_head(connection: &Connection) -> Result<(), Trouble> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if tables > 0 && number("PRAGMA application_id")? != APPLICATION {
        return Err(Trouble::Unusable("not_a_journal"));
    }
    match number("PRAGMA user_version")? {
        later if later > VERSION => Err(Trouble::Unusable("written_by_a_later_version")),
        older if older < older::VERSION && tables > 0 => Err(Trouble::Older),
        _ => Ok(()),
    }
}

/// The version of the tables; 0 where there are none yet.
fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
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
        Change::Placement(run, it) => {
            let values = params![whole(it.number), whole(*run), in_json(it)?];
            connection.execute("INSERT OR REPLACE INTO placement VALUES (?1,?2,?3)", values)
        }
        Change::Secret(bytes) => connection.execute("INSERT OR REPLACE INTO secret VALUES (1,?1)", [bytes]),
        Change::Lease(it) => put_lease(connection, it),
        Change::Switches(switches) => {
            connection.execute("INSERT OR REPLACE INTO switches VALUES (1, ?1)", [in_json(switches)?])
        }
        Change::Hub(state) => connection.execute("INSERT OR REPLACE INTO hub VALUES (1, ?1)", [in_json(state)?]),
        Change::PutPools(pools) => {
            connection.execute("INSERT OR REPLACE INTO put_pools VALUES (1, ?1)", [in_json(pools)?])
        }
        Change::Quotas(quotas) => {
            connection.execute("INSERT OR REPLACE INTO quotas VALUES (1, ?1)", [in_json(quotas)?])
        }
        Change::DropLease(number) => connection.execute("DELETE FROM lease WHERE number=?1", [whole(*number)]),
        Change::DropPlace(number) => {
            connection.execute("DELETE FROM slot WHERE number=?1", [whole(*number)])?;
            connection.execute("DELETE FROM place WHERE number=?1", [whole(*number)])
        }
        Change::DropPlacement(number) => connection.execute("DELETE FROM placement WHERE number=?1", [whole(*number)]),
    }
    .map(drop)
}

fn put_lease(connection: &Connection, it: &Lease) -> rusqlite::Result<usize> {
    if let Some(LeasePlace { pool, queue, slot }) = &it.place {
        let values = params![whole(it.number), pool.as_deref(), queue.as_deref()];
        connection.execute("INSERT OR REPLACE INTO place VALUES (?1,?2,?3)", values)?;
        if let Some(quota) = slot {
            connection.execute("INSERT OR REPLACE INTO slot VALUES (?1,?2)", params![whole(it.number), &**quota])?;
        }
    }
    connection.execute(
        "INSERT OR REPLACE INTO lease VALUES (?1,?2,?3,?4,?5,?6,?7)",
        params![
            whole(it.number),
            it.job_id,
            it.region.as_str(),
            it.worker_id,
            it.started_at,
            whole(u64::try_from(it.visibility.as_millis()).unwrap_or(u64::MAX)),
            whole(it.ends.0),
        ],
    )
}

fn in_json(it: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(it).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Times and numbers are far below 2^63.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A row that makes no sense is passed over: it could not be acted on.
fn read(connection: &Connection) -> rusqlite::Result<Vec<Change>> {
    let mut changes = Vec::new();
    let mut statement = connection.prepare("SELECT * FROM placement ORDER BY number")?;
    for row in statement.query_map([], placement)? {
        changes.extend(row?);
    }
    let mut statement = connection.prepare("SELECT bytes FROM secret")?;
    for row in statement.query_map([], |row| row.get(0))? {
        changes.push(Change::Secret(row?));
    }
    changes.extend(leases(connection)?);
    changes.extend(only(connection, "switches")?.map(Change::Switches));
    changes.extend(only(connection, "hub")?.map(Change::Hub));
    changes.extend(only(connection, "put_pools")?.map(Change::PutPools));
    changes.extend(only(connection, "quotas")?.map(Change::Quotas));
    Ok(changes)
}

/// The document of a table with one row; `None` also where an earlier version of the program had no such table.
fn only<T: serde::de::DeserializeOwned>(connection: &Connection, table: &str) -> rusqlite::Result<Option<T>> {
    if !connection.table_exists(None, table)? {
        return Ok(None);
    }
    let query = format!("SELECT document FROM {table}");
    let document = connection.query_row(&query, [], |row| row.get::<_, String>(0)).optional()?;
    Ok(document.and_then(|document| serde_json::from_str(&document).ok()))
}

fn leases(connection: &Connection) -> rusqlite::Result<Vec<Change>> {
    let mut changes = Vec::new();
    // Earlier versions of the program had no places, and no slots.
    let query = match (connection.table_exists(None, "place")?, connection.table_exists(None, "slot")?) {
        (true, true) => {
            "SELECT lease.*, pool, queue, quota FROM lease LEFT JOIN place USING (number) LEFT JOIN slot USING (number) ORDER BY number"
        }
        (true, false) => {
            "SELECT lease.*, pool, queue, NULL AS quota FROM lease LEFT JOIN place USING (number) ORDER BY number"
        }
        (false, _) => "SELECT *, NULL AS pool, NULL AS queue, NULL AS quota FROM lease ORDER BY number",
    };
    let mut statement = connection.prepare(query)?;
    for row in statement.query_map([], lease)? {
        changes.extend(row?.map(Change::Lease));
    }
    Ok(changes)
}

fn placement(row: &Row<'_>) -> rusqlite::Result<Option<Change>> {
    let (run, document) = (number(row, "run")?, row.get::<_, String>("document")?);
    let read: Option<Placement> = serde_json::from_str(&document).ok();
    let number = number(row, "number")?;
    // 0 is given to none: such a row was not written by this program.
    Ok(read.filter(|_| number > 0).map(|placement| Change::Placement(run, Placement { number, ..placement })))
}

/// Of an earlier run: whether it still holds, only its region knows.
fn lease(row: &Row<'_>) -> rusqlite::Result<Option<Lease>> {
    let Some(region) = region(row, "region")? else { return Ok(None) };
    let name = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(column)?.map(Into::into));
    let place = LeasePlace { pool: name("pool")?, queue: name("queue")?, slot: name("quota")? };
    Ok(Some(Lease {
        number: number(row, "number")?,
        job_id: row.get("job_id")?,
        region,
        worker_id: row.get("worker_id")?,
        started_at: row.get("started_at")?,
        visibility: std::time::Duration::from_millis(number(row, "visibility_ms")?),
        until: None,
        ends: Moment(number(row, "ends_ms")?),
        place: (place.is_of_pools() || place.slot.is_some()).then_some(place),
    }))
}
