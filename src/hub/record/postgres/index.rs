//! The index of jobs in a record in PostgreSQL: facts, each once, by the transaction that has written them.
//!
//! Numbers of a sequence are given before commits, in another order. So the place of a fact is its transaction, then its number, and a
//! source shows only facts of transactions before the first one that may still be under way.

use serde_json::json;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{INDEX_ROWS_MAX, IndexPlace, IndexedChange, PRUNED_AT_ONCE, RecordError, Wanted};
use super::super::postgres_error::PostgresError;
use super::line::{Line, Value};
use super::values::{number, signed, text};
use crate::base::RegionId;
use crate::replica::{Change, ChangeKind, Observer};

/// Joins facts with the known ones, as `Change::joined` does, each with a place of its own where that changes anything; drops the
/// bodies of jobs that they end; and notes the place of the source. Sorted, so that two hubs which write the same facts wait for each other in one order.
const SAVE: &str = "
WITH added AS (
  INSERT INTO ojs_hub_change AS known (job_id, region, kind, lease_ms, at_ms, federation_id, state, replicated_from, job, observed_by, origin, learned_ms)
  SELECT job_id, region, kind, lease_ms, at_ms, federation_id, state, replicated_from, job, observed_by, $2,
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint
  FROM json_populate_recordset(NULL::ojs_hub_change, $1::json) ORDER BY job_id, region, kind, lease_ms
  ON CONFLICT (job_id, region, kind, lease_ms, origin) DO UPDATE SET
    at_ms = CASE WHEN known.observed_by IS NULL AND excluded.observed_by IS NOT NULL THEN known.at_ms
      WHEN excluded.observed_by IS NULL AND known.observed_by IS NOT NULL THEN excluded.at_ms
      WHEN known.kind = 'created' THEN least(known.at_ms, excluded.at_ms) ELSE greatest(known.at_ms, excluded.at_ms) END,
    federation_id = greatest(known.federation_id, excluded.federation_id),
    state = CASE WHEN known.kind = 'failed' AND 'discarded' IN (known.state, excluded.state) THEN 'discarded'
      ELSE greatest(known.state, excluded.state) END,
    replicated_from = greatest(known.replicated_from, excluded.replicated_from),
    job = greatest(known.job, excluded.job),
    observed_by = CASE WHEN excluded.observed_by IS NOT NULL THEN known.observed_by END,
    learned_ms = excluded.learned_ms, mark = excluded.mark, written = excluded.written
  WHERE CASE WHEN known.observed_by IS NULL AND excluded.observed_by IS NOT NULL THEN false
      WHEN known.kind = 'created' THEN excluded.at_ms < known.at_ms ELSE excluded.at_ms > known.at_ms END
    OR greatest(known.federation_id, excluded.federation_id) IS DISTINCT FROM known.federation_id
    OR CASE WHEN known.kind = 'failed' AND 'discarded' IN (known.state, excluded.state) THEN 'discarded'
      ELSE greatest(known.state, excluded.state) END IS DISTINCT FROM known.state
    OR greatest(known.replicated_from, excluded.replicated_from) IS DISTINCT FROM known.replicated_from
    OR greatest(known.job, excluded.job) IS DISTINCT FROM known.job
    OR (excluded.observed_by IS NULL AND known.observed_by IS NOT NULL)),
ended AS (
  DELETE FROM ojs_hub_body WHERE ctid = ANY (ARRAY(
    SELECT body.ctid FROM ojs_hub_body AS body JOIN (
      SELECT DISTINCT job_id, region FROM json_populate_recordset(NULL::ojs_hub_change, $1::json)
      WHERE kind IN ('completed', 'cancelled') OR state IN ('completed', 'cancelled', 'discarded')) AS over USING (job_id, region)
    ORDER BY body.mark FOR UPDATE OF body)))
INSERT INTO ojs_hub_index_place SELECT $2, $3, $4, $5 WHERE $3 IS NOT NULL
ON CONFLICT (origin) DO UPDATE SET epoch = excluded.epoch, written = excluded.written, mark = excluded.mark
WHERE ojs_hub_index_place.epoch <> excluded.epoch
  OR (ojs_hub_index_place.written, ojs_hub_index_place.mark) < (excluded.written, excluded.mark)";

