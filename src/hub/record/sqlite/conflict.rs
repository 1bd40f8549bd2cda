//! Conflicts in a hub's record in SQLite, by the wall clock.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::conflict::{CONFLICT_FACTS_MAX, Conflict, ConflictStep, Conflicts, DueId, Next, RepeatedIds};
use super::super::content::{IndexedChange, PRUNED_AT_ONCE};
use super::index;
use super::limits::now_ms;
use super::tables::{signed, whole};

/// One row where an id has facts of several regions; its value says whether this region has one. Each part is one look at an index.
const REPEATED: &str = "
SELECT EXISTS (SELECT 1 FROM job_change WHERE federation_id = ?1 AND region = ?2)
WHERE (SELECT region FROM job_change WHERE federation_id = ?1 ORDER BY region LIMIT 1)
   <> (SELECT region FROM job_change WHERE federation_id = ?1 ORDER BY region DESC LIMIT 1)";

/// An id that waits keeps its place, so that one which is used again and again is looked at all the same.
const QUEUE: &str = "
UPDATE repeated_id SET queued_ms = ?2, due_ms = ?3 WHERE federation_id = ?1 AND due_ms IS NULL AND is_crowd = 0";

/// The facts about the copies with a tracking id, of those of this region first.
const FACTS: &str = "
(
  SELECT 0 AS place, * FROM (
    SELECT job_id AS its_job, region AS its_region FROM job_change WHERE federation_id = ?1 AND region = ?2 LIMIT ?3)
  UNION SELECT 1, * FROM (SELECT job_id, region FROM job_change WHERE federation_id = ?1 AND region < ?2 ORDER BY region LIMIT ?3)
  UNION SELECT 1, * FROM (SELECT job_id, region FROM job_change WHERE federation_id = ?1 AND region > ?2 ORDER BY region LIMIT ?3)
  ORDER BY place, its_region, its_job LIMIT ?3
) AS named CROSS JOIN job_change ON job_id = its_job AND region = its_region
ORDER BY place, its_region, its_job LIMIT ?3";

/// One hub holds the file, so that no other one can have them.
pub(in crate::hub::record) fn take(
    connection: &mut Connection,
    _hub: &str,
    _lasts_ms: u64,
) -> rusqlite::Result<Option<u64>> {
    now_ms(connection).map(Some)
}

pub(in crate::hub::record) fn find(
    connection: &mut Connection,
    origin: &str,
    region: &str,
    due_after_ms: u64,
    max: usize,
) -> rusqlite::Result<RepeatedIds> {
    let now = now_ms(connection)?;
    let transaction = connection.transaction()?;
    let mut found = RepeatedIds::default();
    {
        let place = transaction
            .query_row("SELECT mark FROM conflict_place WHERE origin = ?1", [origin], |row| whole(row, "mark"))
            .optional()?
            .unwrap_or(0);
        let (mut ids, mut last, mut count) = (BTreeMap::new(), None, 0);
        let mut facts = transaction.prepare(
            "SELECT job_id, region, federation_id, mark FROM job_change WHERE origin = ?1 AND mark > ?2 ORDER BY mark LIMIT ?3",
        )?;
        let mut rows = facts.query(params![origin, signed(place), signed(max as u64)])?;
        while let Some(row) = rows.next()? {
            (last, count) = (Some(whole(row, "mark")?), count + 1);
            if let Some(id) = row.get::<_, Option<String>>("federation_id")? {
                ids.insert(id, (row.get::<_, String>("job_id")?, row.get::<_, String>("region")?));
            }
        }
        found.has_more = count == max;
        let mut repeated = transaction.prepare(REPEATED)?;
        let mut notes = transaction.prepare("INSERT OR IGNORE INTO repeated_id VALUES (?1, ?2, NULL, NULL, 0)")?;
        let mut queues = transaction.prepare(QUEUE)?;
        for (id, job) in ids {
            let is_here = repeated.query_row(params![id, region], |row| row.get::<_, bool>(0)).optional()?;
            let Some(is_here) = is_here else { continue };
            if notes.execute(params![id, signed(now)])? > 0 {
                found.new.push(job);
            }
            if is_here {
                queues.execute(params![id, signed(now), signed(now + due_after_ms)])?;
            }
        }
        if let Some(mark) = last {
            transaction
                .execute("INSERT OR REPLACE INTO conflict_place VALUES (?1, 0, ?2)", params![origin, signed(mark)])?;
        }
    }
    transaction.commit()?;
    Ok(found)
}

pub(in crate::hub::record) fn due(connection: &mut Connection, max: usize) -> rusqlite::Result<Vec<DueId>> {
    let now = now_ms(connection)?;
    let mut statement = connection.prepare(
        "SELECT federation_id, queued_ms, due_ms FROM repeated_id WHERE due_ms <= ?1 ORDER BY due_ms, federation_id LIMIT ?2",
    )?;
    let rows = statement.query_map(params![signed(now), signed(max as u64)], |row| {
        let waited_ms = now.saturating_sub(whole(row, "queued_ms")?);
        Ok(DueId { federation_id: row.get("federation_id")?, due_ms: whole(row, "due_ms")?, waited_ms })
    })?;
    rows.collect()
}

