//! The ledger of jobs in a record in PostgreSQL. Each decision is one statement.

use serde_json::json;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{Kept, RecordError};
use super::super::ledger::{
    LEDGER_AT_ONCE, LEDGER_COUNTED_MAX, LedgerAppend, LedgerDay, LedgerDepth, LedgerJob, LedgerName, LedgerQuery,
    LedgerRow, LedgerState,
};
use super::super::postgres_error::PostgresError;
use super::line::{Line, Value};
use super::values::{number, signed, text};

const DAY: &str = "
SELECT (SELECT coalesce(max(day), 0) FROM ojs_hub_ledger_day WHERE is_closed), (SELECT change FROM ojs_hub_ledger_turn),
  coalesce((SELECT rows FROM ojs_hub_ledger_day WHERE day = $1), 0)";

const KNOWN: &str = "
SELECT job_id, region, name FROM ojs_hub_job_history
JOIN json_populate_recordset(NULL::ojs_hub_job_history, $1::json) AS asked USING (job_id, region, name)";

/// One statement, so that rows, their number and the jobs are kept together. The turn is locked by its update: of two hubs that have read the
/// same state, the second finds another turn.
const APPEND: &str = "
WITH turned AS (
  UPDATE ojs_hub_ledger_turn SET change = change + 1 WHERE change = $6 RETURNING 1),
opened AS (
  INSERT INTO ojs_hub_ledger_day AS known (day, rows, is_closed, is_dropped)
  SELECT $1, $3, false, false FROM turned WHERE $2 = 0 OR EXISTS (SELECT 1 FROM ojs_hub_ledger_day WHERE day = $1)
  ON CONFLICT (day) DO UPDATE SET rows = excluded.rows WHERE known.rows = $2 AND NOT known.is_closed RETURNING day),
added AS (
  INSERT INTO ojs_hub_job_history (day, number, job_id, region, name, leaf, line)
  SELECT asked.day, number, job_id, region, name, leaf, line
  FROM opened, json_populate_recordset(NULL::ojs_hub_job_history, $4::json) AS asked ORDER BY number),
erased AS (
  UPDATE ojs_hub_job_history AS h SET line = NULL, job_id = '', region = '', name = h.day || ' ' || h.number
  FROM opened, json_populate_recordset(NULL::ojs_hub_job_history, $7::json) AS e
  WHERE (h.job_id, h.region) = (e.job_id, e.region)),
kept AS (
  INSERT INTO ojs_hub_ledger_job (job_id, region, tenant, job_type, is_bound, is_waiting, enqueued_ms, learned_ms, document)
  SELECT job_id, region, tenant, job_type, is_bound, is_waiting, enqueued_ms, learned_ms, document
  FROM opened, json_populate_recordset(NULL::ojs_hub_ledger_job, $5::json) ORDER BY job_id, region
  ON CONFLICT (job_id, region) DO UPDATE SET tenant = excluded.tenant, job_type = excluded.job_type, is_bound = excluded.is_bound, is_waiting = excluded.is_waiting,
    enqueued_ms = excluded.enqueued_ms, learned_ms = excluded.learned_ms, document = excluded.document)
SELECT count(*) FROM opened";

const CLOSE: &str = "
UPDATE ojs_hub_ledger_day SET is_closed = true, head = $3 WHERE day = $1 AND rows = $2 AND NOT is_closed RETURNING 1";

const PRUNE: &str = "
WITH old AS (
  DELETE FROM ojs_hub_job_history WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ojs_hub_job_history WHERE day < $1 ORDER BY day LIMIT $3)) RETURNING 1),
unchanged AS (
  DELETE FROM ojs_hub_ledger_job WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ojs_hub_ledger_job WHERE learned_ms < $2 LIMIT $3)) RETURNING 1),
dropped AS (
  UPDATE ojs_hub_ledger_day SET is_closed = true, is_dropped = true
  WHERE day < $1 AND NOT is_dropped AND NOT EXISTS (SELECT 1 FROM ojs_hub_job_history WHERE day < $1))
SELECT (SELECT count(*) FROM old) + (SELECT count(*) FROM unchanged)";

const FORGET: &str = "
WITH forgotten AS (
  UPDATE ojs_hub_ledger_job SET tenant = NULL, job_type = NULL, is_waiting = false, document = $3 WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ojs_hub_ledger_job WHERE tenant = $1 LIMIT $2)) RETURNING job_id, region),
