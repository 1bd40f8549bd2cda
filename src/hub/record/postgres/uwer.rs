//! Tasks of UWER and dead letters in a record in PostgreSQL. Each decision is one statement, by the clock of the database.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::RecordError;
use super::super::postgres_error::PostgresError;
use super::super::uwer::{ClaimedTask, LETTERS_MAX, SavedLetter, SavedTask, TaskClaim};
use super::line::{Line, Value};
use super::values::{number, signed, text};

/// A task that another call changes between the claim and the look behind it is claimed again.
const TRIES_MAX: usize = 4;

/// Takes a task that is new, and one that this call has claimed before, or another one long enough ago.
const CLAIM: &str = "
INSERT INTO ojs_hub_uwer_task AS it (key, digest, workflow_id, origin, job_id, job_type, queue, token, until_ms, claimed_ms)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, now + $9, now
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
ON CONFLICT (key) DO UPDATE SET token = excluded.token, until_ms = excluded.until_ms
WHERE it.region IS NULL AND it.digest = excluded.digest AND (it.token = excluded.token OR it.until_ms <= excluded.claimed_ms)
RETURNING it.job_id, it.job_type, it.queue";

const KNOWN: &str = "
SELECT digest, job_id, region, greatest(until_ms - (extract(epoch FROM clock_timestamp()) * 1000)::bigint, 0)
FROM ojs_hub_uwer_task WHERE key = $1";

/// One row where the record has it. Keeps the region also where the claim was never kept.
const SETTLE: &str = "
INSERT INTO ojs_hub_uwer_task AS it (key, digest, workflow_id, origin, job_id, job_type, queue, token, until_ms, claimed_ms, stored_ms, region)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, now, now, now, $9
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
ON CONFLICT (key) DO UPDATE SET region = excluded.region, stored_ms = coalesce(it.stored_ms, excluded.stored_ms)
WHERE it.job_id = excluded.job_id AND (it.region IS NULL OR it.region = excluded.region)
RETURNING 1";

/// Not to 0: a claim that was given back long after the first one is younger than that.
const RELEASE: &str = "
UPDATE ojs_hub_uwer_task SET until_ms = least(until_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
WHERE key = $1 AND token = $2 AND region IS NULL RETURNING 1";

const WITHDRAW: &str = "DELETE FROM ojs_hub_uwer_task WHERE key = $1 AND token = $2 AND region IS NULL RETURNING 1";

const TASKS: &str = "
SELECT key, workflow_id, origin, job_id, region, claimed_ms, stored_ms FROM ojs_hub_uwer_task
WHERE workflow_id = $1 OR job_id = $1 ORDER BY claimed_ms, key LIMIT $2";

/// By the clock of the database, as all times here. Each part has an index of its own.
const PRUNE: &str = "
WITH bound AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1 AS before),
stored AS (
  DELETE FROM ojs_hub_uwer_task WHERE key IN (
    SELECT key FROM ojs_hub_uwer_task WHERE stored_ms < (SELECT before FROM bound) LIMIT $2) RETURNING 1),
unsettled AS (
  DELETE FROM ojs_hub_uwer_task WHERE key IN (
    SELECT key FROM ojs_hub_uwer_task
    WHERE region IS NULL AND claimed_ms < (SELECT before FROM bound) AND until_ms < (SELECT before FROM bound) LIMIT $2)
  RETURNING 1),
letters AS (
  DELETE FROM ojs_hub_uwer_letter WHERE id IN (
    SELECT id FROM ojs_hub_uwer_letter WHERE last_ms < (SELECT before FROM bound) LIMIT $2) RETURNING 1)
SELECT (SELECT count(*) FROM stored) + (SELECT count(*) FROM unsettled) + (SELECT count(*) FROM letters)";

const KEEP_LETTER: &str = "
INSERT INTO ojs_hub_uwer_letter AS it (id, first_ms, last_ms, count, document, sealed)
SELECT $1, $2, $3, $4, $5, $6
WHERE EXISTS (SELECT 1 FROM ojs_hub_uwer_letter WHERE id = $1) OR (SELECT count(*) FROM ojs_hub_uwer_letter) < $7
ON CONFLICT (id) DO UPDATE SET count = it.count + 1, last_ms = excluded.last_ms
RETURNING 1";

const LETTERS: &str = "
SELECT id, first_ms, last_ms, count, document, NULL::bytea FROM ojs_hub_uwer_letter WHERE (first_ms, id) < ($1, $2)
ORDER BY first_ms DESC, id DESC LIMIT $3";

const LETTER: &str = "SELECT id, first_ms, last_ms, count, document, sealed FROM ojs_hub_uwer_letter WHERE id = $1";

pub(in crate::hub::record) async fn claim(
    line: &Line,
    settings: &PostgresSettings,
    it: &TaskClaim,
) -> Result<ClaimedTask, RecordError> {
    let hold = signed(it.hold_ms);
    let mut values = names(it).to_vec();
    values.push((&hold, Type::INT8));
    for _ in 0..TRIES_MAX {
        let taken = line.ask(settings, CLAIM, &values).await?;
        if !taken.is_empty() {
            let [job_id, job_type, queue] = [text(&taken, 0, 0)?, text(&taken, 0, 1)?, text(&taken, 0, 2)?];
            return Ok(ClaimedTask::Taken { job_id, job_type, queue });
        }
        let known = line.ask(settings, KNOWN, &[(&it.key, Type::TEXT)]).await?;
        let Some(row) = known.first() else { continue };
        let region: Option<String> = row.try_get(2).map_err(PostgresError::content)?;
        if text(&known, 0, 0)? != it.digest {
            return Ok(ClaimedTask::OtherTask);
        }
        if let Some(region) = region {
            return Ok(ClaimedTask::Stored { job_id: text(&known, 0, 1)?, region });
        }
        let left_ms = number(&known, 0, 3)?;
        if left_ms > 0 {
            return Ok(ClaimedTask::Held { left_ms });
        }
    }
    Err(RecordError::Contended)
}

