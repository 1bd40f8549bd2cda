//! The reports of sidecars in a hub's record in SQLite.

use rusqlite::{Connection, Row, params};

use super::super::content::{OutcomeQuery, Outcomes, REPORTS_MAX, ReportsEnd, SavedReport};
use super::tables::{signed, whole};

/// A later report takes the place of an earlier one, with a mark of its own, unless it is the same.
const SAVE: &str = "
INSERT INTO report (sidecar, number, started_unix_ms, revision, is_open, state, document, received_unix_ms, mark)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, (SELECT coalesce(max(mark), 0) + 1 FROM report))
ON CONFLICT (sidecar, number) DO UPDATE SET started_unix_ms = excluded.started_unix_ms, revision = excluded.revision,
  is_open = excluded.is_open, state = excluded.state, document = excluded.document, received_unix_ms = excluded.received_unix_ms,
  mark = CASE WHEN (report.started_unix_ms, report.revision) = (excluded.started_unix_ms, excluded.revision)
    THEN report.mark ELSE excluded.mark END
WHERE report.started_unix_ms <> excluded.started_unix_ms OR report.revision <= excluded.revision";

const FIND: &str = "
SELECT * FROM report WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR sidecar = ?2) AND (?3 IS NULL OR mark < ?3)
ORDER BY mark DESC LIMIT ?4";

pub(super) fn save(connection: &mut Connection, reports: &[SavedReport]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for it in reports {
        let (number, started, received) = (signed(it.number), signed(it.started_unix_ms), signed(it.received_unix_ms));
        let values =
            params![it.sidecar, number, started, signed(it.revision), it.is_open, it.state, it.document, received];
        transaction.execute(SAVE, values)?;
    }
    transaction.commit()
}

pub(super) fn find(connection: &mut Connection, query: &OutcomeQuery) -> rusqlite::Result<Outcomes> {
    let mut statement = connection.prepare(FIND)?;
    let max = i64::try_from(query.max).unwrap_or(i64::MAX);
    let values = params![query.state, query.sidecar, query.before.map(signed), max];
    let rows = statement.query_map(values, report)?.collect::<Result<_, _>>()?;
    let mut statement =
        connection.prepare("SELECT state, count(*) AS count FROM report GROUP BY state ORDER BY state")?;
    let counts = statement.query_map([], |row| Ok((row.get("state")?, whole(row, "count")?)))?;
    Ok(Outcomes { rows, counts: counts.collect::<Result<_, _>>()? })
}

fn report(row: &Row<'_>) -> rusqlite::Result<(u64, SavedReport)> {
    let report = SavedReport {
        sidecar: row.get("sidecar")?,
        number: whole(row, "number")?,
        started_unix_ms: whole(row, "started_unix_ms")?,
        revision: whole(row, "revision")?,
        is_open: row.get("is_open")?,
        state: row.get("state")?,
        document: row.get("document")?,
        received_unix_ms: whole(row, "received_unix_ms")?,
    };
    Ok((whole(row, "mark")?, report))
}

pub(super) fn prune(connection: &mut Connection, end: ReportsEnd) -> rusqlite::Result<u64> {
    let values = params![signed(end.closed_before), signed(end.open_before)];
    let old = "DELETE FROM report WHERE received_unix_ms < CASE WHEN is_open THEN ?2 ELSE ?1 END";
    connection.execute(old, values)?;
    let beyond = "DELETE FROM report WHERE mark IN (SELECT mark FROM report ORDER BY mark DESC LIMIT -1 OFFSET ?1)";
    Ok(connection.execute(beyond, [signed(REPORTS_MAX)])? as u64)
}
