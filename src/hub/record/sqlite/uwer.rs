//! Tasks of UWER and dead letters in a hub's record in SQLite. One thread asks, so that a look behind a change sees nothing of another.

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::super::uwer::{ClaimedTask, LETTERS_MAX, SavedLetter, SavedTask, TaskClaim};
use super::tables::{signed, whole};

/// Takes a task that is new, or whose claim is this call's or over.
const CLAIM: &str = "
INSERT INTO uwer_task VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7 + ?8, NULL, ?7, NULL)
ON CONFLICT (key) DO UPDATE SET token = excluded.token, until_ms = excluded.until_ms
WHERE region IS NULL AND digest = excluded.digest AND (token = excluded.token OR until_ms <= ?7)
RETURNING job_id";

const KNOWN: &str = "SELECT digest, job_id, region, until_ms FROM uwer_task WHERE key = ?1";

/// Keeps the region also where the claim was never kept.
const SETTLE: &str = "
INSERT INTO uwer_task VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?7, ?7)
ON CONFLICT (key) DO UPDATE SET region = excluded.region, stored_ms = coalesce(stored_ms, excluded.stored_ms)
WHERE job_id = excluded.job_id";

const KEEP_LETTER: &str = "
INSERT INTO uwer_letter SELECT ?1, ?2, ?3, ?4, ?5, ?6
WHERE EXISTS (SELECT 1 FROM uwer_letter WHERE id = ?1) OR (SELECT count(*) FROM uwer_letter) < ?7
ON CONFLICT (id) DO UPDATE SET count = count + 1, last_ms = excluded.last_ms";

pub(in crate::hub::record) fn claim(connection: &mut Connection, it: &TaskClaim) -> rusqlite::Result<ClaimedTask> {
    let (now, hold) = (signed(it.now_ms), signed(it.hold_ms));
    let values = params![it.key, it.digest, it.workflow_id, it.origin, it.job_id, it.token, now, hold];
    let taken: Option<String> = connection.query_row(CLAIM, values, |row| row.get("job_id")).optional()?;
    if let Some(job_id) = taken {
        return Ok(ClaimedTask::Taken { job_id });
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
    let values = params![it.key, it.digest, it.workflow_id, it.origin, it.job_id, it.token, now, region];
    Ok(connection.execute(SETTLE, values)? > 0)
}

pub(in crate::hub::record) fn release(connection: &mut Connection, key: &str, token: &str) -> rusqlite::Result<()> {
    let statement = "UPDATE uwer_task SET until_ms = 0 WHERE key = ?1 AND token = ?2 AND region IS NULL";
    connection.execute(statement, [key, token]).map(drop)
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
    let statement = "DELETE FROM uwer_task WHERE key IN (SELECT key FROM uwer_task WHERE stored_ms < ?1 ORDER BY stored_ms LIMIT ?2)
            OR (region IS NULL AND claimed_ms < ?1 AND until_ms < ?1)";
    let dropped = connection.execute(statement, params![signed(before_ms), signed(max)])?;
    connection.execute("DELETE FROM uwer_letter WHERE last_ms < ?1", [signed(before_ms)])?;
    Ok(dropped as u64)
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