erased AS (
  UPDATE ojs_hub_job_history AS h SET line = NULL, job_id = '', region = '', name = h.day || ' ' || h.number
  FROM forgotten AS f WHERE (h.job_id, h.region) = (f.job_id, f.region) RETURNING 1)
SELECT (SELECT count(*) FROM forgotten), (SELECT count(*) FROM erased)";

const TURN: &str = "UPDATE ojs_hub_ledger_turn SET change = change + 1";

const JOB: &str = "job_id, region, tenant, job_type, is_bound, enqueued_ms, learned_ms, document, is_waiting";

/// The columns of a row of the history, with those of its job.
const ROW: &str = "h.day, h.number, h.job_id, h.region, h.name, h.leaf, h.line, j.tenant, j.is_bound
FROM ojs_hub_job_history AS h LEFT JOIN ojs_hub_ledger_job AS j ON (j.job_id, j.region) = (h.job_id, h.region)";

pub(in crate::hub::record) async fn state(
    line: &Line,
    settings: &PostgresSettings,
    day: &u64,
    names: &[LedgerName],
) -> Result<LedgerState, RecordError> {
    let found = line.ask(settings, DAY, &[(&signed(*day), Type::INT8)]).await?;
    let asked = json!(names).to_string();
    let known = line.ask(settings, KNOWN, &[(&asked, Type::TEXT)]).await?;
    let jobs = format!(
        "SELECT {JOB} FROM ojs_hub_ledger_job WHERE (job_id, region) IN (
  SELECT job_id, region FROM json_populate_recordset(NULL::ojs_hub_job_history, $1::json))"
    );
    let jobs = line.ask(settings, &jobs, &[(&asked, Type::TEXT)]).await?;
    let name = |at| {
        let (job_id, region) = (text(&known, at, 0)?, text(&known, at, 1)?);
        Ok::<_, PostgresError>(LedgerName { job_id, region, name: text(&known, at, 2)? })
    };
    Ok(LedgerState {
        closed: number(&found, 0, 0)?,
        change: number(&found, 0, 1)?,
        rows: number(&found, 0, 2)?,
        known: (0..known.len()).map(name).collect::<Result<_, _>>()?,
        jobs: read_jobs(&jobs)?,
    })
}

pub(in crate::hub::record) async fn append(
    line: &Line,
    settings: &PostgresSettings,
    to: &LedgerAppend,
) -> Result<Kept, RecordError> {
    let row = |it: &LedgerRow| {
        let LedgerName { job_id, region, name } = &it.name;
        let leaf = format!("\\x{}", data_encoding::HEXLOWER.encode(&it.leaf));
        json!({ "day": it.day, "number": it.number, "job_id": job_id, "region": region, "name": name, "leaf": leaf, "line": it.line })
    };
    let job = |it: &LedgerJob| {
        json!({
            "job_id": it.job_id,
            "region": it.region,
            "tenant": it.tenant,
            "job_type": it.job_type,
            "is_bound": it.is_bound,
            "is_waiting": it.is_waiting,
            "enqueued_ms": it.enqueued_ms,
            "learned_ms": it.learned_ms,
            "document": it.document,
        })
    };
    let rows = json!(to.rows.iter().map(row).collect::<Vec<_>>()).to_string();
    let jobs = json!(to.jobs.iter().map(job).collect::<Vec<_>>()).to_string();
    let copy = |(job_id, region): &(String, String)| json!({ "job_id": job_id, "region": region });
    let erased = json!(to.erased.iter().map(copy).collect::<Vec<_>>()).to_string();
    let [day, from, end, change] = [to.day, to.from, to.from + to.rows.len() as u64, to.change].map(signed);
    let values: [Value<'_>; 7] = [
        (&day, Type::INT8),
        (&from, Type::INT8),
        (&end, Type::INT8),
        (&rows, Type::TEXT),
        (&jobs, Type::TEXT),
        (&change, Type::INT8),
        (&erased, Type::TEXT),
    ];
    let moved = line.ask(settings, APPEND, &values).await?;
    Ok(if number(&moved, 0, 0)? > 0 { Kept::Kept } else { Kept::Behind })
}

