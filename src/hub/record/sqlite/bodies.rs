//! The bodies of jobs in a hub's record in SQLite, in the order in which this file got them.

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::super::body::{BODIES_PRUNED_AT_ONCE, BodiesBehind, BodiesEnd, BodiesLeft, PlacedBody, SavedBody};
use super::super::content::IndexPlace;
use super::limits::now_ms;
use super::tables::{signed, whole};
use crate::replica::{Change, Reach};

/// Whether a fact says that the copy of a row of `job_body` has ended.
const HAS_ENDED: &str =
    "EXISTS (SELECT 1 FROM job_change AS o WHERE (o.job_id, o.region) = (job_body.job_id, job_body.region)
  AND (o.kind IN ('completed', 'cancelled') OR o.state IN ('completed', 'cancelled', 'discarded')))";

const COLUMNS: &str =
    "EXISTS (SELECT 1 FROM job_change AS o WHERE (o.job_id, o.region) = (job_body.job_id, job_body.region)
  AND o.replicated_from IS NOT NULL) AS is_replica, job_id, region, federation_id, permitted, sealed, mark";

/// Keeps bodies of jobs that have not ended, each once, and the place of the source up to which this file has them.
pub(super) fn save(
    connection: &mut Connection,
    origin: &str,
    bodies: &[SavedBody],
    place: Option<&IndexPlace>,
) -> rusqlite::Result<()> {
    let learned = signed(now_ms(connection)?);
    let transaction = connection.transaction()?;
    for it in bodies {
        save_one(&transaction, origin, it, learned)?;
    }
    if let Some(place) = place {
        let values = params![origin, place.epoch, signed(place.written), signed(place.mark)];
        transaction.execute("INSERT OR REPLACE INTO body_place VALUES (?1, ?2, ?3, ?4)", values)?;
    }
    transaction.commit()
}

fn save_one(transaction: &Transaction<'_>, origin: &str, it: &SavedBody, learned: i64) -> rusqlite::Result<()> {
    let known = "SELECT mark, permitted FROM job_body WHERE job_id = ?1 AND region = ?2 AND origin = ?3";
    let known = transaction
        .prepare(known)?
        .query_row(params![it.job_id, it.region, origin], |row| Ok((row.get::<_, i64>("mark")?, reach(row)?)));
    let values = params![it.job_id, it.region, origin, it.federation_id, it.reach.text(), it.sealed, learned];
    let Some((mark, reach)) = known.optional()? else {
        let add = format!(
            "INSERT INTO job_body (job_id, region, origin, federation_id, permitted, sealed, bytes, learned_ms)
             SELECT job_id, region, ?3, ?4, ?5, ?6, length(?6), ?7 FROM (SELECT ?1 AS job_id, ?2 AS region) AS job_body WHERE NOT {HAS_ENDED}"
        );
        return transaction.prepare(&add)?.execute(values).map(drop);
    };
    let joined = reach.clone().joined(it.reach.clone());
    if joined != reach {
        transaction.execute("UPDATE job_body SET permitted = ?1 WHERE mark = ?2", params![joined.text(), mark])?;
    }
    Ok(())
}

/// Drops the bodies of jobs that these facts end.
pub(super) fn end(transaction: &Transaction<'_>, changes: &[Change]) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare("DELETE FROM job_body WHERE job_id = ?1 AND region = ?2")?;
    for it in changes.iter().filter(|it| it.ends()) {
        statement.execute(params![it.job_id, it.region.as_str()])?;
    }
    Ok(())
}

/// The bodies of an origin behind a place, in order.
pub(super) fn behind(
    connection: &mut Connection,
    origin: &str,
    asked: &BodiesBehind,
) -> rusqlite::Result<Vec<PlacedBody>> {
    let select = format!(
        "SELECT {COLUMNS} FROM job_body WHERE mark IN (
           SELECT mark FROM (
             SELECT mark, sum(bytes) OVER (ORDER BY mark) - bytes AS before
             FROM (SELECT mark, bytes FROM job_body WHERE origin = ?1 AND mark > ?2 AND NOT {HAS_ENDED} ORDER BY mark LIMIT ?3))
           WHERE before < ?4) ORDER BY mark"
    );
    let mut statement = connection.prepare(&select)?;
    let (rows_max, bytes_max) = (signed(asked.rows_max as u64), signed(asked.bytes_max as u64));
    let rows = statement.query_map(params![origin, signed(asked.after.mark), rows_max, bytes_max], |row| {
        let mark = whole(row, "mark")?;
        Ok(PlacedBody { body: saved(row)?, written: mark, mark, is_replica: row.get("is_replica")? })
    })?;
    rows.collect()
}

