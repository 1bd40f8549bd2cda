//! Tasks of UWER and dead letters in a hub's record in SQLite. One thread asks, so that a look behind a change sees nothing of another.

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::super::uwer::{ClaimedTask, LETTERS_MAX, SavedLetter, SavedTask, TaskClaim};
use super::tables::{signed, whole};

/// Takes a task that is new, and one that this call has claimed before, or another one long enough ago.
const CLAIM: &str = "
INSERT INTO uwer_task VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 + ?10, NULL, ?9, NULL)
ON CONFLICT (key) DO UPDATE SET token = excluded.token, until_ms = excluded.until_ms
WHERE region IS NULL AND digest = excluded.digest AND (token = excluded.token OR until_ms <= ?9)
RETURNING job_id, job_type, queue";

const KNOWN: &str = "SELECT digest, job_id, region, until_ms FROM uwer_task WHERE key = ?1";

/// Keeps the region also where the claim was never kept.
const SETTLE: &str = "
INSERT INTO uwer_task VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?9, ?9)
ON CONFLICT (key) DO UPDATE SET region = excluded.region, stored_ms = coalesce(stored_ms, excluded.stored_ms)
WHERE job_id = excluded.job_id AND (region IS NULL OR region = excluded.region)";

const KEEP_LETTER: &str = "
INSERT INTO uwer_letter SELECT ?1, ?2, ?3, ?4, ?5, ?6
WHERE EXISTS (SELECT 1 FROM uwer_letter WHERE id = ?1) OR (SELECT count(*) FROM uwer_letter) < ?7
ON CONFLICT (id) DO UPDATE SET count = count + 1, last_ms = excluded.last_ms";

pub(in crate::hub::record) fn claim(connection: &mut Connection, it: &TaskClaim) -> rusqlite::Result<ClaimedTask> {
    let (now, hold) = (signed(it.now_ms), signed(it.hold_ms));
    let names = (&it.key, &it.digest, &it.workflow_id, &it.origin, &it.job_id);
    let values = params![names.0, names.1, names.2, names.3, names.4, it.job_type, it.queue, it.token, now, hold];
    let taken = connection.query_row(CLAIM, values, |row| {
        Ok(ClaimedTask::Taken { job_id: row.get("job_id")?, job_type: row.get("job_type")?, queue: row.get("queue")? })
    });
    if let Some(taken) = taken.optional()? {
        return Ok(taken);
    }
    connection.query_row(KNOWN, [&it.key], |row| {
        let (job_id, region): (String, Option<String>) = (row.get("job_id")?, row.get("region")?);
        Ok(match region {
            _ if row.get::<_, String>("digest")? != it.digest => ClaimedTask::OtherTask,
            Some(region) => ClaimedTask::Stored { job_id, region },
            None => ClaimedTask::Held { left_ms: whole(row, "until_ms")?.saturating_sub(it.now_ms) },
        })
    })
}

pub(in crate::hub::record) fn settle(
    connection: &mut Connection,
    it: &TaskClaim,
    region: &str,
) -> rusqlite::Result<bool> {
    let now = signed(it.now_ms);
    let names = (&it.key, &it.digest, &it.workflow_id, &it.origin, &it.job_id);
    let values = params![names.0, names.1, names.2, names.3, names.4, it.job_type, it.queue, it.token, now, region];
    Ok(connection.execute(SETTLE, values)? > 0)
}

pub(in crate::hub::record) fn release(connection: &mut Connection, it: &TaskClaim) -> rusqlite::Result<()> {
    let statement =
        "UPDATE uwer_task SET until_ms = min(until_ms, ?3) WHERE key = ?1 AND token = ?2 AND region IS NULL";
    connection.execute(statement, params![it.key, it.token, signed(it.now_ms)]).map(drop)
}

