//! The ledger of jobs in a hub's record in SQLite.

use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params, params_from_iter, types::Value};

use super::super::content::Kept;
use super::super::ledger::{
    LEDGER_AT_ONCE, LEDGER_COUNTED_MAX, LedgerAppend, LedgerDay, LedgerDepth, LedgerJob, LedgerName, LedgerQuery,
    LedgerRow, LedgerState,
};
use super::tables::{signed, whole};

const JOB: &str = "job_id, region, tenant, job_type, is_bound, is_waiting, enqueued_ms, learned_ms, document";

pub(in crate::hub::record) fn state(
    connection: &mut Connection,
    day: &u64,
    names: &[LedgerName],
) -> rusqlite::Result<LedgerState> {
    let closed = "SELECT coalesce(max(day), 0) AS day FROM ledger_day WHERE is_closed";
    let closed = connection.query_row(closed, [], |row| whole(row, "day"))?;
    let change = connection.query_row("SELECT change FROM ledger_turn", [], |row| whole(row, "change"))?;
    let rows = "SELECT rows FROM ledger_day WHERE day = ?1";
    let rows = connection.query_row(rows, [signed(*day)], |row| whole(row, "rows")).optional()?.unwrap_or(0);
    let mut has = connection.prepare("SELECT 1 FROM job_history WHERE job_id = ?1 AND region = ?2 AND name = ?3")?;
    let mut job = connection.prepare(&format!("SELECT {JOB} FROM ledger_job WHERE job_id = ?1 AND region = ?2"))?;
    let mut state = LedgerState { change, closed, rows, ..LedgerState::default() };
    let mut copies: Vec<(&str, &str)> = names.iter().map(|it| (it.job_id.as_str(), it.region.as_str())).collect();
    copies.sort_unstable();
    copies.dedup();
    for (job_id, region) in copies {
        state.jobs.extend(job.query_row([job_id, region], read_job).optional()?);
    }
    for it in names {
        if has.exists(params![it.job_id, it.region, it.name])? {
            state.known.push(it.clone());
        }
    }
    Ok(state)
}