/// The body of a job that a region has.
pub(super) fn find(connection: &mut Connection, job_id: &str, region: &str) -> rusqlite::Result<Option<SavedBody>> {
    let select = format!(
        "SELECT {COLUMNS} FROM job_body WHERE job_id = ?1 AND region = ?2 AND NOT {HAS_ENDED} ORDER BY origin LIMIT 1"
    );
    connection.query_row(&select, [job_id, region], saved).optional()
}

/// The copies among these of which this file has the bytes.
pub(super) fn having(
    connection: &mut Connection,
    copies: &[(String, String)],
) -> rusqlite::Result<Vec<(String, String)>> {
    let select = format!("SELECT 1 FROM job_body WHERE job_id = ?1 AND region = ?2 AND NOT {HAS_ENDED} LIMIT 1");
    let mut statement = connection.prepare(&select)?;
    let mut found = Vec::new();
    for (job_id, region) in copies {
        if statement.exists([job_id, region])? {
            found.push((job_id.clone(), region.clone()));
        }
    }
    Ok(found)
}

/// The place up to which this file has the bodies of an origin.
pub(super) fn place(connection: &mut Connection, origin: &str) -> rusqlite::Result<IndexPlace> {
    let found =
        connection.query_row("SELECT epoch, written, mark FROM body_place WHERE origin = ?1", [origin], |row| {
            Ok(IndexPlace { epoch: row.get("epoch")?, written: whole(row, "written")?, mark: whole(row, "mark")? })
        });
    Ok(found.optional()?.unwrap_or_default())
}

/// The sealed word by which a key is recognised; `sealed` where there is none yet.
pub(super) fn key_check(connection: &mut Connection, sealed: &[u8]) -> rusqlite::Result<Vec<u8>> {
    connection.execute("INSERT OR IGNORE INTO body_key VALUES (1, ?1)", [sealed])?;
    connection.query_row("SELECT sealed FROM body_key", [], |row| row.get("sealed"))
}

/// Drops some of the bodies that are too old, and the oldest of those that are too many.
pub(super) fn prune(connection: &mut Connection, end: BodiesEnd) -> rusqlite::Result<BodiesLeft> {
    let transaction = connection.transaction()?;
    let most = signed(BODIES_PRUNED_AT_ONCE);
    let old = "DELETE FROM job_body WHERE mark IN (SELECT mark FROM job_body WHERE learned_ms < ?1 LIMIT ?2)";
    let aged = transaction.execute(old, params![signed(end.before_ms), most])?;
    let total = |transaction: &Transaction<'_>| {
        let select = "SELECT count, bytes FROM body_total";
        transaction.query_row(select, [], |row| Ok((whole(row, "count")?, whole(row, "bytes")?)))
    };
    let excess = total(&transaction)?.1.saturating_sub(end.bytes_max);
    let beyond = "
DELETE FROM job_body WHERE mark IN (
  SELECT mark FROM (
    SELECT mark, sum(bytes) OVER (ORDER BY mark) - bytes AS before FROM (SELECT mark, bytes FROM job_body ORDER BY mark LIMIT ?2))
  WHERE before < ?1)";
    let dropped = transaction.execute(beyond, params![signed(excess), most])? as u64;
    let (count, bytes) = total(&transaction)?;
    transaction.commit()?;
    let more = aged as u64 >= BODIES_PRUNED_AT_ONCE || bytes > end.bytes_max;
    Ok(BodiesLeft { count, bytes, dropped, more })
}

fn saved(row: &Row<'_>) -> rusqlite::Result<SavedBody> {
    Ok(SavedBody {
        job_id: row.get("job_id")?,
        region: row.get("region")?,
        federation_id: row.get("federation_id")?,
        reach: reach(row)?,
        sealed: row.get("sealed")?,
    })
}

fn reach(row: &Row<'_>) -> rusqlite::Result<Reach> {
    let text: Option<String> = row.get("permitted")?;
    Reach::of_text(text.as_deref()).ok_or_else(|| {
        let wrong = "regions of a later version";
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, wrong.into())
    })
}
