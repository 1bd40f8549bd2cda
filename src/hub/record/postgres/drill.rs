//! Failover drills in a record in PostgreSQL. Each decision is one statement.

use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{Kept, RecordError};
use super::super::drill::{SavedCounts, SavedDrill};
use super::super::postgres_error::PostgresError;
use super::line::{Line, Value};
use super::values::{number, signed, text};

const ALL: &str = "SELECT id, version, document, is_open, began_ms FROM ojs_hub_drill ORDER BY began_ms, id";

/// One row where the drill was at the version that the change was made from, and no other one is on.
const CHANGE: &str = "
INSERT INTO ojs_hub_drill SELECT $1, $2 + 1, $3, $4, $5
WHERE ($2 = 0 OR EXISTS (SELECT 1 FROM ojs_hub_drill WHERE id = $1))
  AND NOT ($4 AND EXISTS (SELECT 1 FROM ojs_hub_drill WHERE is_open AND id <> $1))
ON CONFLICT (id) DO UPDATE SET version = excluded.version, document = excluded.document, is_open = excluded.is_open
WHERE ojs_hub_drill.version = $2
RETURNING 1";

const KEEP: &str = "
INSERT INTO ojs_hub_drill_count (drill, sidecar, started_ms, document)
SELECT $2, sidecar, started_ms, document FROM json_populate_recordset(NULL::ojs_hub_drill_count, $1::json)
ON CONFLICT (drill, sidecar, started_ms) DO UPDATE SET document = excluded.document";

const COUNTS: &str = "
SELECT sidecar, started_ms, document FROM ojs_hub_drill_count WHERE drill = $1 ORDER BY sidecar, started_ms";

const PRUNE: &str = "
WITH dropped AS (DELETE FROM ojs_hub_drill WHERE NOT is_open AND began_ms < $1 RETURNING id)
DELETE FROM ojs_hub_drill_count WHERE drill IN (SELECT id FROM dropped)";

pub(in crate::hub::record) async fn all(
    line: &Line,
    settings: &PostgresSettings,
) -> Result<Vec<SavedDrill>, RecordError> {
    let rows = line.ask(settings, ALL, &[]).await?;
    let read = |at: usize| {
        Ok::<_, PostgresError>(SavedDrill {
            id: text(&rows, at, 0)?,
            version: number(&rows, at, 1)?,
            document: text(&rows, at, 2)?,
            is_open: rows[at].try_get(3).map_err(PostgresError::content)?,
            began_ms: number(&rows, at, 4)?,
        })
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn change(
    line: &Line,
    settings: &PostgresSettings,
    to: &SavedDrill,
) -> Result<Kept, RecordError> {
    let (version, began_ms) = (signed(to.version), signed(to.began_ms));
    let values: [Value<'_>; 5] = [
        (&to.id, Type::TEXT),
        (&version, Type::INT8),
        (&to.document, Type::TEXT),
        (&to.is_open, Type::BOOL),
        (&began_ms, Type::INT8),
    ];
    let changed = line.ask(settings, CHANGE, &values).await?;
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
            document: text(&rows, at, 2)?,
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
