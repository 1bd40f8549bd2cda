//! Failover drills in a hub's record in SQLite.

use rusqlite::{Connection, params};

use super::super::content::Kept;
use super::super::drill::{SavedCounts, SavedDrill};
use super::tables::{signed, whole};

pub(in crate::hub::record) fn all(connection: &mut Connection) -> rusqlite::Result<Vec<SavedDrill>> {
    read(connection, "SELECT * FROM drill ORDER BY number")
}

pub(in crate::hub::record) fn last(connection: &mut Connection) -> rusqlite::Result<Vec<SavedDrill>> {
    let last = "SELECT * FROM drill WHERE is_open OR number = (SELECT max(number) FROM drill) ORDER BY number";
    read(connection, last)
}

fn read(connection: &Connection, statement: &str) -> rusqlite::Result<Vec<SavedDrill>> {
    let mut statement = connection.prepare(statement)?;
    let rows = statement.query_map([], |row| {
        Ok(SavedDrill {
            id: row.get("id")?,
            number: whole(row, "number")?,
            version: whole(row, "version")?,
            document: row.get("document")?,
            is_open: row.get("is_open")?,
            began_ms: whole(row, "began_ms")?,
        })
    })?;
    rows.collect()
}

pub(in crate::hub::record) fn change(connection: &mut Connection, to: &SavedDrill) -> rusqlite::Result<Kept> {
    let changed = if to.version == 0 {
        connection.execute(
            "INSERT INTO drill (id, number, version, document, is_open, began_ms) VALUES (?1, ?2, 1, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING",
            params![to.id, signed(to.number), to.document, to.is_open, signed(to.began_ms)],
        )?
    } else {
        connection.execute(
            "UPDATE drill SET version = version + 1, document = ?3, is_open = ?4 WHERE id = ?1 AND version = ?2",
            params![to.id, signed(to.version), to.document, to.is_open],
        )?
    };
    Ok(if changed > 0 { Kept::Kept } else { Kept::Behind })
}

pub(in crate::hub::record) fn keep(
    connection: &mut Connection,
    id: &str,
    counts: &[SavedCounts],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    {
        let mut statement = transaction.prepare(
            "INSERT INTO drill_count (drill, sidecar, started_ms, seq, document) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (drill, sidecar, started_ms) DO UPDATE SET seq = excluded.seq, document = excluded.document
               WHERE excluded.seq >= seq",
        )?;
        for it in counts {
            statement.execute(params![id, it.sidecar, signed(it.started_ms), signed(it.seq), it.document])?;
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
            seq: whole(row, "seq")?,
            document: row.get("document")?,
        })
    })?;
    rows.collect()
}

pub(in crate::hub::record) fn prune(connection: &mut Connection, before_ms: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let is_old =
        "SELECT id FROM drill WHERE NOT is_open AND began_ms < ?1 AND number < (SELECT max(number) FROM drill)";
    transaction.execute(&format!("DELETE FROM drill_count WHERE drill IN ({is_old})"), [signed(before_ms)])?;
    transaction.execute(&format!("DELETE FROM drill WHERE id IN ({is_old})"), [signed(before_ms)])?;
    transaction.commit()
}