pub(in crate::hub::record) async fn jobs(
    line: &Line,
    settings: &PostgresSettings,
    query: &LedgerQuery,
) -> Result<Vec<LedgerJob>, RecordError> {
    let (from, to, max) = (signed(query.from_ms), signed(query.to_ms), signed(query.max as u64));
    let mut values: Vec<Value<'_>> = vec![(&from, Type::INT8), (&to, Type::INT8), (&max, Type::INT8)];
    let mut filter = "enqueued_ms >= $1 AND enqueued_ms < $2".to_owned();
    if let Some(tenant) = &query.tenant {
        values.push((tenant as &(dyn ToSql + Sync), Type::TEXT));
        filter.push_str(&format!(" AND tenant = ${}", values.len()));
    }
    let behind = query.behind.as_ref().map(|(enqueued_ms, job_id, region)| (signed(*enqueued_ms), job_id, region));
    if let Some((enqueued_ms, job_id, region)) = &behind {
        let at = values.len();
        values.extend([
            (enqueued_ms as &(dyn ToSql + Sync), Type::INT8),
            (*job_id as &(dyn ToSql + Sync), Type::TEXT),
            (*region as &(dyn ToSql + Sync), Type::TEXT),
        ]);
        filter.push_str(&format!(" AND (enqueued_ms, job_id, region) < (${}, ${}, ${})", at + 1, at + 2, at + 3));
    }
    let select = format!(
        "SELECT {JOB} FROM ojs_hub_ledger_job WHERE {filter} ORDER BY enqueued_ms DESC, job_id DESC, region DESC LIMIT $3"
    );
    Ok(read_jobs(&line.ask(settings, &select, &values).await?)?)
}

pub(in crate::hub::record) async fn copies(
    line: &Line,
    settings: &PostgresSettings,
    job_id: &str,
) -> Result<Vec<LedgerJob>, RecordError> {
    let select = format!("SELECT {JOB} FROM ojs_hub_ledger_job WHERE job_id = $1 ORDER BY region LIMIT 100");
    Ok(read_jobs(&line.ask(settings, &select, &[(&job_id, Type::TEXT)]).await?)?)
}