pub(in crate::hub::record) fn append(connection: &mut Connection, to: &LedgerAppend) -> rusqlite::Result<Kept> {
    let transaction = connection.transaction()?;
    let turn = "UPDATE ledger_turn SET change = change + 1 WHERE change = ?1";
    if transaction.execute(turn, [signed(to.change)])? == 0 {
        return Ok(Kept::Behind);
    }
    let rows = to.from + to.rows.len() as u64;
    let new = "INSERT INTO ledger_day (day, rows) VALUES (?1, 0) ON CONFLICT DO NOTHING";
    transaction.execute(new, [signed(to.day)])?;
    let moved = transaction.execute(
        "UPDATE ledger_day SET rows = ?3 WHERE day = ?1 AND rows = ?2 AND NOT is_closed",
        [to.day, to.from, rows].map(signed),
    )?;
    if moved == 0 {
        return Ok(Kept::Behind);
    }
    {
        let insert = "INSERT INTO job_history (day, number, job_id, region, name, leaf, line) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let mut insert = transaction.prepare(insert)?;
        for LedgerRow { day, number, name, leaf, line, .. } in &to.rows {
            let LedgerName { job_id, region, name } = name;
            insert.execute(params![signed(*day), signed(*number), job_id, region, name, leaf, line])?;
        }
        let mut erase = transaction.prepare(ERASE)?;
        for (job_id, region) in &to.erased {
            erase.execute([job_id, region])?;
        }
        let keep = format!("INSERT OR REPLACE INTO ledger_job ({JOB}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
        let mut keep = transaction.prepare(&keep)?;
        for it in &to.jobs {
            let (enqueued_ms, learned_ms) = (signed(it.enqueued_ms), signed(it.learned_ms));
            let LedgerJob { job_id, region, tenant, job_type, is_bound, is_waiting, document, .. } = it;
            keep.execute(params![
                job_id,
                region,
                tenant,
                job_type,
                is_bound,
                is_waiting,
                enqueued_ms,
                learned_ms,
                document
            ])?;
        }
    }
    transaction.commit()?;
    Ok(Kept::Kept)
}

pub(in crate::hub::record) fn jobs(
    connection: &mut Connection,
    query: &LedgerQuery,
) -> rusqlite::Result<Vec<LedgerJob>> {
    let mut values = vec![Value::from(signed(query.from_ms)), Value::from(signed(query.to_ms))];
    let mut filter = "enqueued_ms >= ?1 AND enqueued_ms < ?2".to_owned();
    if let Some(tenant) = &query.tenant {
        values.push(Value::from(tenant.clone()));
        filter.push_str(&format!(" AND tenant = ?{}", values.len()));
    }
    if let Some((enqueued_ms, job_id, region)) = &query.behind {
        let at = values.len();
        values.extend([Value::from(signed(*enqueued_ms)), Value::from(job_id.clone()), Value::from(region.clone())]);
        filter.push_str(&format!(" AND (enqueued_ms, job_id, region) < (?{}, ?{}, ?{})", at + 1, at + 2, at + 3));
    }
    values.push(Value::from(signed(query.max as u64)));
    let select = format!(
        "SELECT {JOB} FROM ledger_job WHERE {filter} ORDER BY enqueued_ms DESC, job_id DESC, region DESC LIMIT ?{}",
        values.len()
    );
    connection.prepare(&select)?.query_map(params_from_iter(values), read_job)?.collect()
}

pub(in crate::hub::record) fn copies(connection: &mut Connection, job_id: &str) -> rusqlite::Result<Vec<LedgerJob>> {
    let select = format!("SELECT {JOB} FROM ledger_job WHERE job_id = ?1 ORDER BY region LIMIT 100");
    connection.prepare(&select)?.query_map([job_id], read_job)?.collect()
}

pub(in crate::hub::record) fn depth(connection: &mut Connection) -> rusqlite::Result<Vec<LedgerDepth>> {
    let select = "SELECT job_type, tenant, count(*) AS jobs FROM (SELECT job_type, tenant FROM ledger_job WHERE is_waiting LIMIT ?1)
GROUP BY job_type, tenant ORDER BY jobs DESC LIMIT 1000";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, whole(row, "jobs")?));
    connection.prepare(select)?.query_map([signed(LEDGER_COUNTED_MAX)], read)?.collect()
}

/// The columns of a row of the history, with those of its job.
const ROW: &str = "h.day, h.number, h.job_id, h.region, h.name, h.leaf, h.line, j.tenant, j.is_bound
FROM job_history AS h LEFT JOIN ledger_job AS j ON (j.job_id, j.region) = (h.job_id, h.region)";

pub(in crate::hub::record) fn history(
    connection: &mut Connection,
    copy: &(String, String),
    max: &usize,
) -> rusqlite::Result<Vec<LedgerRow>> {
    let select = format!("SELECT {ROW} WHERE h.job_id = ?1 AND h.region = ?2 ORDER BY h.day, h.number LIMIT ?3");
    let values = params![copy.0, copy.1, signed(*max as u64)];
    connection.prepare(&select)?.query_map(values, read_row)?.collect()
}

pub(in crate::hub::record) fn rows(
    connection: &mut Connection,
    day: &u64,
    from: &u64,
    max: &usize,
) -> rusqlite::Result<Vec<LedgerRow>> {
    let select = format!("SELECT {ROW} WHERE h.day = ?1 AND h.number >= ?2 ORDER BY h.number LIMIT ?3");
    let values = [*day, *from, *max as u64].map(signed);
    connection.prepare(&select)?.query_map(values, read_row)?.collect()
}

pub(in crate::hub::record) fn leaves(
    connection: &mut Connection,
    day: &u64,
    from: &u64,
    max: &usize,
) -> rusqlite::Result<Vec<Vec<u8>>> {
    let select = "SELECT leaf FROM job_history WHERE day = ?1 AND number >= ?2 ORDER BY number LIMIT ?3";
    let values = [*day, *from, *max as u64].map(signed);
    connection.prepare(select)?.query_map(values, |row| row.get(0))?.collect()
}

pub(in crate::hub::record) fn days(
    connection: &mut Connection,
    from: &u64,
    to: &u64,
) -> rusqlite::Result<Vec<LedgerDay>> {
    let select = "SELECT day, rows, is_closed, is_dropped, head FROM ledger_day WHERE day BETWEEN ?1 AND ?2 ORDER BY day LIMIT 1000";
    let read = |row: &Row<'_>| {
        Ok(LedgerDay {
            day: whole(row, "day")?,
            rows: whole(row, "rows")?,
            is_closed: row.get("is_closed")?,
            is_dropped: row.get("is_dropped")?,
            head: row.get("head")?,
        })
    };
    connection.prepare(select)?.query_map([*from, *to].map(signed), read)?.collect()
}

pub(in crate::hub::record) fn close(
    connection: &mut Connection,
    day: &u64,
    rows: &u64,
    head: &str,
) -> rusqlite::Result<Kept> {
    let close = "UPDATE ledger_day SET is_closed = TRUE, head = ?3 WHERE day = ?1 AND rows = ?2 AND NOT is_closed";
    let closed = connection.execute(close, params![signed(*day), signed(*rows), head])?;
    Ok(if closed > 0 { Kept::Kept } else { Kept::Behind })
}

