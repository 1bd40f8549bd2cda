//! Replays in a record in PostgreSQL. Each decision is one statement, by the clock of the server, which all hubs share.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{Kept, RecordError, StepCount};
use super::super::postgres_error::PostgresError;
use super::super::replay::{KEPT_REPLAYS_MAX, OPEN_REPLAYS_MAX, OpenReplays, ReplayJob, ReplayStep, SavedReplay};
use super::line::{Line, Value};
use super::values::{number, signed, text};

/// One row at least, with the time.
const OPEN: &str = "
SELECT id, version, document, is_open, began_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (SELECT 1) AS one LEFT JOIN ojs_hub_replay ON is_open ORDER BY began_ms, id";

const BEFORE: &str = "
SELECT id, version, document, is_open, began_ms FROM ojs_hub_replay
WHERE (began_ms, id) < ($1, $2) ORDER BY began_ms DESC, id DESC LIMIT $3";

const ONE: &str = "SELECT id, version, document, is_open, began_ms FROM ojs_hub_replay WHERE id = $1";

/// The replay and its jobs in one statement; the jobs are none where the replay was not added.
const ADD: &str = "
WITH added AS (
  INSERT INTO ojs_hub_replay SELECT $1, 1, $2, $3, $4 WHERE (SELECT count(*) FROM ojs_hub_replay WHERE is_open) < $5
  ON CONFLICT (id) DO NOTHING RETURNING id),
jobs AS (
  INSERT INTO ojs_hub_replay_job (replay, place, job_id, region, new_id, digest, step, why, detail, sends, changed_ms)
  SELECT added.id, place, job_id, region, new_id, digest, step, why, detail, sends, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
  FROM added, json_populate_recordset(NULL::ojs_hub_replay_job, $6::json))
SELECT id FROM added";

const CHANGE: &str = "
UPDATE ojs_hub_replay SET version = version + 1, document = $3, is_open = $4 WHERE id = $1 AND version = $2 RETURNING 1";

const JOBS: &str = "
SELECT place, job_id, region, new_id, digest, step, why, detail, sends, changed_ms FROM ojs_hub_replay_job
WHERE replay = $1 AND step = ANY (string_to_array($2, ',')) AND place >= $3 ORDER BY place LIMIT $4";

const DUE: &str = "
SELECT place, job_id, region, new_id, digest, step, why, detail, sends, changed_ms FROM ojs_hub_replay_job
WHERE replay = $1 AND step = $2 ORDER BY changed_ms, place LIMIT $3";

/// One row where the job was at the step that the change was made from, with as many sends (one less behind one that did not leave), and the replay at a version, where one is given.
const MOVE: &str = "
UPDATE ojs_hub_replay_job SET region = $4, new_id = $5, digest = $6, step = $7, why = $8, detail = $9, sends = $10,
  changed_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE replay = $1 AND place = $2 AND step = $3
  AND CASE WHEN $3 = 'waiting' AND $7 = 'sending' THEN sends = $10 - 1
    WHEN $3 = 'sending' AND $7 = 'waiting' THEN sends IN ($10, $10 + 1) ELSE sends = $10 END
  AND ($11 IS NULL OR EXISTS (SELECT 1 FROM ojs_hub_replay WHERE id = $1 AND version = $11)) RETURNING 1";

/// A job that may have been sent is not one that was stopped before it.
const STOP: &str = "
UPDATE ojs_hub_replay_job SET step = CASE WHEN sends > 0 THEN 'unknown' ELSE 'stopped' END, why = $2, changed_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE replay = $1 AND step = 'waiting'";

const COUNTS: &str = "
SELECT step, why, count(*) FROM ojs_hub_replay_job WHERE replay = $1 GROUP BY step, why ORDER BY step, why";

const PRUNE: &str = "
WITH dropped AS (
  DELETE FROM ojs_hub_replay WHERE NOT is_open AND (began_ms < $1
    OR id NOT IN (SELECT id FROM ojs_hub_replay ORDER BY began_ms DESC, id DESC LIMIT $2)) RETURNING id)
DELETE FROM ojs_hub_replay_job WHERE replay IN (SELECT id FROM dropped)";

fn saved(rows: &[Row], at: usize) -> Result<SavedReplay, PostgresError> {
    Ok(SavedReplay {
        id: text(rows, at, 0)?,
        version: number(rows, at, 1)?,
        document: text(rows, at, 2)?,
        is_open: rows[at].try_get(3).map_err(PostgresError::content)?,
        began_ms: number(rows, at, 4)?,
    })
}

pub(in crate::hub::record) async fn open(line: &Line, settings: &PostgresSettings) -> Result<OpenReplays, RecordError> {
    let rows = line.ask(settings, OPEN, &[]).await?;
    let now_ms = number(&rows, 0, 5)?;
    let is_empty = rows.first().is_some_and(|row| matches!(row.try_get::<_, Option<&str>>(0), Ok(None)));
    let count = if is_empty { 0 } else { rows.len() };
    Ok(OpenReplays { all: (0..count).map(|at| saved(&rows, at)).collect::<Result<_, _>>()?, now_ms })
}

