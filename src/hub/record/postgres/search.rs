//! The index of facts by tracking id and region, which the search for conflicts needs. It is built behind the migration, without a lock that
//! stops hubs from writing, because it takes minutes where there are millions of facts; no statement of the search runs before.
//!
//! One hub builds it at a time, by the turn that hubs have with the conflicts: two builds at once end each other as a deadlock.

use std::convert::Infallible;
use std::time::Duration;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::conflict::CONFLICT_TURN_MS;
use super::super::content::RecordError;
use super::super::postgres_error::PostgresError;
use super::conflict::take;
use super::connect::connect;
use super::line::Line;

/// A build of ten million facts takes some minutes; a transaction that stays open holds it up for as long.
const BUILD_WAIT: Duration = Duration::from_secs(60 * 60);
/// How often the turn is renewed while the index is built, so that one that fails does not lose it.
const RENEW_EVERY: Duration = Duration::from_millis(CONFLICT_TURN_MS / 3);

/// Whether the index is valid, or none where it is missing; whether some session builds one; and whether the index of version 8 is there. A
/// role sees for sessions of other ones only that they build something.
const LOOK: &str = "
SELECT (SELECT indisvalid FROM pg_catalog.pg_index WHERE indexrelid = to_regclass('ojs_hub_change_search')),
  EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_create_index
    WHERE datname = current_database() AND (relid IS NULL OR relid = to_regclass('ojs_hub_change'))),
  to_regclass('ojs_hub_change_federation') IS NOT NULL";

/// The waits of a build for transactions of others have no end of their own.
const WITHOUT_LIMITS: &str = "SET lock_timeout = 0; SET statement_timeout = 0";

/// A build that has failed leaves an index that is written and never read. The lock keeps another build away, and the look behind it sees the
/// index of one that has ended in between.
const DROP_FAILED: &str = "
DO $$ BEGIN
  SET LOCAL lock_timeout = '3s';
  LOCK TABLE ojs_hub_change IN SHARE UPDATE EXCLUSIVE MODE;
  IF EXISTS (SELECT 1 FROM pg_catalog.pg_index WHERE indexrelid = to_regclass('ojs_hub_change_search') AND NOT indisvalid) THEN
    DROP INDEX ojs_hub_change_search;
  END IF;
END $$";

const BUILD: &str = "
CREATE INDEX CONCURRENTLY IF NOT EXISTS ojs_hub_change_search ON ojs_hub_change (federation_id, region) WHERE federation_id IS NOT NULL";

/// The new index does for earlier hubs, too. With both of them the server may take the old one and sort all facts about an id.
const DROP_EARLIER: &str = "DROP INDEX CONCURRENTLY IF EXISTS ojs_hub_change_federation";

/// The indexes as one look shows them.
#[derive(Debug, Clone, Copy)]
struct Seen {
    is_valid: Option<bool>,
    is_under_way: bool,
    has_earlier: bool,
}

impl Seen {
    fn is_ready(self) -> bool {
        self.is_valid == Some(true) && !self.has_earlier
    }
}

/// Whether the facts can be searched by tracking id and region.
pub(in crate::hub::record) async fn is_ready(line: &Line, settings: &PostgresSettings) -> Result<bool, RecordError> {
    Ok(look(line, settings).await?.is_ready())
}

/// Builds the index, unless it is ready or another hub does so. Returns whether it is ready.
pub(in crate::hub::record) async fn prepare(
    line: &Line,
    settings: &PostgresSettings,
    hub: &str,
) -> Result<bool, RecordError> {
    let seen = look(line, settings).await?;
    if seen.is_ready() {
        return Ok(true);
    }
    // The server goes on with the build of a hub that was killed.
    if seen.is_under_way || take(line, settings, hub, CONFLICT_TURN_MS).await?.is_none() {
        return Ok(false);
    }
    let built = tokio::select! {
        built = build(settings, seen) => built,
        never = renew(line, settings, hub) => match never {},
    };
    // Others need not wait until the turn is over.
    take(line, settings, hub, 0).await?;
    built?;
    is_ready(line, settings).await
}

async fn look(line: &Line, settings: &PostgresSettings) -> Result<Seen, RecordError> {
    let rows = line.ask(settings, LOOK, &[]).await?;
    let seen = rows.first().map(|row| {
        let (is_valid, is_under_way) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Seen { is_valid, is_under_way, has_earlier: row.try_get(2)? })
    });
    let seen = seen.transpose().map_err(|error: tokio_postgres::Error| PostgresError::content(error))?;
    Ok(seen.ok_or_else(|| PostgresError::content("a row is missing"))?)
}

async fn build(settings: &PostgresSettings, seen: Seen) -> Result<(), RecordError> {
    let connected = connect(settings).await?;
    let built = async {
        connected.client.batch_execute(WITHOUT_LIMITS).await?;
        if seen.is_valid == Some(false) {
            connected.client.batch_execute(DROP_FAILED).await?;
        }
        if seen.is_valid != Some(true) {
            connected.client.batch_execute(BUILD).await?;
        }
        connected.client.batch_execute(DROP_EARLIER).await
    };
    let built = tokio::time::timeout(BUILD_WAIT, built).await.map_err(|_| RecordError::Slow)?;
    Ok(built.map_err(PostgresError::migration)?)
}

/// Keeps the turn. A hub that gets it all the same sees that the index is being built.
async fn renew(line: &Line, settings: &PostgresSettings, hub: &str) -> Infallible {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        drop(take(line, settings, hub, CONFLICT_TURN_MS).await);
    }
}