/// The last one is no `EXISTS`, for which the server can read the whole table once in place of an index for each row.
const COLUMNS: &str =
    "job_id, region, kind, lease_ms, at_ms, federation_id, state, replicated_from, job, written, mark, learned_ms,
  (SELECT true FROM ojs_hub_change AS o WHERE (o.job_id, o.region) = (ojs_hub_change.job_id, ojs_hub_change.region)
  AND o.replicated_from IS NOT NULL LIMIT 1) IS NOT NULL, observed_by";

/// Keeps facts, and the place of the source up to which this record has them.
pub(super) async fn save(
    line: &Line,
    settings: &PostgresSettings,
    origin: &str,
    changes: &[Change],
    place: Option<&IndexPlace>,
) -> Result<(), RecordError> {
    let rows = changes.iter().map(|it| {
        let mut row = json!(it);
        row["job"] = json!(it.job.as_ref().map(crate::replica::JobFacts::text));
        row
    });
    let rows = json!(rows.collect::<Vec<_>>()).to_string();
    let epoch = place.map(|it| it.epoch.as_str());
    let (written, mark) = (place.map(|it| signed(it.written)), place.map(|it| signed(it.mark)));
    let values: [Value<'_>; 5] =
        [(&rows, Type::TEXT), (&origin, Type::TEXT), (&epoch, Type::TEXT), (&written, Type::INT8), (&mark, Type::INT8)];
    line.ask(settings, SAVE, &values).await.map(drop)
}

/// The facts about the wanted jobs.
pub(super) async fn find(
    line: &Line,
    settings: &PostgresSettings,
    wanted: &Wanted,
) -> Result<Vec<IndexedChange>, RecordError> {
    let (filter, id) = match wanted {
        Wanted::Federation(id) => {
            ("(job_id, region) IN (SELECT job_id, region FROM ojs_hub_change WHERE federation_id = $1)", id)
        }
        Wanted::Job(id) => ("job_id = $1", id),
    };
    let max = signed(INDEX_ROWS_MAX as u64);
    let from = format!("ojs_hub_change WHERE {filter} ORDER BY lease_ms, kind COLLATE \"C\" LIMIT $2");
    select(line, settings, &from, &[(id, Type::TEXT), (&max, Type::INT8)]).await
}

/// The facts about several jobs, and about each copy that has one of these tracking ids.
pub(super) async fn find_of(
    line: &Line,
    settings: &PostgresSettings,
    jobs: &[String],
    federation_ids: &[String],
) -> Result<Vec<IndexedChange>, RecordError> {
    let from = "ojs_hub_change WHERE (job_id, region) IN (
  SELECT job_id, region FROM ojs_hub_change WHERE job_id = ANY ($1)
  UNION SELECT job_id, region FROM ojs_hub_change WHERE federation_id = ANY ($2)
) ORDER BY lease_ms, kind COLLATE \"C\" LIMIT $3";
    let max = signed(INDEX_ROWS_MAX as u64);
    let values: [Value<'_>; 3] = [(&jobs, Type::TEXT_ARRAY), (&federation_ids, Type::TEXT_ARRAY), (&max, Type::INT8)];
    select(line, settings, from, &values).await
}

/// The facts about jobs of a region before an id, within a bounded part of the table, and the id at the end of that part.
pub(in crate::hub::record) async fn jobs_before(
    line: &Line,
    settings: &PostgresSettings,
    region: &str,
    before: Option<&str>,
    facts_max: usize,
) -> Result<(Vec<IndexedChange>, Option<String>), RecordError> {
    let below = if before.is_some() { "job_id < $1" } else { "$1::text IS NULL" };
    let part = format!("SELECT job_id FROM ojs_hub_change WHERE {below} ORDER BY job_id DESC LIMIT $2");
    let max = signed(facts_max as u64);
    let end = format!("SELECT min(job_id), count(*) FROM ({part}) AS part");
    let rows = line.ask(settings, &end, &[(&before, Type::TEXT), (&max, Type::INT8)]).await?;
    let row = rows.first().ok_or_else(|| PostgresError::content("a row is missing"))?;
    let (end, count): (Option<String>, i64) =
        row.try_get(0).and_then(|end| Ok((end, row.try_get(1)?))).map_err(PostgresError::content)?;
    let end = end.filter(|_| count == max);
    // A range, so that facts which arrive between the two statements push none out of the part.
    let above = if end.is_some() { "job_id >= $2" } else { "$2::text IS NULL" };
    let from = format!("ojs_hub_change WHERE region = $3 AND {above} AND {below} ORDER BY job_id DESC, lease_ms");
    let values: [Value<'_>; 3] = [(&before, Type::TEXT), (&end, Type::TEXT), (&region, Type::TEXT)];
    Ok((select(line, settings, &from, &values).await?, end))
}

/// The facts of an origin behind a place, in order.
pub(super) async fn behind(
    line: &Line,
    settings: &PostgresSettings,
    origin: &str,
    after: &IndexPlace,
    max: usize,
) -> Result<Vec<IndexedChange>, RecordError> {
    let from = "ojs_hub_change WHERE origin = $1 AND (written, mark) > ($2, $3) \
                  AND written < pg_snapshot_xmin(pg_current_snapshot())::text::bigint ORDER BY written, mark LIMIT $4";
    let (written, mark, max) = (signed(after.written), signed(after.mark), signed(max as u64));
    let values: [Value<'_>; 4] =
        [(&origin, Type::TEXT), (&written, Type::INT8), (&mark, Type::INT8), (&max, Type::INT8)];
    select(line, settings, from, &values).await
}

/// The facts in `from`, which names the table of facts, or rows of it by its name, with their filter, order and number.
pub(super) async fn select(
    line: &Line,
    settings: &PostgresSettings,
    from: &str,
    values: &[Value<'_>],
) -> Result<Vec<IndexedChange>, RecordError> {
    let rows = line.ask(settings, &format!("SELECT {COLUMNS} FROM {from}"), values).await?;
    Ok((0..rows.len()).map(|at| read(&rows, at)).collect::<Result<_, _>>()?)
}

/// The place up to which this record has the facts of an origin.
pub(super) async fn place(line: &Line, settings: &PostgresSettings, origin: &str) -> Result<IndexPlace, RecordError> {
    let select = "SELECT epoch, written, mark FROM ojs_hub_index_place WHERE origin = $1";
    let rows = line.ask(settings, select, &[(&origin, Type::TEXT)]).await?;
    if rows.is_empty() {
        return Ok(IndexPlace::default());
    }
    Ok(IndexPlace { epoch: text(&rows, 0, 0)?, written: number(&rows, 0, 1)?, mark: number(&rows, 0, 2)? })
}

/// The name of this database as a source of facts.
pub(super) async fn epoch(line: &Line, settings: &PostgresSettings) -> Result<String, RecordError> {
    Ok(text(&line.ask(settings, "SELECT epoch FROM ojs_hub_index_epoch", &[]).await?, 0, 0)?)
}

/// Drops some of the facts that are too old, and of those that are too many: the marks of all that are left are within `rows_max` numbers.
/// Returns how many were dropped.
pub(super) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    before_ms: u64,
    rows_max: u64,
) -> Result<u64, RecordError> {
    let prune = "
WITH dropped AS (
  DELETE FROM ojs_hub_change WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ojs_hub_change WHERE learned_ms < $1 OR mark <= (SELECT last_value FROM ojs_hub_mark) - $2 LIMIT $3)) RETURNING 1)
SELECT count(*) FROM dropped";
    let (before, max, at_once) = (signed(before_ms), signed(rows_max), signed(PRUNED_AT_ONCE));
    let values: [Value<'_>; 3] = [(&before, Type::INT8), (&max, Type::INT8), (&at_once, Type::INT8)];
    Ok(number(&line.ask(settings, prune, &values).await?, 0, 0)?)
}

fn read(rows: &[Row], at: usize) -> Result<IndexedChange, PostgresError> {
    let may = |column| rows[at].try_get::<_, Option<String>>(column).map_err(PostgresError::content);
    let kind = text(rows, at, 2)?;
    let kind = ChangeKind::ALL.into_iter().find(|it| it.as_str() == kind);
    let job = may(8)?.map(|job| serde_json::from_str(&job)).transpose().map_err(PostgresError::content)?;
    let change = Change {
        job_id: text(rows, at, 0)?,
        region: RegionId::parse(&text(rows, at, 1)?).map_err(PostgresError::content)?,
        kind: kind.ok_or_else(|| PostgresError::content("a kind of change of a later version"))?,
        lease_ms: number(rows, at, 3)?,
        at_ms: number(rows, at, 4)?,
        federation_id: may(5)?,
        state: may(6)?,
        replicated_from: may(7)?,
        job,
        observed_by: may(13)?.map(|_| Observer::Events),
    };
    let (written, mark, learned_ms) = (number(rows, at, 9)?, number(rows, at, 10)?, number(rows, at, 11)?);
    let is_replica = rows[at].try_get(12).map_err(PostgresError::content)?;
    Ok(IndexedChange { change, written, mark, learned_ms, is_replica })
}