pub(in crate::hub::record) async fn depth(
    line: &Line,
    settings: &PostgresSettings,
) -> Result<Vec<LedgerDepth>, RecordError> {
    let select = "SELECT job_type, tenant, count(*) FROM (SELECT job_type, tenant FROM ojs_hub_ledger_job WHERE is_waiting LIMIT $1) AS some
GROUP BY job_type, tenant ORDER BY 3 DESC LIMIT 1000";
    let rows = line.ask(settings, select, &[(&signed(LEDGER_COUNTED_MAX), Type::INT8)]).await?;
    let may = |at: usize, column| rows[at].try_get::<_, Option<String>>(column).map_err(PostgresError::content);
    let read = |at| Ok::<_, PostgresError>((may(at, 0)?, may(at, 1)?, number(&rows, at, 2)?));
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn history(
    line: &Line,
    settings: &PostgresSettings,
    copy: &(String, String),
    max: &usize,
) -> Result<Vec<LedgerRow>, RecordError> {
    let select = format!("SELECT {ROW} WHERE h.job_id = $1 AND h.region = $2 ORDER BY h.day, h.number LIMIT $3");
    let max = signed(*max as u64);
    let values: [Value<'_>; 3] = [(&copy.0, Type::TEXT), (&copy.1, Type::TEXT), (&max, Type::INT8)];
    Ok(read_rows(&line.ask(settings, &select, &values).await?)?)
}

pub(in crate::hub::record) async fn rows(
    line: &Line,
    settings: &PostgresSettings,
    day: &u64,
    from: &u64,
    max: &usize,
) -> Result<Vec<LedgerRow>, RecordError> {
    let select = format!("SELECT {ROW} WHERE h.day = $1 AND h.number >= $2 ORDER BY h.number LIMIT $3");
    let [day, from, max] = [*day, *from, *max as u64].map(signed);
    let values: [Value<'_>; 3] = [(&day, Type::INT8), (&from, Type::INT8), (&max, Type::INT8)];
    Ok(read_rows(&line.ask(settings, &select, &values).await?)?)
}

pub(in crate::hub::record) async fn leaves(
    line: &Line,
    settings: &PostgresSettings,
    day: &u64,
    from: &u64,
    max: &usize,
) -> Result<Vec<Vec<u8>>, RecordError> {
    let select = "SELECT leaf FROM ojs_hub_job_history WHERE day = $1 AND number >= $2 ORDER BY number LIMIT $3";
    let [day, from, max] = [*day, *from, *max as u64].map(signed);
    let values: [Value<'_>; 3] = [(&day, Type::INT8), (&from, Type::INT8), (&max, Type::INT8)];
    let rows = line.ask(settings, select, &values).await?;
    Ok(rows.iter().map(|row| row.try_get(0).map_err(PostgresError::content)).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn days(
    line: &Line,
    settings: &PostgresSettings,
    from: &u64,
    to: &u64,
) -> Result<Vec<LedgerDay>, RecordError> {
    let select = "SELECT day, rows, is_closed, is_dropped, head FROM ojs_hub_ledger_day WHERE day BETWEEN $1 AND $2 ORDER BY day LIMIT 1000";
    let [from, to] = [*from, *to].map(signed);
    let rows = line.ask(settings, select, &[(&from, Type::INT8), (&to, Type::INT8)]).await?;
    let read = |at: usize| {
        Ok::<_, PostgresError>(LedgerDay {
            day: number(&rows, at, 0)?,
            rows: number(&rows, at, 1)?,
            is_closed: rows[at].try_get(2).map_err(PostgresError::content)?,
            is_dropped: rows[at].try_get(3).map_err(PostgresError::content)?,
            head: rows[at].try_get(4).map_err(PostgresError::content)?,
        })
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn close(
    line: &Line,
    settings: &PostgresSettings,
    day: &u64,
    rows: &u64,
    head: &String,
) -> Result<Kept, RecordError> {
    let [day, rows] = [*day, *rows].map(signed);
    let values: [Value<'_>; 3] = [(&day, Type::INT8), (&rows, Type::INT8), (head, Type::TEXT)];
    let closed = line.ask(settings, CLOSE, &values).await?;
    Ok(if closed.is_empty() { Kept::Behind } else { Kept::Kept })
}

pub(in crate::hub::record) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    before_day: &u64,
    learned_ms: &u64,
) -> Result<u64, RecordError> {
    let [before, unchanged, max] = [*before_day, *learned_ms, LEDGER_AT_ONCE].map(signed);
    let values: [Value<'_>; 3] = [(&before, Type::INT8), (&unchanged, Type::INT8), (&max, Type::INT8)];
    Ok(number(&line.ask(settings, PRUNE, &values).await?, 0, 0)?)
}

pub(in crate::hub::record) async fn forget(
    line: &Line,
    settings: &PostgresSettings,
    tenant: &String,
    mark: &String,
) -> Result<(u64, u64), RecordError> {
    let max = signed(LEDGER_AT_ONCE / 10);
    let values: [Value<'_>; 3] = [(tenant, Type::TEXT), (&max, Type::INT8), (mark, Type::TEXT)];
    let rows = line.ask(settings, FORGET, &values).await?;
    Ok((number(&rows, 0, 0)?, number(&rows, 0, 1)?))
}

pub(in crate::hub::record) async fn turn(line: &Line, settings: &PostgresSettings) -> Result<(), RecordError> {
    line.ask(settings, TURN, &[]).await.map(drop)
}

fn read_jobs(rows: &[Row]) -> Result<Vec<LedgerJob>, PostgresError> {
    let may = |at: usize, column| rows[at].try_get::<_, Option<String>>(column).map_err(PostgresError::content);
    let read = |at: usize| {
        Ok(LedgerJob {
            job_id: text(rows, at, 0)?,
            region: text(rows, at, 1)?,
            tenant: may(at, 2)?,
            job_type: may(at, 3)?,
            is_bound: rows[at].try_get(4).map_err(PostgresError::content)?,
            enqueued_ms: number(rows, at, 5)?,
            learned_ms: number(rows, at, 6)?,
            document: text(rows, at, 7)?,
            is_waiting: rows[at].try_get(8).map_err(PostgresError::content)?,
        })
    };
    (0..rows.len()).map(read).collect()
}

fn read_rows(rows: &[Row]) -> Result<Vec<LedgerRow>, PostgresError> {
    let may = |at: usize, column| rows[at].try_get::<_, Option<String>>(column).map_err(PostgresError::content);
    let read = |at: usize| {
        let bound: Option<bool> = rows[at].try_get(8).map_err(PostgresError::content)?;
        let tenant = may(at, 7)?;
        Ok(LedgerRow {
            day: number(rows, at, 0)?,
            number: number(rows, at, 1)?,
            name: LedgerName { job_id: text(rows, at, 2)?, region: text(rows, at, 3)?, name: text(rows, at, 4)? },
            leaf: rows[at].try_get(5).map_err(PostgresError::content)?,
            line: may(at, 6)?,
            of_job: bound.map(|bound| (tenant, bound)),
        })
    };
    (0..rows.len()).map(read).collect()
}
