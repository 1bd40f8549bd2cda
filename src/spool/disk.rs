//! The file of the spool: SQLite with a write-ahead log, every commit synced, locked by this process alone.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};

use super::row::{Row, RowState};
use crate::replica::Seal;

/// Says in the file's head that it is a spool.
const APPLICATION: i64 = 0x4f4a_5350;
const VERSION: i64 = 1;
const MODE: u32 = 0o600;
/// Sealed at the file's beginning, so that a wrong key is known before any row is read.
const CHECK: &[u8] = b"ojs-sidecar spool";
/// A row's share of pages, indexes and memory beside its content. Units: bytes.
pub(super) const ROW_BYTES: u64 = 1_024;

const TABLES: &str = "
CREATE TABLE key_check (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), sealed BLOB NOT NULL);
CREATE TABLE job (
  number INTEGER PRIMARY KEY CHECK (number >= 0), state TEXT NOT NULL, reason TEXT, since_ms INTEGER NOT NULL CHECK (since_ms >= 0),
  head TEXT NOT NULL, copies TEXT NOT NULL, sealed BLOB NOT NULL);
";

/// The trouble that is damage of the rows that were read, and may be of one row alone.
pub(super) const DAMAGE: Trouble = "corrupt";

/// Why the file cannot be used, by a closed word.
pub(super) type Trouble = &'static str;

/// A change of the file.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// A new row: its number, the moment that its age counts from, its head and its sealed content.
    Store(u64, u64, String, String, Vec<u8>),
    /// Where a job was, or is about to be, sent.
    Copies(u64, String),
    Aside(u64, RowState, String),
    /// It waits again, and its age counts from this moment.
    Retry(u64, u64),
    Remove(u64),
}

/// The storage of rows, owned by one thread. After an error of [`Disk::commit`] it is not used any more.
pub(super) trait Disk: Send {
    /// All rows without their content; one that cannot be read is among them.
    fn rows(&mut self) -> Result<Vec<Row>, Trouble>;
    /// The head and the sealed content of a row; `None` where there is no such row.
    ///
    /// Errors: the row cannot be read.
    fn content(&mut self, number: u64) -> Result<Option<(String, Vec<u8>)>, Trouble>;
    /// Makes changes, all or none, and returns when they are safe. After an error it is not known whether they are made.
    fn commit(&mut self, changes: &[&Change]) -> Result<(), Trouble>;
}

/// Opens the storage, and reads its key; called again after each error.
pub(super) type Open = Box<dyn Fn() -> Result<(Box<dyn Disk>, Seal), Trouble> + Send>;

#[derive(Debug)]
pub(super) struct Sqlite(Connection);

impl Sqlite {
    /// Opens the file, or makes it.
    pub(super) fn open(path: &Path, seal: &Seal, nonce: super::RowNonce) -> Result<Self, Trouble> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        keep_private(path);
        let mut connection = Connection::open_with_flags(path, flags).map_err(word)?;
        // No other process may have the file, so that there is no lock to wait for.
        connection.busy_timeout(Duration::ZERO).map_err(word)?;
        pragma(&connection, "PRAGMA locking_mode=EXCLUSIVE").map_err(word)?;
        let tables: i64 = number(&connection, "SELECT count(*) FROM sqlite_schema").map_err(word)?;
        if tables > 0 {
            if number(&connection, "PRAGMA application_id").map_err(word)? != APPLICATION {
                return Err("not_a_spool");
            }
            if number(&connection, "PRAGMA user_version").map_err(word)? > VERSION {
                return Err("written_by_a_later_version");
            }
        }
        pragma(&connection, "PRAGMA journal_mode=WAL").map_err(word)?;
        pragma(&connection, "PRAGMA synchronous=FULL").map_err(word)?;
        if tables == 0 {
            make(&mut connection, seal, nonce)?;
        }
        sync_folder(path)?;
        let check: Option<Vec<u8>> =
            connection.query_row("SELECT sealed FROM key_check", [], |row| row.get(0)).optional().map_err(word)?;
        match check.and_then(|check| seal.open(CHECK, &check)) {
            Some(check) if check == CHECK => Ok(Self(connection)),
            _ => Err("wrong_key"),
        }
    }

    /// Bounds the file, as a full disk would; for tests.
    #[cfg(test)]
    pub(super) fn set_pages_max(&self, pages: u32) {
        pragma(&self.0, &format!("PRAGMA max_page_count={pages}")).unwrap();
    }

    fn row(&self, number: u64) -> rusqlite::Result<Row> {
        let query = "SELECT state, reason, since_ms, head, copies, length(sealed) FROM job WHERE number = ?1";
        self.0.query_row(query, [whole(number)], |row| {
            let state = RowState::parse(&row.get::<_, String>(0)?);
            let (head, copies): (String, String) = (row.get(3)?, row.get(4)?);
            let bytes = u64::try_from(row.get::<_, i64>(5)?).unwrap_or(0) + head.len() as u64 + ROW_BYTES;
            let (head, copies) = (serde_json::from_str(&head).ok(), serde_json::from_str(&copies).ok());
            let since_ms = u64::try_from(row.get::<_, i64>(2)?).ok();
            // A row without its sends could be sent twice, and one without its time would be too old at once.
            let whole = state.filter(|_| head.is_some() && copies.is_some() && since_ms.is_some());
            Ok(Row {
                number,
                state: whole.unwrap_or(RowState::Damaged),
                is_new_damage: whole.is_none() && state != Some(RowState::Damaged),
                reason: row.get(1)?,
                since_ms: since_ms.unwrap_or_default(),
                head,
                copies: copies.unwrap_or_default(),
                bytes,
            })
        })
    }
}