pub(in crate::hub::record) fn put_off(connection: &mut Connection, id: &DueId, next: Next) -> rusqlite::Result<()> {
    let due = match next {
        Next::After(ms) => Some(signed(now_ms(connection)? + ms)),
        Next::OnFact | Next::Never => None,
    };
    let statement = "UPDATE repeated_id SET due_ms = ?2, is_crowd = ?3 WHERE federation_id = ?1 AND due_ms = ?4";
    let values = params![id.federation_id, due, next == Next::Never, signed(id.due_ms)];
    connection.execute(statement, values).map(drop)
}

pub(in crate::hub::record) fn facts(
    connection: &mut Connection,
    id: &str,
    region: &str,
) -> rusqlite::Result<Vec<IndexedChange>> {
    index::select(connection, FACTS, params![id, region, signed(CONFLICT_FACTS_MAX as u64)])
}

/// Returns false where the copy has a result, or an order that is not known of.
pub(in crate::hub::record) fn save(
    connection: &mut Connection,
    to: &Conflict,
    is_ordered: bool,
) -> rusqlite::Result<bool> {
    let now = now_ms(connection)?;
    let winner = to.winner.as_ref();
    let changed = connection.execute(
        "INSERT INTO conflict VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (job_id, region) DO UPDATE SET
           federation_id = excluded.federation_id, step = excluded.step, why = excluded.why, winner_region = excluded.winner_region,
           winner_job = excluded.winner_job, changed_ms = excluded.changed_ms WHERE step = 'cancelling' AND ?9",
        params![
            to.job_id,
            to.region,
            to.federation_id,
            to.step.as_str(),
            to.why,
            winner.map(|it| &it.0),
            winner.map(|it| &it.1),
            signed(now),
            is_ordered,
        ],
    )?;
    Ok(changed > 0)
}

pub(in crate::hub::record) fn remove(connection: &mut Connection, job_id: &str, region: &str) -> rusqlite::Result<()> {
    let statement = "DELETE FROM conflict WHERE job_id = ?1 AND region = ?2 AND step = 'cancelling'";
    connection.execute(statement, params![job_id, region]).map(drop)
}

pub(in crate::hub::record) fn of(connection: &mut Connection, federation_id: &str) -> rusqlite::Result<Conflicts> {
    let noted = connection
        .query_row(
            "SELECT due_ms IS NOT NULL, is_crowd FROM repeated_id WHERE federation_id = ?1",
            [federation_id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let (is_queued, is_crowd) = noted.unwrap_or_default();
    let mut statement = connection.prepare("SELECT * FROM conflict WHERE federation_id = ?1 LIMIT ?2")?;
    let rows = statement.query_map(params![federation_id, signed(CONFLICT_FACTS_MAX as u64)], read)?;
    Ok(Conflicts { copies: rows.collect::<Result<_, _>>()?, is_queued, is_crowd })
}

pub(in crate::hub::record) fn prune(connection: &mut Connection, older_than_ms: u64) -> rusqlite::Result<bool> {
    let before = signed(now_ms(connection)?.saturating_sub(older_than_ms));
    let transaction = connection.transaction()?;
    let mut is_full = false;
    for statement in [
        "DELETE FROM conflict WHERE (job_id, region) IN (
           SELECT job_id, region FROM conflict WHERE changed_ms < ?1 AND step <> 'cancelling' ORDER BY changed_ms LIMIT ?2)",
        "DELETE FROM repeated_id WHERE federation_id IN (
           SELECT federation_id FROM repeated_id WHERE noted_ms < ?1 AND due_ms IS NULL ORDER BY noted_ms LIMIT ?2)",
        "DELETE FROM repeated_id WHERE federation_id IN (
           SELECT federation_id FROM repeated_id AS it WHERE queued_ms < ?1 AND due_ms IS NOT NULL AND NOT EXISTS (
             SELECT 1 FROM conflict WHERE conflict.federation_id = it.federation_id AND step = 'cancelling')
           ORDER BY queued_ms LIMIT ?2)",
    ] {
        let dropped = transaction.execute(statement, params![before, signed(PRUNED_AT_ONCE)])?;
        is_full |= dropped as u64 >= PRUNED_AT_ONCE;
    }
    transaction.commit()?;
    Ok(is_full)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Conflict> {
    let step: String = row.get("step")?;
    let step = ConflictStep::parse(&step).ok_or_else(|| {
        let error = "a step of a later version".into();
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error)
    })?;
    let winner = Option::zip(row.get("winner_region")?, row.get("winner_job")?);
    Ok(Conflict {
        job_id: row.get("job_id")?,
        region: row.get("region")?,
        federation_id: row.get("federation_id")?,
        step,
        why: row.get("why")?,
        winner,
        changed_ms: whole(row, "changed_ms")?,
    })
}
