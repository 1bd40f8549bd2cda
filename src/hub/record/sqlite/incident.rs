//! Incidents in a hub's record in SQLite.

use rusqlite::{Connection, Params, Row, params};

use super::super::content::Kept;
use super::super::incident::{IncidentQuery, OPEN_INCIDENTS_MAX, SavedIncident};
use super::tables::{signed, whole};

pub(in crate::hub::record) fn some(
    connection: &mut Connection,
    query: IncidentQuery,
) -> rusqlite::Result<Vec<SavedIncident>> {
    match query {
        IncidentQuery::Recent(since_ms) => read(
            connection,
            "SELECT * FROM incident WHERE is_open OR closed_ms >= ?1 ORDER BY is_open DESC, opened_ms DESC, id LIMIT ?2",
            params![signed(since_ms), signed(4 * OPEN_INCIDENTS_MAX)],
        ),
        IncidentQuery::Due(at_ms, max) => read(
            connection,
            "SELECT * FROM incident WHERE due_ms <= ?1 ORDER BY due_ms LIMIT ?2",
            params![signed(at_ms), signed(max)],
        ),
    }
}

pub(in crate::hub::record) fn page(
    connection: &mut Connection,
    is_open: Option<bool>,
    (opened_ms, id): &(u64, String),
    max: u64,
) -> rusqlite::Result<Vec<SavedIncident>> {
    read(
        connection,
        "SELECT * FROM incident WHERE (?1 IS NULL OR is_open = ?1) AND (opened_ms, id) < (?2, ?3)
         ORDER BY opened_ms DESC, id DESC LIMIT ?4",
        params![is_open, signed(*opened_ms), id, signed(max)],
    )
}

pub(in crate::hub::record) fn one(connection: &mut Connection, id: &str) -> rusqlite::Result<Option<SavedIncident>> {
    Ok(read(connection, "SELECT * FROM incident WHERE id = ?1", [id])?.pop())
}

fn read(connection: &Connection, statement: &str, values: impl Params) -> rusqlite::Result<Vec<SavedIncident>> {
    let mut statement = connection.prepare(statement)?;
    let number = |row: &Row<'_>, column: &str| {
        Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.and_then(|it| u64::try_from(it).ok()))
    };
    let rows = statement.query_map(values, |row| {
        Ok(SavedIncident {
            id: row.get("id")?,
            version: whole(row, "version")?,
            job_type: row.get("job_type")?,
            tenant: row.get("tenant")?,
            is_open: row.get("is_open")?,
            opened_ms: whole(row, "opened_ms")?,
            closed_ms: number(row, "closed_ms")?,
            due_ms: number(row, "due_ms")?,
            document: row.get("document")?,
        })
    })?;
    rows.collect()
}

pub(in crate::hub::record) fn change(connection: &mut Connection, to: &SavedIncident) -> rusqlite::Result<Kept> {
    let [closed_ms, due_ms] = [to.closed_ms, to.due_ms].map(|it| it.map(signed));
    let changed = if to.version == 0 {
        connection.execute(
            "INSERT INTO incident SELECT ?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
             WHERE (SELECT count(*) FROM incident WHERE is_open) < ?9 ON CONFLICT DO NOTHING",
            params![
                to.id,
                to.job_type,
                to.tenant,
                to.is_open,
                signed(to.opened_ms),
                closed_ms,
                due_ms,
                to.document,
                signed(OPEN_INCIDENTS_MAX)
            ],
        )?
    } else {
        connection.execute(
            "UPDATE incident SET version = version + 1, is_open = ?3, closed_ms = ?4, due_ms = ?5, document = ?6
             WHERE id = ?1 AND version = ?2",
            params![to.id, signed(to.version), to.is_open, closed_ms, due_ms, to.document],
        )?
    };
    Ok(if changed > 0 { Kept::Kept } else { Kept::Behind })
}

pub(in crate::hub::record) fn prune(connection: &mut Connection, before_ms: u64) -> rusqlite::Result<()> {
    let statement = "DELETE FROM incident WHERE NOT is_open AND closed_ms < ?1 AND due_ms IS NULL";
    connection.execute(statement, [signed(before_ms)]).map(drop)
}