pub(in crate::hub::record) fn prune(
    connection: &mut Connection,
    before_day: &u64,
    learned_ms: &u64,
) -> rusqlite::Result<u64> {
    let transaction = connection.transaction()?;
    let rows =
        "DELETE FROM job_history WHERE rowid IN (SELECT rowid FROM job_history WHERE day < ?1 ORDER BY day LIMIT ?2)";
    let rows = transaction.execute(rows, [*before_day, LEDGER_AT_ONCE].map(signed))?;
    if rows == 0 {
        let dropped = "UPDATE ledger_day SET is_closed = TRUE, is_dropped = TRUE WHERE day < ?1 AND NOT is_dropped";
        transaction.execute(dropped, [signed(*before_day)])?;
    }
    let jobs = "DELETE FROM ledger_job WHERE rowid IN (SELECT rowid FROM ledger_job WHERE learned_ms < ?1 LIMIT ?2)";
    let jobs = transaction.execute(jobs, [*learned_ms, LEDGER_AT_ONCE].map(signed))?;
    transaction.commit()?;
    Ok((rows + jobs) as u64)
}

/// Erases the lines of a copy. Its rows keep their places and their leaves.
const ERASE: &str = "
UPDATE job_history SET line = NULL, job_id = '', region = '', name = day || ' ' || number WHERE job_id = ?1 AND region = ?2";

/// Overwrites the erased bytes, as far as their pages are not free already.
pub(in crate::hub::record) fn forget(
    connection: &mut Connection,
    tenant: &str,
    mark: &str,
) -> rusqlite::Result<(u64, u64)> {
    connection.pragma_update(None, "secure_delete", true)?;
    let forgotten = forget_some(connection, tenant, mark);
    connection.pragma_update(None, "secure_delete", false)?;
    if forgotten.as_ref().is_ok_and(|(jobs, _)| *jobs == 0) {
        // The pages of before are in the log still.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
    forgotten
}

fn forget_some(connection: &mut Connection, tenant: &str, mark: &str) -> rusqlite::Result<(u64, u64)> {
    let transaction = connection.transaction()?;
    let of_tenant: Vec<(i64, String, String)> = {
        let select = "SELECT rowid, job_id, region FROM ledger_job WHERE tenant = ?1 LIMIT ?2";
        let mut select = transaction.prepare(select)?;
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        select.query_map(params![tenant, signed(LEDGER_AT_ONCE / 10)], read)?.collect::<Result<_, _>>()?
    };
    let lines = erase(&transaction, &of_tenant, mark)?;
    transaction.commit()?;
    Ok((of_tenant.len() as u64, lines))
}

fn erase(transaction: &Transaction<'_>, jobs: &[(i64, String, String)], mark: &str) -> rusqlite::Result<u64> {
    let keep =
        "UPDATE ledger_job SET tenant = NULL, job_type = NULL, is_waiting = FALSE, document = ?2 WHERE rowid = ?1";
    let (mut erase, mut keep) = (transaction.prepare(ERASE)?, transaction.prepare(keep)?);
    let mut lines = 0;
    for (rowid, job_id, region) in jobs {
        lines += erase.execute([job_id, region])?;
        keep.execute(params![rowid, mark])?;
    }
    Ok(lines as u64)
}

pub(in crate::hub::record) fn turn(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.execute("UPDATE ledger_turn SET change = change + 1", []).map(drop)
}

fn read_job(row: &Row<'_>) -> rusqlite::Result<LedgerJob> {
    Ok(LedgerJob {
        job_id: row.get("job_id")?,
        region: row.get("region")?,
        tenant: row.get("tenant")?,
        job_type: row.get("job_type")?,
        is_bound: row.get("is_bound")?,
        is_waiting: row.get("is_waiting")?,
        enqueued_ms: whole(row, "enqueued_ms")?,
        learned_ms: whole(row, "learned_ms")?,
        document: row.get("document")?,
    })
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<LedgerRow> {
    let bound: Option<bool> = row.get("is_bound")?;
    let tenant = row.get("tenant")?;
    Ok(LedgerRow {
        day: whole(row, "day")?,
        number: whole(row, "number")?,
        name: LedgerName { job_id: row.get("job_id")?, region: row.get("region")?, name: row.get("name")? },
        leaf: row.get("leaf")?,
        line: row.get("line")?,
        of_job: bound.map(|bound| (tenant, bound)),
    })
}
