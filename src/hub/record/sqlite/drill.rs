//! Failover drills in a hub's record in SQLite.

use rusqlite::{Connection, params};

use super::super::content::Kept;
use super::super::drill::{SavedCounts, SavedDrill};
use super::tables::{signed, whole};

pub(in crate::hub::record) fn all(connection: &mut Connection) -> rusqlite::Result<Vec<SavedDrill>> {
    let mut statement = connection.prepare("SELECT * FROM drill ORDER BY began_ms, id")?;
    let rows = statement.query_map([], |row| {
        Ok(SavedDrill {
            id: row.get("id")?,
            version: whole(row, "version")?,
            document: row.get("document")?,
            is_open: row.get("is_open")?,
            began_ms: whole(row, "began_ms")?,
        })
    })?;
    rows.collect()
}

pub(in crate::hub::record) fn change(connection: &mut Connection, to: &SavedDrill) -> rusqlite::Result<Kept> {
    let changed = connection.execute(
        "INSERT INTO drill SELECT ?1, ?2 + 1, ?3, ?4, ?5
         WHERE (?2 = 0 OR EXISTS (SELECT 1 FROM drill WHERE id = ?1))
           AND NOT (?4 AND EXISTS (SELECT 1 FROM drill WHERE is_open AND id <> ?1))
         ON CONFLICT (id) DO UPDATE SET version = excluded.version, document = excluded.document, is_open = excluded.is_open
           WHERE version = ?2",
        params![to.id, signed(to.version), to.document, to.is_open, signed(to.began_ms)],
    )?;
    Ok(if changed > 0 { Kept::Kept } else { Kept::Behind })
}

pub(in crate::hub::record) fn keep(
    connection: &mut Connection,
    id: &str,
    counts: &[SavedCounts],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut statement = transaction.prepare("INSERT OR REPLACE INTO drill_count VALUES (?1, ?2, ?3, ?4)")?;
        for it in counts {
            statement.execute(params![id, it.sidecar, signed(it.started_ms), it.document])?;
        }
    }
    transaction.commit()
}

pub(in crate::hub::record) fn counts(connection: &mut Connection, id: &str) -> rusqlite::Result<Vec<SavedCounts>> {
    let mut statement =
        connection.prepare("SELECT * FROM drill_count WHERE drill = ?1 ORDER BY sidecar, started_ms")?;
    let rows = statement.query_map([id], |row| {
        Ok(SavedCounts {
            sidecar: row.get("sidecar")?,
            started_ms: whole(row, "started_ms")?,
            document: row.get("document")?,
        })
    })?;
    rows.collect()
}

pub(in crate::hub::record) fn prune(connection: &mut Connection, before_ms: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let is_old = "SELECT id FROM drill WHERE NOT is_open AND began_ms < ?1";
    transaction.execute(&format!("DELETE FROM drill_count WHERE drill IN ({is_old})"), [signed(before_ms)])?;
    transaction.execute(&format!("DELETE FROM drill WHERE id IN ({is_old})"), [signed(before_ms)])?;
    transaction.commit()
}
