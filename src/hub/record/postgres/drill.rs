//! Failover drills in a record in PostgreSQL. Each decision is one statement.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{Kept, RecordError};
use super::super::drill::{SavedCounts, SavedDrill};
use super::super::postgres_error::PostgresError;
use super::line::{Line, Value};
use super::values::{number, signed, text};

const ALL: &str = "SELECT id, number, version, document, is_open, began_ms FROM ojs_hub_drill ORDER BY number";

const LAST: &str = "
SELECT id, number, version, document, is_open, began_ms FROM ojs_hub_drill
WHERE is_open OR number = (SELECT max(number) FROM ojs_hub_drill) ORDER BY number";

/// No row where another drill is on, or has the number, also where both are begun at once.
const BEGIN: &str = "
INSERT INTO ojs_hub_drill (id, number, version, document, is_open, began_ms) VALUES ($1, $2, 1, $3, $4, $5)
ON CONFLICT DO NOTHING RETURNING 1";

/// One row where the drill was at the version that the change was made from.
const CHANGE: &str = "
UPDATE ojs_hub_drill SET version = version + 1, document = $3, is_open = $4 WHERE id = $1 AND version = $2 RETURNING 1";

const KEEP: &str = "
INSERT INTO ojs_hub_drill_count (drill, sidecar, started_ms, seq, document)
SELECT $2, sidecar, started_ms, seq, document FROM json_populate_recordset(NULL::ojs_hub_drill_count, $1::json)
ON CONFLICT (drill, sidecar, started_ms) DO UPDATE SET seq = excluded.seq, document = excluded.document
WHERE excluded.seq >= ojs_hub_drill_count.seq";

const COUNTS: &str = "
SELECT sidecar, started_ms, seq, document FROM ojs_hub_drill_count WHERE drill = $1 ORDER BY sidecar, started_ms";

const PRUNE: &str = "
WITH dropped AS (DELETE FROM ojs_hub_drill WHERE NOT is_open AND began_ms < $1
  AND number < (SELECT max(number) FROM ojs_hub_drill) RETURNING id)
DELETE FROM ojs_hub_drill_count WHERE drill IN (SELECT id FROM dropped)";

pub(in crate::hub::record) async fn all(
    line: &Line,
    settings: &PostgresSettings,
) -> Result<Vec<SavedDrill>, RecordError> {
    read(&line.ask(settings, ALL, &[]).await?)
}

pub(in crate::hub::record) async fn last(
    line: &Line,
    settings: &PostgresSettings,
) -> Result<Vec<SavedDrill>, RecordError> {
    read(&line.ask(settings, LAST, &[]).await?)
}

fn read(rows: &[Row]) -> Result<Vec<SavedDrill>, RecordError> {
    let read = |at: usize| {
        Ok::<_, PostgresError>(SavedDrill {
            id: text(rows, at, 0)?,
            number: number(rows, at, 1)?,
            version: number(rows, at, 2)?,
            document: text(rows, at, 3)?,
            is_open: rows[at].try_get(4).map_err(PostgresError::content)?,
            began_ms: number(rows, at, 5)?,
        })
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn change(
    line: &Line,
    settings: &PostgresSettings,
    to: &SavedDrill,
) -> Result<Kept, RecordError> {
    let [version, place, began_ms] = [to.version, to.number, to.began_ms].map(signed);
    let (id, document, is_open): (Value<'_>, Value<'_>, Value<'_>) =
        ((&to.id, Type::TEXT), (&to.document, Type::TEXT), (&to.is_open, Type::BOOL));
    let changed = if to.version == 0 {
        let values: [Value<'_>; 5] = [id, (&place, Type::INT8), document, is_open, (&began_ms, Type::INT8)];
        line.ask(settings, BEGIN, &values).await?
    } else {
        line.ask(settings, CHANGE, &[id, (&version, Type::INT8), document, is_open]).await?
    };
    Ok(if changed.is_empty() { Kept::Behind } else { Kept::Kept })
}

pub(in crate::hub::record) async fn keep(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    counts: &[SavedCounts],
) -> Result<(), RecordError> {
    let rows = serde_json::json!(counts).to_string();
    line.ask(settings, KEEP, &[(&rows, Type::TEXT), (&id, Type::TEXT)]).await.map(drop)
}

pub(in crate::hub::record) async fn counts(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
) -> Result<Vec<SavedCounts>, RecordError> {
    let rows = line.ask(settings, COUNTS, &[(&id, Type::TEXT)]).await?;
    let read = |at: usize| {
        Ok::<_, PostgresError>(SavedCounts {
            sidecar: text(&rows, at, 0)?,
            started_ms: number(&rows, at, 1)?,
            seq: number(&rows, at, 2)?,
            document: text(&rows, at, 3)?,
        })
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    before_ms: u64,
) -> Result<(), RecordError> {
    line.ask(settings, PRUNE, &[(&signed(before_ms), Type::INT8)]).await.map(drop)
}
