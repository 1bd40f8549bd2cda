//! Conflicts in a hub's record in SQLite, by the wall clock.

use rusqlite::{Connection, Row, params};

use super::super::conflict::{Conflict, ConflictStep};
use super::super::content::PRUNED_AT_ONCE;
use super::limits::now_ms;
use super::tables::{signed, whole};

/// One hub holds the file, so that no other one can have them.
pub(in crate::hub::record) fn take(
    connection: &mut Connection,
    _hub: &str,
    _lasts_ms: u64,
) -> rusqlite::Result<Option<u64>> {
    now_ms(connection).map(Some)
}

pub(in crate::hub::record) fn note(
    connection: &mut Connection,
    region: &str,
    federation_ids: &str,
    due_after_ms: u64,
) -> rusqlite::Result<Vec<String>> {
    let now = now_ms(connection)?;
    let transaction = connection.transaction()?;
    let mut added = Vec::new();
    {
        let repeated: Vec<String> = transaction
            .prepare(
                "SELECT federation_id FROM job_change WHERE federation_id IN (SELECT value FROM json_each(?1))
                 GROUP BY federation_id HAVING count(DISTINCT region) > 1 ORDER BY federation_id",
            )?
            .query_map([federation_ids], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut notes = transaction.prepare("INSERT OR IGNORE INTO repeated_id VALUES (?1, ?2)")?;
        let mut opens = transaction.prepare(
            "INSERT OR IGNORE INTO conflict (job_id, region, federation_id, step, refusals, due_ms, changed_ms)
             SELECT DISTINCT job_id, region, federation_id, 'open', 0, ?3, ?4 FROM job_change WHERE federation_id = ?1 AND region = ?2",
        )?;
        for id in repeated {
            opens.execute(params![id, region, signed(now + due_after_ms), signed(now)])?;
            if notes.execute(params![id, signed(now)])? > 0 {
                added.push(id);
            }
        }
    }
    transaction.commit()?;
    Ok(added)
}

pub(in crate::hub::record) fn due(
    connection: &mut Connection,
    region: &str,
    max: usize,
) -> rusqlite::Result<Vec<Conflict>> {
    let now = now_ms(connection)?;
    let mut statement = connection.prepare(
        "SELECT * FROM conflict WHERE step IN ('open', 'cancelling') AND region = ?1 AND due_ms <= ?2 ORDER BY due_ms, job_id LIMIT ?3",
    )?;
    let rows = statement.query_map(params![region, signed(now), signed(max as u64)], read)?;
    rows.collect()
}

/// Returns whether the conflict was at the step that the change was made from.
pub(in crate::hub::record) fn advance(
    connection: &mut Connection,
    from: ConflictStep,
    to: &Conflict,
    due_after_ms: u64,
) -> rusqlite::Result<bool> {
    let now = now_ms(connection)?;
    let winner = to.winner.as_ref();
    let changed = connection.execute(
        "UPDATE conflict SET step = ?4, why = ?5, winner_region = ?6, winner_job = ?7, refusals = ?8, due_ms = ?9,
           changed_ms = CASE step WHEN ?4 THEN changed_ms ELSE ?10 END WHERE job_id = ?1 AND region = ?2 AND step = ?3",
        params![
            to.job_id,
            to.region,
            from.as_str(),
            to.step.as_str(),
            to.why,
            winner.map(|it| &it.0),
            winner.map(|it| &it.1),
            signed(to.refusals),
            signed(now + due_after_ms),
            signed(now),
        ],
    )?;
    Ok(changed > 0)
}

pub(in crate::hub::record) fn remove(
    connection: &mut Connection,
    job_id: &str,
    region: &str,
    step: ConflictStep,
) -> rusqlite::Result<()> {
    let statement = "DELETE FROM conflict WHERE job_id = ?1 AND region = ?2 AND step = ?3";
    connection.execute(statement, params![job_id, region, step.as_str()]).map(drop)
}

pub(in crate::hub::record) fn of(connection: &mut Connection, federation_id: &str) -> rusqlite::Result<Vec<Conflict>> {
    let mut statement = connection.prepare("SELECT * FROM conflict WHERE federation_id = ?1 LIMIT 1000")?;
    let rows = statement.query_map([federation_id], read)?;
    rows.collect()
}

pub(in crate::hub::record) fn prune(connection: &mut Connection, older_than_ms: u64) -> rusqlite::Result<()> {
    let before = signed(now_ms(connection)?.saturating_sub(older_than_ms));
    let transaction = connection.transaction()?;
    for (table, key, time) in
        [("conflict", "(job_id, region)", "changed_ms"), ("repeated_id", "federation_id", "noted_ms")]
    {
        let columns = key.trim_matches(['(', ')']);
        let statement = format!(
            "DELETE FROM {table} WHERE {key} IN (SELECT {columns} FROM {table} WHERE {time} < ?1 ORDER BY {time} LIMIT ?2)"
        );
        transaction.execute(&statement, params![before, signed(PRUNED_AT_ONCE)])?;
    }
    transaction.commit()
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
        refusals: whole(row, "refusals")?,
        due_ms: whole(row, "due_ms")?,
        changed_ms: whole(row, "changed_ms")?,
    })
}
