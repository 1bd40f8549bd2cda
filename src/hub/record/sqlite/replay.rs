//! Replays in a hub's record in SQLite, by the wall clock.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::super::content::{Kept, StepCount};
use super::super::replay::{KEPT_REPLAYS_MAX, OPEN_REPLAYS_MAX, OpenReplays, ReplayJob, ReplayStep, SavedReplay};
use super::limits::now_ms;
use super::tables::{signed, whole};

fn saved(row: &Row<'_>) -> rusqlite::Result<SavedReplay> {
    Ok(SavedReplay {
        id: row.get("id")?,
        version: whole(row, "version")?,
        document: row.get("document")?,
        is_open: row.get("is_open")?,
        began_ms: whole(row, "began_ms")?,
    })
}

pub(in crate::hub::record) fn open(connection: &mut Connection) -> rusqlite::Result<OpenReplays> {
    let now_ms = now_ms(connection)?;
    let mut statement = connection.prepare("SELECT * FROM replay WHERE is_open ORDER BY began_ms, id")?;
    let rows = statement.query_map([], saved)?;
    Ok(OpenReplays { all: rows.collect::<Result<_, _>>()?, now_ms })
}

pub(in crate::hub::record) fn before(
    connection: &mut Connection,
    before: &(u64, String),
    max: usize,
) -> rusqlite::Result<Vec<SavedReplay>> {
    let mut statement = connection
        .prepare("SELECT * FROM replay WHERE (began_ms, id) < (?1, ?2) ORDER BY began_ms DESC, id DESC LIMIT ?3")?;
    let rows = statement.query_map(params![signed(before.0), before.1, signed(max as u64)], saved)?;
    rows.collect()
}

pub(in crate::hub::record) fn one(connection: &mut Connection, id: &str) -> rusqlite::Result<Option<SavedReplay>> {
    connection.query_row("SELECT * FROM replay WHERE id = ?1", [id], saved).optional()
}

