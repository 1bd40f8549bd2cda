//! Incidents in a record in PostgreSQL. Each decision is one statement.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{Kept, RecordError};
use super::super::incident::{ENDS_MAX, IncidentQuery, OPEN_INCIDENTS_MAX, SavedEnds, SavedIncident};
use super::super::postgres_error::PostgresError;
use super::line::{Line, Value};
use super::values::{number, signed, text};

const COLUMNS: &str = "id, version, job_type, tenant, is_open, opened_ms, closed_ms, due_ms, document";

/// No row where another one of its type and tenant is open, also where both are opened at once.
const OPEN: &str = "
INSERT INTO ojs_hub_incident (id, version, job_type, tenant, is_open, opened_ms, closed_ms, due_ms, document)
SELECT $1, 1, $2, $3, $4, $5, $6, $7, $8 WHERE (SELECT count(*) FROM ojs_hub_incident WHERE is_open) < $9
ON CONFLICT DO NOTHING RETURNING 1";

/// One row where the incident was at the version that the change was made from.
const CHANGE: &str = "
UPDATE ojs_hub_incident SET version = version + 1, is_open = $3, closed_ms = $4, due_ms = $5, document = $6
WHERE id = $1 AND version = $2 RETURNING 1";

const PRUNE: &str = "
WITH ends AS (DELETE FROM ojs_hub_type_end WHERE from_ms < $2)
DELETE FROM ojs_hub_incident WHERE NOT is_open AND closed_ms < $1 AND due_ms IS NULL";

const KEEP_ENDS: &str = "
INSERT INTO ojs_hub_type_end (hub, job_type, tenant, from_ms, succeeded, failed, jobs)
SELECT $2, job_type, tenant, from_ms, succeeded, failed, jobs FROM json_populate_recordset(NULL::ojs_hub_type_end, $1::json)
ON CONFLICT (hub, job_type, tenant, from_ms) DO UPDATE
SET succeeded = excluded.succeeded, failed = excluded.failed, jobs = excluded.jobs";

const OTHER_ENDS: &str = "
SELECT job_type, tenant, from_ms, sum(succeeded)::bigint, sum(failed)::bigint, max(jobs) FROM ojs_hub_type_end
WHERE hub <> $1 AND from_ms >= $2 GROUP BY job_type, tenant, from_ms ORDER BY from_ms DESC LIMIT $3";

