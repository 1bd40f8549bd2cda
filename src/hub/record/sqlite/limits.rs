//! Fleet limits in SQLite.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::super::content::{Kept, SavedLimit};
use super::tables::{signed, whole};

/// The wall clock, so that it means the same after a restart.
const NOW_MS: &str = "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms";

/// The wall clock. Units: milliseconds since the Unix epoch.
pub(super) fn now_ms(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row(NOW_MS, [], |row| whole(row, "now_ms"))
}

pub(super) fn read(connection: &mut Connection, region: &str) -> rusqlite::Result<SavedLimit> {
    let now_ms = now_ms(connection)?;
    let found = connection.query_row("SELECT version, holders FROM fleet_limit WHERE region = ?1", [region], |row| {
        Ok(SavedLimit { version: whole(row, "version")?, holders: row.get("holders")?, now_ms })
    });
    Ok(found.optional()?.unwrap_or_else(|| SavedLimit { version: 0, holders: "{}".to_owned(), now_ms }))
}

pub(super) fn change(connection: &mut Connection, region: &str, from: u64, holders: &str) -> rusqlite::Result<Kept> {
    let changed = connection.execute(
        "INSERT INTO fleet_limit SELECT ?1, ?2 + 1, ?3 WHERE ?2 = 0 OR EXISTS (SELECT 1 FROM fleet_limit WHERE region = ?1)
         ON CONFLICT (region) DO UPDATE SET version = excluded.version, holders = excluded.holders WHERE version = ?2",
        params![region, signed(from), holders],
    )?;
    Ok(if changed > 0 { Kept::Kept } else { Kept::Behind })
}
