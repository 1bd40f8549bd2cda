//! Conflicts in a record in PostgreSQL. Each decision is one statement, by the clock of the server, which all hubs share.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::conflict::{Conflict, ConflictStep};
use super::super::content::{PRUNED_AT_ONCE, RecordError};
use super::super::postgres_error::PostgresError;
use super::line::{Line, Value};
use super::values::{number, signed, text};

/// One row where no other hub has them.
const TAKE: &str = "
UPDATE ojs_hub_conflict_turn SET hub = $1, until_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2
WHERE hub = $1 OR until_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The tracking ids that were not noted before.
const NOTE: &str = "
WITH found AS (
  SELECT federation_id FROM ojs_hub_change WHERE federation_id IN (SELECT json_array_elements_text($1::json))
  GROUP BY federation_id HAVING count(DISTINCT region) > 1),
opened AS (
  INSERT INTO ojs_hub_conflict (job_id, region, federation_id, step, refusals, due_ms, changed_ms)
  SELECT DISTINCT it.job_id, it.region, it.federation_id, 'open', 0, (extract(epoch FROM now()) * 1000)::bigint + $3,
    (extract(epoch FROM now()) * 1000)::bigint
  FROM ojs_hub_change AS it JOIN found USING (federation_id) WHERE it.region = $2 ORDER BY it.job_id
  ON CONFLICT (job_id, region) DO NOTHING)
INSERT INTO ojs_hub_repeated_id SELECT federation_id, (extract(epoch FROM now()) * 1000)::bigint FROM found ORDER BY federation_id
ON CONFLICT (federation_id) DO NOTHING RETURNING federation_id";

const COLUMNS: &str =
    "job_id, region, federation_id, step, why, winner_region, winner_job, refusals, due_ms, changed_ms";

const ADVANCE: &str = "
UPDATE ojs_hub_conflict SET step = $4, why = $5, winner_region = $6, winner_job = $7, refusals = $8,
  due_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $9,
  changed_ms = CASE step WHEN $4 THEN changed_ms ELSE (extract(epoch FROM clock_timestamp()) * 1000)::bigint END
WHERE job_id = $1 AND region = $2 AND step = $3 RETURNING 1";

const PRUNE: &str = "
WITH noted AS (
  DELETE FROM ojs_hub_repeated_id WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ojs_hub_repeated_id WHERE noted_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1
    ORDER BY noted_ms LIMIT $2)))
DELETE FROM ojs_hub_conflict WHERE ctid = ANY (ARRAY(
  SELECT ctid FROM ojs_hub_conflict WHERE changed_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1
  ORDER BY changed_ms LIMIT $2))";

pub(in crate::hub::record) async fn take(
    line: &Line,
    settings: &PostgresSettings,
    hub: &str,
    lasts_ms: u64,
) -> Result<Option<u64>, RecordError> {
    let lasts = signed(lasts_ms);
    let rows = line.ask(settings, TAKE, &[(&hub, Type::TEXT), (&lasts, Type::INT8)]).await?;
    Ok(if rows.is_empty() { None } else { Some(number(&rows, 0, 0)?) })
}

pub(in crate::hub::record) async fn note(
    line: &Line,
    settings: &PostgresSettings,
    region: &str,
    federation_ids: &str,
    due_after_ms: u64,
) -> Result<Vec<String>, RecordError> {
    let due = signed(due_after_ms);
    let values: [Value<'_>; 3] = [(&federation_ids, Type::TEXT), (&region, Type::TEXT), (&due, Type::INT8)];
    let rows = line.ask(settings, NOTE, &values).await?;
    Ok((0..rows.len()).map(|at| text(&rows, at, 0)).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn due(
    line: &Line,
    settings: &PostgresSettings,
    region: &str,
    max: usize,
) -> Result<Vec<Conflict>, RecordError> {
    let filter = "step IN ('open', 'cancelling') AND region = $1
      AND due_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint ORDER BY due_ms, job_id LIMIT $2";
    let max = signed(max as u64);
    select(line, settings, filter, &[(&region, Type::TEXT), (&max, Type::INT8)]).await
}

pub(in crate::hub::record) async fn of(
    line: &Line,
    settings: &PostgresSettings,
    federation_id: &str,
) -> Result<Vec<Conflict>, RecordError> {
    select(line, settings, "federation_id = $1 LIMIT 1000", &[(&federation_id, Type::TEXT)]).await
}

async fn select(
    line: &Line,
    settings: &PostgresSettings,
    filter: &str,
    values: &[Value<'_>],
) -> Result<Vec<Conflict>, RecordError> {
    let rows = line.ask(settings, &format!("SELECT {COLUMNS} FROM ojs_hub_conflict WHERE {filter}"), values).await?;
    Ok((0..rows.len()).map(|at| read(&rows, at)).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn advance(
    line: &Line,
    settings: &PostgresSettings,
    from: ConflictStep,
    to: &Conflict,
    due_after_ms: u64,
) -> Result<bool, RecordError> {
    let (from, step) = (from.as_str(), to.step.as_str());
    let winner_region = to.winner.as_ref().map(|it| it.0.as_str());
    let winner_job = to.winner.as_ref().map(|it| it.1.as_str());
    let (refusals, due) = (signed(to.refusals), signed(due_after_ms));
    let values: [Value<'_>; 9] = [
        (&to.job_id, Type::TEXT),
        (&to.region, Type::TEXT),
        (&from, Type::TEXT),
        (&step, Type::TEXT),
        (&to.why, Type::TEXT),
        (&winner_region, Type::TEXT),
        (&winner_job, Type::TEXT),
        (&refusals, Type::INT8),
        (&due, Type::INT8),
    ];
    Ok(!line.ask(settings, ADVANCE, &values).await?.is_empty())
}

pub(in crate::hub::record) async fn remove(
    line: &Line,
    settings: &PostgresSettings,
    job_id: &str,
    region: &str,
    step: ConflictStep,
) -> Result<(), RecordError> {
    let step = step.as_str();
    let statement = "DELETE FROM ojs_hub_conflict WHERE job_id = $1 AND region = $2 AND step = $3";
    let values: [Value<'_>; 3] = [(&job_id, Type::TEXT), (&region, Type::TEXT), (&step, Type::TEXT)];
    line.ask(settings, statement, &values).await.map(drop)
}

pub(in crate::hub::record) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    older_than_ms: u64,
) -> Result<(), RecordError> {
    let (age, max) = (signed(older_than_ms), signed(PRUNED_AT_ONCE));
    line.ask(settings, PRUNE, &[(&age, Type::INT8), (&max, Type::INT8)]).await.map(drop)
}

fn read(rows: &[Row], at: usize) -> Result<Conflict, PostgresError> {
    let may = |column| rows[at].try_get::<_, Option<String>>(column).map_err(PostgresError::content);
    let step = ConflictStep::parse(&text(rows, at, 3)?);
    Ok(Conflict {
        job_id: text(rows, at, 0)?,
        region: text(rows, at, 1)?,
        federation_id: text(rows, at, 2)?,
        step: step.ok_or_else(|| PostgresError::content("a step of a later version"))?,
        why: may(4)?,
        winner: Option::zip(may(5)?, may(6)?),
        refusals: number(rows, at, 7)?,
        due_ms: number(rows, at, 8)?,
        changed_ms: number(rows, at, 9)?,
    })
}