pub(in crate::hub::record) async fn some(
    line: &Line,
    settings: &PostgresSettings,
    query: IncidentQuery,
) -> Result<Vec<SavedIncident>, RecordError> {
    let (condition, time, max) = match query {
        IncidentQuery::Recent(since_ms) => {
            ("is_open OR closed_ms >= $1 ORDER BY is_open DESC, opened_ms DESC, id", since_ms, 4 * OPEN_INCIDENTS_MAX)
        }
        IncidentQuery::Due(at_ms, max) => ("due_ms <= $1 ORDER BY due_ms", at_ms, max),
    };
    let statement = format!("SELECT {COLUMNS} FROM ojs_hub_incident WHERE {condition} LIMIT $2");
    let values: [Value<'_>; 2] = [(&signed(time), Type::INT8), (&signed(max), Type::INT8)];
    read(&line.ask(settings, &statement, &values).await?)
}

pub(in crate::hub::record) async fn page(
    line: &Line,
    settings: &PostgresSettings,
    is_open: Option<bool>,
    (opened_ms, id): (u64, &str),
    max: u64,
) -> Result<Vec<SavedIncident>, RecordError> {
    let statement = format!(
        "SELECT {COLUMNS} FROM ojs_hub_incident WHERE ($1 IS NULL OR is_open = $1) AND (opened_ms, id) < ($2, $3)
         ORDER BY opened_ms DESC, id DESC LIMIT $4"
    );
    let (opened_ms, max) = (signed(opened_ms), signed(max));
    let values: [Value<'_>; 4] =
        [(&is_open, Type::BOOL), (&opened_ms, Type::INT8), (&id, Type::TEXT), (&max, Type::INT8)];
    read(&line.ask(settings, &statement, &values).await?)
}

pub(in crate::hub::record) async fn one(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
) -> Result<Option<SavedIncident>, RecordError> {
    let statement = format!("SELECT {COLUMNS} FROM ojs_hub_incident WHERE id = $1");
    Ok(read(&line.ask(settings, &statement, &[(&id, Type::TEXT)]).await?)?.pop())
}

fn read(rows: &[Row]) -> Result<Vec<SavedIncident>, RecordError> {
    let perhaps = |at: usize, column: usize| {
        let number: Option<i64> = rows[at].try_get(column).map_err(PostgresError::content)?;
        number.map(u64::try_from).transpose().map_err(PostgresError::content)
    };
    let read = |at: usize| {
        Ok::<_, PostgresError>(SavedIncident {
            id: text(rows, at, 0)?,
            version: number(rows, at, 1)?,
            job_type: text(rows, at, 2)?,
            tenant: text(rows, at, 3)?,
            is_open: rows[at].try_get(4).map_err(PostgresError::content)?,
            opened_ms: number(rows, at, 5)?,
            closed_ms: perhaps(at, 6)?,
            due_ms: perhaps(at, 7)?,
            document: text(rows, at, 8)?,
        })
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn change(
    line: &Line,
    settings: &PostgresSettings,
    to: &SavedIncident,
) -> Result<Kept, RecordError> {
    let [version, opened_ms, most] = [to.version, to.opened_ms, OPEN_INCIDENTS_MAX].map(signed);
    let [closed_ms, due_ms] = [to.closed_ms, to.due_ms].map(|it| it.map(signed));
    let id: Value<'_> = (&to.id, Type::TEXT);
    let is_open: Value<'_> = (&to.is_open, Type::BOOL);
    let times: [Value<'_>; 2] = [(&closed_ms, Type::INT8), (&due_ms, Type::INT8)];
    let document: Value<'_> = (&to.document, Type::TEXT);
    let [closed, due] = times;
    let changed = if to.version == 0 {
        let [job_type, tenant]: [Value<'_>; 2] = [(&to.job_type, Type::TEXT), (&to.tenant, Type::TEXT)];
        let values: [Value<'_>; 9] =
            [id, job_type, tenant, is_open, (&opened_ms, Type::INT8), closed, due, document, (&most, Type::INT8)];
        line.ask(settings, OPEN, &values).await?
    } else {
        line.ask(settings, CHANGE, &[id, (&version, Type::INT8), is_open, closed, due, document]).await?
    };
    Ok(if changed.is_empty() { Kept::Behind } else { Kept::Kept })
}

pub(in crate::hub::record) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    before_ms: u64,
    ends_before_ms: u64,
) -> Result<(), RecordError> {
    let values: [Value<'_>; 2] = [(&signed(before_ms), Type::INT8), (&signed(ends_before_ms), Type::INT8)];
    line.ask(settings, PRUNE, &values).await.map(drop)
}

pub(in crate::hub::record) async fn share_ends(
    line: &Line,
    settings: &PostgresSettings,
    hub: &str,
    own: &[SavedEnds],
    since_ms: u64,
) -> Result<Vec<SavedEnds>, RecordError> {
    if !own.is_empty() {
        let rows = serde_json::json!(own).to_string();
        line.ask(settings, KEEP_ENDS, &[(&rows, Type::TEXT), (&hub, Type::TEXT)]).await?;
    }
    let (since_ms, most) = (signed(since_ms), signed(ENDS_MAX));
    let values: [Value<'_>; 3] = [(&hub, Type::TEXT), (&since_ms, Type::INT8), (&most, Type::INT8)];
    let rows = line.ask(settings, OTHER_ENDS, &values).await?;
    let read = |at: usize| {
        Ok::<_, PostgresError>(SavedEnds {
            job_type: text(&rows, at, 0)?,
            tenant: text(&rows, at, 1)?,
            from_ms: number(&rows, at, 2)?,
            succeeded: number(&rows, at, 3)?,
            failed: number(&rows, at, 4)?,
            jobs: text(&rows, at, 5)?,
        })
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}