impl Disk for Sqlite {
    fn rows(&mut self) -> Result<Vec<Row>, Trouble> {
        let mut statement = self.0.prepare("SELECT number FROM job ORDER BY number").map_err(word)?;
        let numbers: Result<Vec<i64>, _> = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect);
        drop(statement);
        let numbers = numbers.map_err(word)?.into_iter().filter_map(|number| u64::try_from(number).ok());
        let row = |number: u64| match self.row(number).map_err(word) {
            Err(DAMAGE) => Ok(unreadable(number)),
            row => row,
        };
        numbers.map(row).collect()
    }

    fn content(&mut self, number: u64) -> Result<Option<(String, Vec<u8>)>, Trouble> {
        let query = "SELECT head, sealed FROM job WHERE number = ?1";
        let row = self.0.query_row(query, [whole(number)], |row| Ok((row.get(0)?, row.get(1)?)));
        row.optional().map_err(word)
    }

    fn commit(&mut self, changes: &[&Change]) -> Result<(), Trouble> {
        let transaction = self.0.transaction().map_err(word)?;
        for change in changes {
            apply(&transaction, change).map_err(word)?;
        }
        transaction.commit().map_err(word)
    }
}

fn unreadable(number: u64) -> Row {
    let (state, reason) = (RowState::Damaged, Some("unreadable".to_owned()));
    let bytes = ROW_BYTES;
    Row { number, state, reason, since_ms: 0, is_new_damage: true, head: None, copies: Vec::new(), bytes }
}

fn apply(connection: &Connection, change: &Change) -> rusqlite::Result<()> {
    match change {
        Change::Store(number, since_ms, head, copies, sealed) => connection.execute(
            "INSERT INTO job VALUES (?1, 'waiting', NULL, ?2, ?3, ?4, ?5)",
            params![whole(*number), whole(*since_ms), head, copies, sealed],
        ),
        Change::Copies(number, copies) => {
            connection.execute("UPDATE job SET copies = ?2 WHERE number = ?1", params![whole(*number), copies])
        }
        Change::Aside(number, state, reason) => connection.execute(
            "UPDATE job SET state = ?2, reason = ?3 WHERE number = ?1",
            params![whole(*number), state.as_str(), reason],
        ),
        Change::Retry(number, since_ms) => connection.execute(
            "UPDATE job SET state = 'waiting', reason = NULL, since_ms = ?2 WHERE number = ?1",
            params![whole(*number), whole(*since_ms)],
        ),
        Change::Remove(number) => connection.execute("DELETE FROM job WHERE number = ?1", [whole(*number)]),
    }
    .map(drop)
}

fn make(connection: &mut Connection, seal: &Seal, nonce: super::RowNonce) -> Result<(), Trouble> {
    let check = seal.seal(nonce, CHECK, CHECK.to_vec()).ok_or("no_key")?;
    let transaction = connection.transaction().map_err(word)?;
    let head = format!("{TABLES} PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION};");
    transaction.execute_batch(&head).map_err(word)?;
    transaction.execute("INSERT INTO key_check VALUES (1, ?1)", [check]).map_err(word)?;
    transaction.commit().map_err(word)
}

/// Makes the file's name as durable as its content. At each opening, because the one that made the file may have failed here.
fn sync_folder(path: &Path) -> Result<(), Trouble> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|_| "folder")
}

/// Makes the file readable for its owner only, before it has content; SQLite gives its log the same mode.
fn keep_private(path: &Path) {
    // A file that cannot be made here is reported when SQLite opens it.
    let _ = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
    let mut log = OsString::from(path);
    log.push("-wal");
    for path in [path, Path::new(&log)] {
        let _ = std::fs::set_permissions(path, Permissions::from_mode(MODE));
    }
}

/// Numbers and times are far below 2^63.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(connection: &Connection, query: &str) -> rusqlite::Result<i64> {
    connection.query_row(query, [], |row| row.get(0))
}

fn pragma(connection: &Connection, pragma: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(pragma)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` calls it")]
fn word(error: rusqlite::Error) -> Trouble {
    match error.sqlite_error_code() {
        None | Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DAMAGE,
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "held_by_another_process",
        Some(ErrorCode::DiskFull) => "disk_full",
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => "read_only",
        Some(ErrorCode::CannotOpen) => "cannot_open",
        Some(ErrorCode::SystemIoFailure) => "io_error",
        Some(_) => "sqlite_error",
    }
}
