//! Idempotency keys in a record in PostgreSQL. Each decision is one statement, by the clock of the server, which all hubs share; a look behind it
//! finds the owner of a key that was not taken.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{KnownKey, RELEASED_FOR_MS, RecordError, SavedKey};
use super::super::postgres_error::PostgresError;
use super::line::{Line, Value};
use super::values::{number, signed, text};

/// Tries of a claim while its key is freed between two looks: each needs another hub to claim and free it in between.
const TRIES_MAX: usize = 4;

/// Takes a key that is new, over, released, or this claim's by an earlier call. One row where it is taken.
const CLAIM: &str = "
INSERT INTO ojs_hub_key (name, body, token, attempt, sidecar, started_unix_ms, state, claimed_unix_ms, ends_unix_ms)
SELECT $1, $2, $3, $4, $5, $6, 'open', now, now + $7
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
ON CONFLICT (name) DO UPDATE SET body = excluded.body, token = excluded.token, attempt = excluded.attempt, sidecar = excluded.sidecar,
  started_unix_ms = excluded.started_unix_ms, state = 'open', status = NULL, region = NULL, job_id = NULL,
  claimed_unix_ms = excluded.claimed_unix_ms, ends_unix_ms = excluded.ends_unix_ms
WHERE ojs_hub_key.ends_unix_ms <= excluded.claimed_unix_ms
  OR (ojs_hub_key.state = 'open' AND ojs_hub_key.token = excluded.token AND ojs_hub_key.attempt <= excluded.attempt)
  OR (ojs_hub_key.state = 'free' AND (ojs_hub_key.token <> excluded.token OR ojs_hub_key.attempt < excluded.attempt))
RETURNING 1";

/// A key in any state; one row where the record has it.
const KNOWN: &str = "
SELECT body, greatest(now - claimed_unix_ms, 0), state, status, region, job_id
FROM ojs_hub_key, (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock WHERE name = $1";

pub(super) const PRUNE: &str = "
DELETE FROM ojs_hub_key WHERE ends_unix_ms <= (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint)";

/// One row where the record has it.
const SETTLE: &str = "
INSERT INTO ojs_hub_key (name, body, token, attempt, sidecar, started_unix_ms, state, claimed_unix_ms, ends_unix_ms, status, region, job_id)
SELECT $1, $2, $3, $4, $5, $6, 'stored', now, now + $7, $8, $9, $10
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
ON CONFLICT (name) DO UPDATE SET body = excluded.body, token = excluded.token, attempt = excluded.attempt, sidecar = excluded.sidecar,
  started_unix_ms = excluded.started_unix_ms, state = 'stored', status = excluded.status, region = excluded.region,
  job_id = excluded.job_id, claimed_unix_ms = excluded.claimed_unix_ms, ends_unix_ms = excluded.ends_unix_ms
WHERE ojs_hub_key.ends_unix_ms <= excluded.claimed_unix_ms OR ojs_hub_key.state = 'free' OR ojs_hub_key.token = excluded.token
RETURNING 1";

/// Leaves a mark for a while, so that the claim which this ends takes nothing when it comes later.
const RELEASE: &str = "
INSERT INTO ojs_hub_key (name, body, token, attempt, sidecar, started_unix_ms, state, claimed_unix_ms, ends_unix_ms)
SELECT $1, $2, $3, $4, $5, $6, 'free', now, now + $7
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
ON CONFLICT (name) DO UPDATE SET attempt = excluded.attempt, state = 'free', ends_unix_ms = excluded.ends_unix_ms
WHERE ojs_hub_key.state = 'open' AND ojs_hub_key.token = excluded.token AND ojs_hub_key.attempt <= excluded.attempt";

/// Returns the key as another claim has it.
pub(super) async fn claim(
    line: &Line,
    settings: &PostgresSettings,
    it: &SavedKey,
) -> Result<Option<KnownKey>, RecordError> {
    let numbers = Numbers::of(it, it.ttl_ms);
    for _ in 0..TRIES_MAX {
        if !line.ask(settings, CLAIM, &numbers.values(it)).await?.is_empty() {
            return Ok(None);
        }
        let known = line.ask(settings, KNOWN, &[(&it.key, Type::TEXT)]).await?;
        if let Some(row) = known.first() {
            return Ok(Some(read(row)?));
        }
    }
    Err(RecordError::Contended)
}

/// Returns whether the record has it.
pub(super) async fn settle(
    line: &Line,
    settings: &PostgresSettings,
    it: &SavedKey,
    (status, region, job_id): (u64, String, String),
) -> Result<bool, RecordError> {
    let (numbers, status) = (Numbers::of(it, it.ttl_ms), signed(status));
    let mut values = numbers.values(it).to_vec();
    values.extend([(&status as _, Type::INT8), (&region as _, Type::TEXT), (&job_id as _, Type::TEXT)]);
    Ok(!line.ask(settings, SETTLE, &values).await?.is_empty())
}

pub(super) async fn release(line: &Line, settings: &PostgresSettings, it: &SavedKey) -> Result<(), RecordError> {
    let numbers = Numbers::of(it, RELEASED_FOR_MS);
    line.ask(settings, RELEASE, &numbers.values(it)).await.map(drop)
}

pub(super) async fn is_known(line: &Line, settings: &PostgresSettings, key: &str) -> Result<bool, RecordError> {
    let rows = line.ask(settings, "SELECT 1 FROM ojs_hub_key WHERE name = $1", &[(&key, Type::TEXT)]).await?;
    Ok(!rows.is_empty())
}

/// The numbers of a claim in the server's type.
struct Numbers {
    attempt: i64,
    started: i64,
    ttl: i64,
}

impl Numbers {
    fn of(it: &SavedKey, ttl_ms: u64) -> Self {
        Self { attempt: it.attempt.into(), started: signed(it.started_unix_ms), ttl: signed(ttl_ms) }
    }

    /// The first seven values of each statement.
    fn values<'v>(&'v self, it: &'v SavedKey) -> [Value<'v>; 7] {
        [
            (&it.key, Type::TEXT),
            (&it.body, Type::TEXT),
            (&it.token, Type::TEXT),
            (&self.attempt, Type::INT8),
            (&it.sidecar, Type::TEXT),
            (&self.started, Type::INT8),
            (&self.ttl, Type::INT8),
        ]
    }
}

fn read(row: &Row) -> Result<KnownKey, PostgresError> {
    let rows = std::slice::from_ref(row);
    let is_stored = text(rows, 0, 2)? == "stored";
    let stored = is_stored.then(|| Ok::<_, PostgresError>((number(rows, 0, 3)?, text(rows, 0, 4)?, text(rows, 0, 5)?)));
    Ok(KnownKey { body: text(rows, 0, 0)?, age_ms: number(rows, 0, 1)?, stored: stored.transpose()? })
}