pub(in crate::hub::record) fn add(
    connection: &mut Connection,
    to: &SavedReplay,
    jobs: &[ReplayJob],
) -> rusqlite::Result<Kept> {
    let now = signed(now_ms(connection)?);
    let transaction = connection.transaction()?;
    let added = transaction.execute(
        "INSERT INTO replay SELECT ?1, 1, ?2, ?3, ?4 WHERE (SELECT count(*) FROM replay WHERE is_open) < ?5 ON CONFLICT (id) DO NOTHING",
        params![to.id, to.document, to.is_open, signed(to.began_ms), signed(OPEN_REPLAYS_MAX)],
    )?;
    if added == 0 {
        return Ok(Kept::Behind);
    }
    {
        let mut statement =
            transaction.prepare("INSERT INTO replay_job VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?;
        for it in jobs {
            statement.execute(params![
                to.id,
                signed(it.place),
                it.job_id,
                it.region,
                it.new_id,
                it.digest,
                it.step,
                it.why,
                it.detail,
                signed(it.sends),
                now
            ])?;
        }
    }
    transaction.commit()?;
    Ok(Kept::Kept)
}

pub(in crate::hub::record) fn change(connection: &mut Connection, to: &SavedReplay) -> rusqlite::Result<Kept> {
    let changed = connection.execute(
        "UPDATE replay SET version = version + 1, document = ?3, is_open = ?4 WHERE id = ?1 AND version = ?2",
        params![to.id, signed(to.version), to.document, to.is_open],
    )?;
    Ok(if changed > 0 { Kept::Kept } else { Kept::Behind })
}

fn job(row: &Row<'_>) -> rusqlite::Result<ReplayJob> {
    Ok(ReplayJob {
        place: whole(row, "place")?,
        job_id: row.get("job_id")?,
        region: row.get("region")?,
        new_id: row.get("new_id")?,
        digest: row.get("digest")?,
        step: row.get("step")?,
        why: row.get("why")?,
        detail: row.get("detail")?,
        sends: whole(row, "sends")?,
        changed_ms: whole(row, "changed_ms")?,
    })
}

pub(in crate::hub::record) fn jobs(
    connection: &mut Connection,
    id: &str,
    steps: &[ReplayStep],
    from: u64,
    max: usize,
) -> rusqlite::Result<Vec<ReplayJob>> {
    // The words of the steps are this program's own.
    let steps: Vec<String> = steps.iter().map(|step| format!("'{}'", step.as_str())).collect();
    let mut statement = connection.prepare(&format!(
        "SELECT * FROM replay_job WHERE replay = ?1 AND step IN ({}) AND place >= ?2 ORDER BY place LIMIT ?3",
        steps.join(", ")
    ))?;
    let rows = statement.query_map(params![id, signed(from), signed(max as u64)], job)?;
    rows.collect()
}

pub(in crate::hub::record) fn due(
    connection: &mut Connection,
    id: &str,
    step: ReplayStep,
    max: usize,
) -> rusqlite::Result<Vec<ReplayJob>> {
    let mut statement = connection
        .prepare("SELECT * FROM replay_job WHERE replay = ?1 AND step = ?2 ORDER BY changed_ms, place LIMIT ?3")?;
    let rows = statement.query_map(params![id, step.as_str(), signed(max as u64)], job)?;
    rows.collect()
}

/// Returns whether the job was at the step that the change was made from, with as many sends (one less behind one that did not leave), and the replay at the version, where one is given.
pub(in crate::hub::record) fn advance(
    connection: &mut Connection,
    id: &str,
    from: ReplayStep,
    to: &ReplayJob,
    version: Option<u64>,
) -> rusqlite::Result<bool> {
    let now = signed(now_ms(connection)?);
    let changed = connection.execute(
        "UPDATE replay_job SET region = ?4, new_id = ?5, digest = ?6, step = ?7, why = ?8, detail = ?9, sends = ?10, changed_ms = ?11
         WHERE replay = ?1 AND place = ?2 AND step = ?3
         AND CASE WHEN ?3 = 'waiting' AND ?7 = 'sending' THEN sends = ?10 - 1
             WHEN ?3 = 'sending' AND ?7 = 'waiting' THEN sends IN (?10, ?10 + 1) ELSE sends = ?10 END
         AND (?12 IS NULL OR EXISTS (SELECT 1 FROM replay WHERE id = ?1 AND version = ?12))",
        params![
            id,
            signed(to.place),
            from.as_str(),
            to.region,
            to.new_id,
            to.digest,
            to.step,
            to.why,
            to.detail,
            signed(to.sends),
            now,
            version.map(signed)
        ],
    )?;
    Ok(changed > 0)
}

/// A job that may have been sent is not one that was stopped before it.
pub(in crate::hub::record) fn stop(connection: &mut Connection, id: &str, why: &str) -> rusqlite::Result<()> {
    let now = signed(now_ms(connection)?);
    let statement =
        "UPDATE replay_job SET step = CASE WHEN sends > 0 THEN 'unknown' ELSE 'stopped' END, why = ?2, changed_ms = ?3
         WHERE replay = ?1 AND step = 'waiting'";
    connection.execute(statement, params![id, why, now]).map(drop)
}

pub(in crate::hub::record) fn counts(connection: &mut Connection, id: &str) -> rusqlite::Result<Vec<StepCount>> {
    let mut statement = connection.prepare(
        "SELECT step, why, count(*) AS count FROM replay_job WHERE replay = ?1 GROUP BY step, why ORDER BY step, why",
    )?;
    let rows = statement.query_map([id], |row| Ok((row.get("step")?, row.get("why")?, whole(row, "count")?)))?;
    rows.collect()
}

pub(in crate::hub::record) fn prune(connection: &mut Connection, before_ms: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let is_old = "SELECT id FROM replay WHERE NOT is_open AND (began_ms < ?1
        OR id NOT IN (SELECT id FROM replay ORDER BY began_ms DESC, id DESC LIMIT ?2))";
    let values = params![signed(before_ms), signed(KEPT_REPLAYS_MAX)];
    transaction.execute(&format!("DELETE FROM replay_job WHERE replay IN ({is_old})"), values)?;
    transaction.execute(&format!("DELETE FROM replay WHERE id IN ({is_old})"), values)?;
    transaction.commit()
}
