//! The index of jobs in a hub's record in SQLite: facts, each once, in the order in which this file got them.

use rusqlite::{Connection, Params, Row, params};

use super::super::content::{INDEX_ROWS_MAX, IndexPlace, IndexedChange, PRUNED_AT_ONCE, Wanted};
use super::bodies;
use super::limits::now_ms;
use super::tables::{signed, whole};
use crate::base::RegionId;
use crate::replica::{Change, ChangeKind, Observer};

/// Joins a fact with the known one, as `Change::joined` does, and gives it a place of its own where that changes anything.
const SAVE: &str = "
INSERT INTO job_change (job_id, region, kind, lease_ms, at_ms, federation_id, state, replicated_from, job, observed_by, origin, learned_ms, mark)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (job_id, region, kind, lease_ms, origin) DO UPDATE SET
  at_ms = CASE WHEN observed_by IS NULL AND excluded.observed_by IS NOT NULL THEN at_ms
    WHEN excluded.observed_by IS NULL AND observed_by IS NOT NULL THEN excluded.at_ms
    WHEN kind = 'created' THEN min(at_ms, excluded.at_ms) ELSE max(at_ms, excluded.at_ms) END,
  federation_id = max(coalesce(federation_id, excluded.federation_id), coalesce(excluded.federation_id, federation_id)),
  state = CASE WHEN kind = 'failed' AND 'discarded' IN (state, excluded.state) THEN 'discarded'
    ELSE max(coalesce(state, excluded.state), coalesce(excluded.state, state)) END,
  replicated_from = max(coalesce(replicated_from, excluded.replicated_from), coalesce(excluded.replicated_from, replicated_from)),
  job = max(coalesce(job, excluded.job), coalesce(excluded.job, job)),
  observed_by = max(observed_by, excluded.observed_by),
  learned_ms = excluded.learned_ms, mark = excluded.mark
WHERE CASE WHEN observed_by IS NULL AND excluded.observed_by IS NOT NULL THEN 0
    WHEN kind = 'created' THEN excluded.at_ms < at_ms ELSE excluded.at_ms > at_ms END
  OR (excluded.federation_id IS NOT NULL AND (federation_id IS NULL OR excluded.federation_id > federation_id))
  OR CASE WHEN kind = 'failed' AND 'discarded' IN (state, excluded.state) THEN state IS NOT 'discarded'
    ELSE excluded.state IS NOT NULL AND (state IS NULL OR excluded.state > state) END
  OR (excluded.replicated_from IS NOT NULL AND (replicated_from IS NULL OR excluded.replicated_from > replicated_from))
  OR (excluded.job IS NOT NULL AND (job IS NULL OR excluded.job > job))
  OR (excluded.observed_by IS NULL AND observed_by IS NOT NULL)";

const COLUMNS: &str = "EXISTS (SELECT 1 FROM job_change AS o WHERE (o.job_id, o.region) = (job_change.job_id, job_change.region)
  AND o.replicated_from IS NOT NULL) AS is_replica, job_id, region, kind, lease_ms, at_ms, federation_id, state, replicated_from, job, observed_by, origin, learned_ms, mark";

/// Keeps facts, and the place of the source up to which this file has them.
pub(super) fn save(
    connection: &mut Connection,
    origin: &str,
    changes: &[Change],
    place: Option<&IndexPlace>,
) -> rusqlite::Result<()> {
    let learned = signed(now_ms(connection)?);
    let transaction = connection.transaction()?;
    {
        let mut mark = transaction.query_row("SELECT mark FROM index_epoch", [], |row| whole(row, "mark"))?;
        let mut statement = transaction.prepare(SAVE)?;
        for it in changes {
            let (region, kind, job) = (it.region.as_str(), it.kind.as_str(), it.job.as_ref().map(|job| job.text()));
            let (lease_ms, at_ms) = (signed(it.lease_ms), signed(it.at_ms));
            let ids = (&it.federation_id, &it.state, &it.replicated_from);
            let observed_by = it.observed_by.map(Observer::as_str);
            let saved = statement.execute(params![
                it.job_id,
                region,
                kind,
                lease_ms,
                at_ms,
                ids.0,
                ids.1,
                ids.2,
                job,
                observed_by,
                origin,
                learned,
                signed(mark + 1)
            ])?;
            // Given to a row that is new or has changed alone, and never again, also where all facts have been dropped.
            mark += saved as u64;
        }
        transaction.execute("UPDATE index_epoch SET mark = ?1", [signed(mark)])?;
    }
    bodies::end(&transaction, changes)?;
    if let Some(place) = place {
        let values = params![origin, place.epoch, signed(place.written), signed(place.mark)];
        transaction.execute("INSERT OR REPLACE INTO index_place VALUES (?1, ?2, ?3, ?4)", values)?;
    }
    transaction.commit()
}

/// The facts about the wanted jobs.
pub(super) fn find(connection: &mut Connection, wanted: &Wanted) -> rusqlite::Result<Vec<IndexedChange>> {
    let (filter, id) = match wanted {
        Wanted::Federation(id) => {
            ("(job_id, region) IN (SELECT job_id, region FROM job_change WHERE federation_id = ?1)", id)
        }
        Wanted::Job(id) => ("job_id = ?1", id),
    };
    let from = format!("job_change WHERE {filter} ORDER BY lease_ms, kind LIMIT ?2");
    select(connection, &from, params![id, signed(INDEX_ROWS_MAX as u64)])
}

