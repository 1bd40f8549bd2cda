//! Promotions in a hub's record in SQLite, by the wall clock.

use rusqlite::{Connection, params};

use super::super::content::{IndexedChange, Kept, PromotionJob, Promotions, SavedPromotion, StepCount};
use super::super::step::JobStep;
use super::index;
use super::limits::now_ms;
use super::tables::{signed, whole};

pub(in crate::hub::record) fn all(connection: &mut Connection) -> rusqlite::Result<Promotions> {
    let now_ms = now_ms(connection)?;
    let mut statement = connection.prepare("SELECT * FROM promotion ORDER BY began_ms, id")?;
    let rows = statement.query_map([], |row| {
        Ok(SavedPromotion {
            id: row.get("id")?,
            version: whole(row, "version")?,
            document: row.get("document")?,
            holds: row.get("holds")?,
            is_open: row.get("is_open")?,
            began_ms: whole(row, "began_ms")?,
        })
    })?;
    Ok(Promotions { all: rows.collect::<Result<_, _>>()?, now_ms })
}

pub(in crate::hub::record) fn change(connection: &mut Connection, to: &SavedPromotion) -> rusqlite::Result<Kept> {
    let changed = connection.execute(
        "INSERT INTO promotion SELECT ?1, ?2 + 1, ?3, ?4, ?5, ?6
         WHERE (?2 = 0 OR EXISTS (SELECT 1 FROM promotion WHERE id = ?1)) AND NOT EXISTS (SELECT 1 FROM promotion WHERE holds = ?4 AND id <> ?1)
         ON CONFLICT (id) DO UPDATE SET version = excluded.version, document = excluded.document, holds = excluded.holds,
           is_open = excluded.is_open WHERE version = ?2",
        params![to.id, signed(to.version), to.document, to.holds, to.is_open, signed(to.began_ms)],
    )?;
    Ok(if changed > 0 { Kept::Kept } else { Kept::Behind })
}

pub(in crate::hub::record) fn add(
    connection: &mut Connection,
    id: &str,
    jobs: &[PromotionJob],
) -> rusqlite::Result<()> {
    let now = signed(now_ms(connection)?);
    let transaction = connection.transaction()?;
    {
        let mut statement =
            transaction.prepare("INSERT OR IGNORE INTO promotion_job VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        for it in jobs {
            statement.execute(params![
                id,
                it.job_id,
                signed(it.enqueued_ms),
                it.step,
                it.why,
                it.detail,
                signed(it.sends),
                now
            ])?;
        }
    }
    transaction.commit()
}

/// The oldest jobs of some steps.
pub(in crate::hub::record) fn jobs(
    connection: &mut Connection,
    id: &str,
    steps: &[JobStep],
    after: &(u64, String),
    max: usize,
) -> rusqlite::Result<Vec<PromotionJob>> {
    // The words of the steps are this program's own.
    let steps: Vec<String> = steps.iter().map(|step| format!("'{}'", step.as_str())).collect();
    let mut statement = connection.prepare(&format!(
        "SELECT * FROM promotion_job WHERE promotion = ?1 AND step IN ({}) AND (enqueued_ms, job_id) > (?2, ?3)
         ORDER BY enqueued_ms, job_id LIMIT ?4",
        steps.join(", ")
    ))?;
    let rows = statement.query_map(params![id, signed(after.0), after.1, signed(max as u64)], |row| {
        Ok(PromotionJob {
            job_id: row.get("job_id")?,
            enqueued_ms: whole(row, "enqueued_ms")?,
            step: row.get("step")?,
            why: row.get("why")?,
            detail: row.get("detail")?,
            sends: whole(row, "sends")?,
            changed_ms: whole(row, "changed_ms")?,
        })
    })?;
    rows.collect()
}

/// Returns whether the job was at the step that the change was made from, and the promotion at the version, where one is given.
pub(in crate::hub::record) fn advance(
    connection: &mut Connection,
    id: &str,
    from: JobStep,
    to: &PromotionJob,
    version: Option<u64>,
) -> rusqlite::Result<bool> {
    let now = signed(now_ms(connection)?);
    let changed = connection.execute(
        "UPDATE promotion_job SET step = ?4, why = ?5, detail = ?6, sends = ?7, changed_ms = ?8 WHERE promotion = ?1 AND job_id = ?2 AND step = ?3
         AND (?9 IS NULL OR EXISTS (SELECT 1 FROM promotion WHERE id = ?1 AND version = ?9))",
        params![id, to.job_id, from.as_str(), to.step, to.why, to.detail, signed(to.sends), now, version.map(signed)],
    )?;
    Ok(changed > 0)
}

/// Plans the jobs again that were left for this reason.
pub(in crate::hub::record) fn restore(connection: &mut Connection, id: &str, why: &str) -> rusqlite::Result<()> {
    let now = signed(now_ms(connection)?);
    let statement = "UPDATE promotion_job SET step = 'planned', why = NULL, changed_ms = ?3 WHERE promotion = ?1 AND step = 'left' AND why = ?2";
    connection.execute(statement, params![id, why, now]).map(drop)
}

pub(in crate::hub::record) fn leave(connection: &mut Connection, id: &str, why: &str) -> rusqlite::Result<()> {
    let now = signed(now_ms(connection)?);
    let statement =
        "UPDATE promotion_job SET step = 'left', why = ?2, changed_ms = ?3 WHERE promotion = ?1 AND step = 'planned'";
    connection.execute(statement, params![id, why, now]).map(drop)
}

pub(in crate::hub::record) fn counts(connection: &mut Connection, id: &str) -> rusqlite::Result<Vec<StepCount>> {
    let mut statement = connection.prepare(
        "SELECT step, why, count(*) AS count FROM promotion_job WHERE promotion = ?1 GROUP BY step, why ORDER BY step, why",
    )?;
    let rows = statement.query_map([id], |row| Ok((row.get("step")?, row.get("why")?, whole(row, "count")?)))?;
    rows.collect()
}

pub(in crate::hub::record) fn prune(connection: &mut Connection, before_ms: u64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let is_old = "SELECT id FROM promotion WHERE NOT is_open AND began_ms < ?1";
    transaction.execute(&format!("DELETE FROM promotion_job WHERE promotion IN ({is_old})"), [signed(before_ms)])?;
    transaction.execute(&format!("DELETE FROM promotion WHERE id IN ({is_old})"), [signed(before_ms)])?;
    transaction.commit()
}

/// The facts about the next jobs of a region behind one, at most so many jobs, in the order of their ids.
pub(in crate::hub::record) fn jobs_of_region(
    connection: &mut Connection,
    region: &str,
    after: &str,
    jobs_max: usize,
) -> rusqlite::Result<Vec<IndexedChange>> {
    let from = "job_change WHERE region = ?1 AND job_id IN (
        SELECT DISTINCT job_id FROM job_change WHERE region = ?1 AND job_id > ?2 ORDER BY job_id LIMIT ?3) ORDER BY job_id, lease_ms";
    index::select(connection, from, params![region, after, signed(jobs_max as u64)])
}
