//! The holders of fleet limits in a record in PostgreSQL.

use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{Kept, RecordError, SavedLimit};
use super::line::{Line, Value};
use super::values::{number, signed, text};

/// The clock of the server, which all hubs share.
const LIMIT: &str = "
SELECT coalesce(version, 0), coalesce(holders, '{}'), (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (SELECT 1) AS one LEFT JOIN ojs_hub_limit ON region = $1";

/// One row where the limit was at the version that the change was made from.
const CHANGE: &str = "
INSERT INTO ojs_hub_limit SELECT $1, $2 + 1, $3 WHERE $2 = 0 OR EXISTS (SELECT 1 FROM ojs_hub_limit WHERE region = $1)
ON CONFLICT (region) DO UPDATE SET version = excluded.version, holders = excluded.holders WHERE ojs_hub_limit.version = $2
RETURNING 1";

pub(super) async fn read(line: &Line, settings: &PostgresSettings, region: &str) -> Result<SavedLimit, RecordError> {
    let rows = line.ask(settings, LIMIT, &[(&region, Type::TEXT)]).await?;
    Ok(SavedLimit { version: number(&rows, 0, 0)?, holders: text(&rows, 0, 1)?, now_ms: number(&rows, 0, 2)? })
}

pub(super) async fn change(
    line: &Line,
    settings: &PostgresSettings,
    region: &str,
    from: u64,
    holders: &str,
) -> Result<Kept, RecordError> {
    let from = signed(from);
    let values: [Value<'_>; 3] = [(&region, Type::TEXT), (&from, Type::INT8), (&holders, Type::TEXT)];
    let changed = line.ask(settings, CHANGE, &values).await?;
    Ok(if changed.is_empty() { Kept::Behind } else { Kept::Kept })
}