/// The facts about several jobs, and about each copy that has one of these tracking ids.
pub(super) fn find_of(
    connection: &mut Connection,
    jobs: &[String],
    federation_ids: &[String],
) -> rusqlite::Result<Vec<IndexedChange>> {
    let from = "job_change WHERE (job_id, region) IN (
  SELECT job_id, region FROM job_change WHERE job_id IN (SELECT value FROM json_each(?1))
  UNION SELECT job_id, region FROM job_change WHERE federation_id IN (SELECT value FROM json_each(?2))
) ORDER BY lease_ms, kind LIMIT ?3";
    let [jobs, federation_ids] = [jobs, federation_ids].map(|ids| serde_json::json!(ids).to_string());
    select(connection, from, params![jobs, federation_ids, signed(INDEX_ROWS_MAX as u64)])
}

/// The facts about jobs of a region before an id, within a bounded part of the table, and the id at the end of that part.
pub(in crate::hub::record) fn jobs_before(
    connection: &mut Connection,
    region: &str,
    before: Option<&str>,
    facts_max: usize,
) -> rusqlite::Result<(Vec<IndexedChange>, Option<String>)> {
    let below = if before.is_some() { "job_id < ?1" } else { "?1 IS NULL" };
    let part = format!("SELECT job_id FROM job_change WHERE {below} ORDER BY job_id DESC LIMIT ?2");
    let max = signed(facts_max as u64);
    let end = format!("SELECT min(job_id), count(*) FROM ({part})");
    let (end, count): (Option<String>, i64) =
        connection.query_row(&end, params![before, max], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let end = end.filter(|_| count == max);
    // A range, so that a job whose facts lie across the end of the part is whole.
    let above = if end.is_some() { "job_id >= ?2" } else { "?2 IS NULL" };
    let from = format!("job_change WHERE region = ?3 AND {above} AND {below} ORDER BY job_id DESC, lease_ms");
    let facts = select(connection, &from, params![before, end, region])?;
    Ok((facts, end))
}

/// The facts of an origin behind a place, in order.
pub(super) fn behind(
    connection: &mut Connection,
    origin: &str,
    after: &IndexPlace,
    max: usize,
) -> rusqlite::Result<Vec<IndexedChange>> {
    let from = "job_change WHERE origin = ?1 AND mark > ?2 ORDER BY mark LIMIT ?3";
    select(connection, from, params![origin, signed(after.mark), signed(max as u64)])
}

/// The facts in `from`, which names the table of facts, with their filter, order and number.
pub(super) fn select(
    connection: &mut Connection,
    from: &str,
    values: impl Params,
) -> rusqlite::Result<Vec<IndexedChange>> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM {from}"))?;
    let rows = statement.query_map(values, read)?;
    rows.collect()
}

/// The place up to which this file has the facts of an origin.
pub(super) fn place(connection: &mut Connection, origin: &str) -> rusqlite::Result<IndexPlace> {
    let mut statement = connection.prepare("SELECT epoch, written, mark FROM index_place WHERE origin = ?1")?;
    let mut rows = statement.query([origin])?;
    match rows.next()? {
        Some(row) => {
            Ok(IndexPlace { epoch: row.get("epoch")?, written: whole(row, "written")?, mark: whole(row, "mark")? })
        }
        None => Ok(IndexPlace::default()),
    }
}

/// The name of this file as a source of facts.
pub(super) fn epoch(connection: &mut Connection) -> rusqlite::Result<String> {
    connection.query_row("SELECT epoch FROM index_epoch", [], |row| row.get(0))
}

/// Drops some of the facts that are too old, and of those that are too many: the marks of all that are left are within `rows_max` numbers.
/// Returns how many were dropped.
pub(super) fn prune(connection: &mut Connection, before_ms: u64, rows_max: u64) -> rusqlite::Result<u64> {
    let old = "
DELETE FROM job_change WHERE mark IN (
  SELECT mark FROM job_change WHERE learned_ms < ?1 OR mark <= (SELECT mark FROM index_epoch) - ?2 LIMIT ?3)";
    let dropped = connection.execute(old, params![signed(before_ms), signed(rows_max), signed(PRUNED_AT_ONCE)])?;
    Ok(dropped as u64)
}

fn read(row: &Row<'_>) -> rusqlite::Result<IndexedChange> {
    let wrong = |error: &str| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.to_owned().into())
    };
    let kind: String = row.get("kind")?;
    let kind =
        ChangeKind::ALL.into_iter().find(|it| it.as_str() == kind).ok_or_else(|| wrong("a kind of a later version"))?;
    let region: String = row.get("region")?;
    let job: Option<String> = row.get("job")?;
    let job = job.map(|job| serde_json::from_str(&job)).transpose().map_err(|_| wrong("a job of a later version"))?;
    let observed_by: Option<String> = row.get("observed_by")?;
    let change = Change {
        job_id: row.get("job_id")?,
        region: RegionId::parse(&region).map_err(|_| wrong("a region's id"))?,
        kind,
        lease_ms: whole(row, "lease_ms")?,
        at_ms: whole(row, "at_ms")?,
        federation_id: row.get("federation_id")?,
        state: row.get("state")?,
        replicated_from: row.get("replicated_from")?,
        job,
        observed_by: observed_by.map(|_| Observer::Events),
    };
    let (mark, learned_ms) = (whole(row, "mark")?, whole(row, "learned_ms")?);
    Ok(IndexedChange { change, written: mark, mark, learned_ms, is_replica: row.get("is_replica")? })
}