pub(in crate::hub::record) async fn before(
    line: &Line,
    settings: &PostgresSettings,
    (began_ms, id): &(u64, String),
    max: usize,
) -> Result<Vec<SavedReplay>, RecordError> {
    let (began_ms, max) = (signed(*began_ms), signed(max as u64));
    let rows = line.ask(settings, BEFORE, &[(&began_ms, Type::INT8), (id, Type::TEXT), (&max, Type::INT8)]).await?;
    Ok((0..rows.len()).map(|at| saved(&rows, at)).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn one(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
) -> Result<Option<SavedReplay>, RecordError> {
    let rows = line.ask(settings, ONE, &[(&id, Type::TEXT)]).await?;
    Ok(rows.first().map(|_| saved(&rows, 0)).transpose()?)
}

pub(in crate::hub::record) async fn add(
    line: &Line,
    settings: &PostgresSettings,
    to: &SavedReplay,
    jobs: &[ReplayJob],
) -> Result<Kept, RecordError> {
    let (began_ms, open_max) = (signed(to.began_ms), signed(OPEN_REPLAYS_MAX));
    let jobs = serde_json::json!(jobs).to_string();
    let values: [Value<'_>; 6] = [
        (&to.id, Type::TEXT),
        (&to.document, Type::TEXT),
        (&to.is_open, Type::BOOL),
        (&began_ms, Type::INT8),
        (&open_max, Type::INT8),
        (&jobs, Type::TEXT),
    ];
    let added = line.ask(settings, ADD, &values).await?;
    Ok(if added.is_empty() { Kept::Behind } else { Kept::Kept })
}

pub(in crate::hub::record) async fn change(
    line: &Line,
    settings: &PostgresSettings,
    to: &SavedReplay,
) -> Result<Kept, RecordError> {
    let version = signed(to.version);
    let values: [Value<'_>; 4] =
        [(&to.id, Type::TEXT), (&version, Type::INT8), (&to.document, Type::TEXT), (&to.is_open, Type::BOOL)];
    let changed = line.ask(settings, CHANGE, &values).await?;
    Ok(if changed.is_empty() { Kept::Behind } else { Kept::Kept })
}

fn read(rows: &[Row]) -> Result<Vec<ReplayJob>, PostgresError> {
    let job = |at: usize| {
        let may = |column| rows[at].try_get::<_, Option<String>>(column).map_err(PostgresError::content);
        Ok(ReplayJob {
            place: number(rows, at, 0)?,
            job_id: text(rows, at, 1)?,
            region: may(2)?,
            new_id: may(3)?,
            digest: may(4)?,
            step: text(rows, at, 5)?,
            why: may(6)?,
            detail: may(7)?,
            sends: number(rows, at, 8)?,
            changed_ms: number(rows, at, 9)?,
        })
    };
    (0..rows.len()).map(job).collect()
}

pub(in crate::hub::record) async fn jobs(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    steps: &[ReplayStep],
    from: u64,
    max: usize,
) -> Result<Vec<ReplayJob>, RecordError> {
    let steps: Vec<&str> = steps.iter().map(|step| step.as_str()).collect();
    let (steps, from, max) = (steps.join(","), signed(from), signed(max as u64));
    let values: [Value<'_>; 4] = [(&id, Type::TEXT), (&steps, Type::TEXT), (&from, Type::INT8), (&max, Type::INT8)];
    Ok(read(&line.ask(settings, JOBS, &values).await?)?)
}

pub(in crate::hub::record) async fn due(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    step: ReplayStep,
    max: usize,
) -> Result<Vec<ReplayJob>, RecordError> {
    let (step, max) = (step.as_str(), signed(max as u64));
    let values: [Value<'_>; 3] = [(&id, Type::TEXT), (&step, Type::TEXT), (&max, Type::INT8)];
    Ok(read(&line.ask(settings, DUE, &values).await?)?)
}

pub(in crate::hub::record) async fn advance(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    from: ReplayStep,
    to: &ReplayJob,
    version: Option<u64>,
) -> Result<bool, RecordError> {
    let (from, place, sends, version) = (from.as_str(), signed(to.place), signed(to.sends), version.map(signed));
    let values: [Value<'_>; 11] = [
        (&id, Type::TEXT),
        (&place, Type::INT8),
        (&from, Type::TEXT),
        (&to.region, Type::TEXT),
        (&to.new_id, Type::TEXT),
        (&to.digest, Type::TEXT),
        (&to.step, Type::TEXT),
        (&to.why, Type::TEXT),
        (&to.detail, Type::TEXT),
        (&sends, Type::INT8),
        (&version, Type::INT8),
    ];
    Ok(!line.ask(settings, MOVE, &values).await?.is_empty())
}

pub(in crate::hub::record) async fn stop(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    why: &str,
) -> Result<(), RecordError> {
    line.ask(settings, STOP, &[(&id, Type::TEXT), (&why, Type::TEXT)]).await.map(drop)
}

pub(in crate::hub::record) async fn counts(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
) -> Result<Vec<StepCount>, RecordError> {
    let rows = line.ask(settings, COUNTS, &[(&id, Type::TEXT)]).await?;
    let count = |at: usize| {
        let why = rows[at].try_get::<_, Option<String>>(1).map_err(PostgresError::content)?;
        Ok::<_, PostgresError>((text(&rows, at, 0)?, why, number(&rows, at, 2)?))
    };
    Ok((0..rows.len()).map(count).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    before_ms: u64,
) -> Result<(), RecordError> {
    let (before, kept) = (signed(before_ms), signed(KEPT_REPLAYS_MAX));
    line.ask(settings, PRUNE, &[(&before, Type::INT8), (&kept, Type::INT8)]).await.map(drop)
}