/// The first eight values of a claim and of its end.
fn names(it: &TaskClaim) -> [Value<'_>; 8] {
    [
        (&it.key, Type::TEXT),
        (&it.digest, Type::TEXT),
        (&it.workflow_id, Type::TEXT),
        (&it.origin, Type::TEXT),
        (&it.job_id, Type::TEXT),
        (&it.job_type, Type::TEXT),
        (&it.queue, Type::TEXT),
        (&it.token, Type::TEXT),
    ]
}

pub(in crate::hub::record) async fn settle(
    line: &Line,
    settings: &PostgresSettings,
    it: &TaskClaim,
    region: &str,
) -> Result<bool, RecordError> {
    let mut values = names(it).to_vec();
    values.push((&region, Type::TEXT));
    Ok(!line.ask(settings, SETTLE, &values).await?.is_empty())
}

pub(in crate::hub::record) async fn release(
    line: &Line,
    settings: &PostgresSettings,
    it: &TaskClaim,
) -> Result<(), RecordError> {
    line.ask(settings, RELEASE, &[(&it.key, Type::TEXT), (&it.token, Type::TEXT)]).await.map(drop)
}

pub(in crate::hub::record) async fn withdraw(
    line: &Line,
    settings: &PostgresSettings,
    it: &TaskClaim,
) -> Result<(), RecordError> {
    line.ask(settings, WITHDRAW, &[(&it.key, Type::TEXT), (&it.token, Type::TEXT)]).await.map(drop)
}

pub(in crate::hub::record) async fn tasks(
    line: &Line,
    settings: &PostgresSettings,
    name: &str,
    max: u64,
) -> Result<Vec<SavedTask>, RecordError> {
    let max = signed(max);
    let rows = line.ask(settings, TASKS, &[(&name, Type::TEXT), (&max, Type::INT8)]).await?;
    let task = |at: usize| {
        let stored: Option<i64> = rows[at].try_get(6).map_err(PostgresError::content)?;
        Ok::<_, PostgresError>(SavedTask {
            key: text(&rows, at, 0)?,
            workflow_id: text(&rows, at, 1)?,
            origin: text(&rows, at, 2)?,
            job_id: text(&rows, at, 3)?,
            region: rows[at].try_get(4).map_err(PostgresError::content)?,
            claimed_ms: number(&rows, at, 5)?,
            stored_ms: stored.map(u64::try_from).transpose().map_err(PostgresError::content)?,
        })
    };
    Ok((0..rows.len()).map(task).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    retention_ms: u64,
    max: u64,
) -> Result<u64, RecordError> {
    let (retention, max) = (signed(retention_ms), signed(max));
    let rows = line.ask(settings, PRUNE, &[(&retention, Type::INT8), (&max, Type::INT8)]).await?;
    Ok(number(&rows, 0, 0)?)
}

pub(in crate::hub::record) async fn keep_letter(
    line: &Line,
    settings: &PostgresSettings,
    it: &SavedLetter,
) -> Result<bool, RecordError> {
    let [first, last, count, most] = [it.first_ms, it.last_ms, it.count, LETTERS_MAX].map(signed);
    let values: [Value<'_>; 7] = [
        (&it.id, Type::TEXT),
        (&first, Type::INT8),
        (&last, Type::INT8),
        (&count, Type::INT8),
        (&it.document, Type::TEXT),
        (&it.sealed, Type::BYTEA),
        (&most, Type::INT8),
    ];
    Ok(!line.ask(settings, KEEP_LETTER, &values).await?.is_empty())
}

pub(in crate::hub::record) async fn letters(
    line: &Line,
    settings: &PostgresSettings,
    (first_ms, id): (u64, &str),
    max: u64,
) -> Result<Vec<SavedLetter>, RecordError> {
    let (first, max) = (signed(first_ms), signed(max));
    let values: [Value<'_>; 3] = [(&first, Type::INT8), (&id, Type::TEXT), (&max, Type::INT8)];
    read(&line.ask(settings, LETTERS, &values).await?)
}

pub(in crate::hub::record) async fn letter(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
) -> Result<Option<SavedLetter>, RecordError> {
    Ok(read(&line.ask(settings, LETTER, &[(&id, Type::TEXT)]).await?)?.pop())
}

pub(in crate::hub::record) async fn drop_letter(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
) -> Result<bool, RecordError> {
    let statement = "DELETE FROM ojs_hub_uwer_letter WHERE id = $1 RETURNING 1";
    Ok(!line.ask(settings, statement, &[(&id, Type::TEXT)]).await?.is_empty())
}

fn read(rows: &[Row]) -> Result<Vec<SavedLetter>, RecordError> {
    let letter = |at: usize| {
        Ok::<_, PostgresError>(SavedLetter {
            id: text(rows, at, 0)?,
            first_ms: number(rows, at, 1)?,
            last_ms: number(rows, at, 2)?,
            count: number(rows, at, 3)?,
            document: text(rows, at, 4)?,
            sealed: rows[at].try_get(5).map_err(PostgresError::content)?,
        })
    };
    Ok((0..rows.len()).map(letter).collect::<Result<_, _>>()?)
}