pub(in crate::hub::record) fn withdraw(connection: &mut Connection, it: &TaskClaim) -> rusqlite::Result<()> {
    let statement = "DELETE FROM uwer_task WHERE key = ?1 AND token = ?2 AND region IS NULL";
    connection.execute(statement, [&it.key, &it.token]).map(drop)
}

pub(in crate::hub::record) fn tasks(
    connection: &mut Connection,
    name: &str,
    max: u64,
) -> rusqlite::Result<Vec<SavedTask>> {
    let mut statement = connection
        .prepare("SELECT * FROM uwer_task WHERE workflow_id = ?1 OR job_id = ?1 ORDER BY claimed_ms, key LIMIT ?2")?;
    let rows = statement.query_map(params![name, signed(max)], |row| {
        Ok(SavedTask {
            key: row.get("key")?,
            workflow_id: row.get("workflow_id")?,
            origin: row.get("origin")?,
            job_id: row.get("job_id")?,
            region: row.get("region")?,
            claimed_ms: whole(row, "claimed_ms")?,
            stored_ms: row.get::<_, Option<i64>>("stored_ms")?.map(|it| it.unsigned_abs()),
        })
    })?;
    rows.collect()
}

pub(in crate::hub::record) fn prune(connection: &mut Connection, before_ms: u64, max: u64) -> rusqlite::Result<u64> {
    let (before, max) = (signed(before_ms), signed(max));
    let mut dropped = 0;
    for statement in [
        "DELETE FROM uwer_task WHERE key IN (SELECT key FROM uwer_task WHERE stored_ms < ?1 LIMIT ?2)",
        "DELETE FROM uwer_task WHERE key IN
         (SELECT key FROM uwer_task WHERE region IS NULL AND claimed_ms < ?1 AND until_ms < ?1 LIMIT ?2)",
        "DELETE FROM uwer_letter WHERE id IN (SELECT id FROM uwer_letter WHERE last_ms < ?1 LIMIT ?2)",
    ] {
        dropped += connection.execute(statement, params![before, max])? as u64;
    }
    Ok(dropped)
}

pub(in crate::hub::record) fn keep_letter(connection: &mut Connection, it: &SavedLetter) -> rusqlite::Result<bool> {
    let (first, last, count) = (signed(it.first_ms), signed(it.last_ms), signed(it.count));
    let values = params![it.id, first, last, count, it.document, it.sealed, signed(LETTERS_MAX)];
    Ok(connection.execute(KEEP_LETTER, values)? > 0)
}

pub(in crate::hub::record) fn letters(
    connection: &mut Connection,
    (first_ms, id): &(u64, String),
    max: u64,
) -> rusqlite::Result<Vec<SavedLetter>> {
    read(
        connection,
        "SELECT id, first_ms, last_ms, count, document, NULL AS sealed FROM uwer_letter WHERE (first_ms, id) < (?1, ?2)
         ORDER BY first_ms DESC, id DESC LIMIT ?3",
        params![signed(*first_ms), id, signed(max)],
    )
}

pub(in crate::hub::record) fn letter(connection: &mut Connection, id: &str) -> rusqlite::Result<Option<SavedLetter>> {
    Ok(read(connection, "SELECT * FROM uwer_letter WHERE id = ?1", [id])?.pop())
}

pub(in crate::hub::record) fn drop_letter(connection: &mut Connection, id: &str) -> rusqlite::Result<bool> {
    Ok(connection.execute("DELETE FROM uwer_letter WHERE id = ?1", [id])? > 0)
}

fn read(connection: &Connection, statement: &str, values: impl Params) -> rusqlite::Result<Vec<SavedLetter>> {
    let letter = |row: &Row<'_>| {
        Ok(SavedLetter {
            id: row.get("id")?,
            first_ms: whole(row, "first_ms")?,
            last_ms: whole(row, "last_ms")?,
            count: whole(row, "count")?,
            document: row.get("document")?,
            sealed: row.get("sealed")?,
        })
    };
    connection.prepare(statement)?.query_map(values, letter)?.collect()
}
