//! The tables of a hub's record in SQLite.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::audit::{AuditRow, Head};
use super::content::{Loaded, RecordError, SavedSidecar};
use crate::switch::Switches;

/// Says in the file's head that it is a hub's.
const APPLICATION: i64 = 0x4f4a_5348;
/// The version of the tables.
const VERSION: i64 = 1;
/// Names of sidecars and reasons of operators are private.
const MODE: u32 = 0o600;

const TABLES: &str = "
CREATE TABLE state (
  only_one INTEGER PRIMARY KEY CHECK (only_one = 1), change INTEGER NOT NULL, switches TEXT NOT NULL);
CREATE TABLE audit (
  number INTEGER PRIMARY KEY, unix_ms INTEGER NOT NULL, caller TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL,
  lasts_ms INTEGER, force INTEGER NOT NULL, reason TEXT NOT NULL, ticket TEXT NOT NULL, author TEXT NOT NULL,
  previous TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE sidecar (
  name TEXT PRIMARY KEY, caller TEXT NOT NULL, status TEXT NOT NULL, seen_unix_ms INTEGER NOT NULL);
";

/// Opens a file that no other process holds, and makes its tables where it is new.
pub(super) fn open(path: Option<&Path>) -> Result<Connection, RecordError> {
    let mut connection = match path {
        Some(path) => {
            // A file that cannot be made here is reported when SQLite opens it.
            let _ = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
            let _ = std::fs::set_permissions(path, Permissions::from_mode(MODE));
            Connection::open(path)?
        }
        None => Connection::open_in_memory()?,
    };
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if tables > 0 && number("PRAGMA application_id")? != APPLICATION {
        return Err(RecordError::Foreign);
    }
    let version = number("PRAGMA user_version")?;
    if version > VERSION {
        return Err(RecordError::Later);
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Takes the lock also where there is nothing to make.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)?;
    if version == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.execute("INSERT INTO state VALUES (1, 0, ?1)", [in_json(&Switches::default())?])?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(connection)
}

pub(super) fn load(connection: &mut Connection) -> rusqlite::Result<Loaded> {
    let switches = connection.query_row("SELECT switches FROM state", [], |row| row.get::<_, String>(0))?;
    let end = connection
        .query_row("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1", [], |row| {
            Ok(Head { number: whole(row, "number")?, hash: row.get("hash")? })
        })
        .optional()?;
    let mut statement = connection.prepare("SELECT * FROM sidecar")?;
    let sidecars = statement.query_map([], |row| {
        Ok(SavedSidecar {
            name: row.get("name")?,
            caller: row.get("caller")?,
            status: row.get("status")?,
            seen_unix_ms: whole(row, "seen_unix_ms")?,
        })
    })?;
    Ok(Loaded {
        change: last_change(connection)?,
        switches: serde_json::from_str(&switches)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into()))?,
        head: end.unwrap_or_default(),
        sidecars: sidecars.collect::<Result<_, _>>()?,
    })
}

/// The number of the last change.
pub(super) fn last_change(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT change FROM state", [], |row| whole(row, "change"))
}

pub(super) fn change(
    connection: &mut Connection,
    number: u64,
    switches: &Switches,
    rows: &[AuditRow],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let values = params![signed(number), in_json(switches)?];
    transaction.execute("UPDATE state SET change = ?1, switches = ?2", values)?;
    for row in rows {
        let lasts_ms = row.lasts_ms.map(signed);
        transaction.execute(
            "INSERT INTO audit VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)",
            params![
                signed(row.number),
                signed(row.unix_ms),
                row.caller,
                row.action,
                row.subject,
                lasts_ms,
                row.force,
                row.reason,
                row.ticket,
                row.author,
                row.previous,
                row.hash,
            ],
        )?;
    }
    transaction.commit()
}

pub(super) fn audit(connection: &mut Connection, after: u64, max: usize) -> rusqlite::Result<Vec<AuditRow>> {
    let mut statement = connection.prepare("SELECT * FROM audit WHERE number > ?1 ORDER BY number LIMIT ?2")?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![signed(after), max], |row| {
        Ok(AuditRow {
            number: whole(row, "number")?,
            unix_ms: whole(row, "unix_ms")?,
            caller: row.get("caller")?,
            action: row.get("action")?,
            subject: row.get("subject")?,
            lasts_ms: row.get::<_, Option<i64>>("lasts_ms")?.map(unsigned),
            force: row.get("force")?,
            reason: row.get("reason")?,
            ticket: row.get("ticket")?,
            author: row.get("author")?,
            previous: row.get("previous")?,
            hash: row.get("hash")?,
        })
    })?;
    rows.collect()
}

pub(super) fn save_sidecars(
    connection: &mut Connection,
    sidecars: &[SavedSidecar],
    forget_before_unix_ms: u64,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for SavedSidecar { name, caller, status, seen_unix_ms } in sidecars {
        let values = params![name, caller, status, signed(*seen_unix_ms)];
        transaction.execute("INSERT OR REPLACE INTO sidecar VALUES (?1,?2,?3,?4)", values)?;
    }
    transaction.execute("DELETE FROM sidecar WHERE seen_unix_ms < ?1", [signed(forget_before_unix_ms)])?;
    transaction.commit()
}

fn in_json(switches: &Switches) -> rusqlite::Result<String> {
    serde_json::to_string(switches).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Times and numbers are far below 2^63.
fn signed(number: u64) -> i64 {
    debug_assert!(i64::try_from(number).is_ok());
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn whole(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(unsigned(row.get(column)?))
}

/// This program writes no number below 0.
fn unsigned(number: i64) -> u64 {
    debug_assert!(number >= 0);
    u64::try_from(number).unwrap_or(0)
}
