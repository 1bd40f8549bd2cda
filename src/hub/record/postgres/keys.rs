//! Idempotency keys in a record in PostgreSQL. Each decision is one statement, by the clock of the server, which all hubs share; a look behind it
//! finds the owner of a key that was not taken.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{CLAIM_AGE_MAX_MS, ClaimedKey, KnownKey, RELEASED_FOR_MS, RecordError, SavedKey, is_late};
use super::super::postgres_error::PostgresError;
use super::line::{Line, Value};
use super::values::{number, signed, text};

/// Tries of a claim while its key is freed between two looks: each needs another hub to claim and free it in between.
const TRIES_MAX: usize = 4;

/// Takes a key that is new, over, released before the claim was sent, or this claim's by an earlier call. One row where it is taken; none
/// for a claim that comes late.
const CLAIM: &str = "
INSERT INTO ojs_hub_key (name, body, token, attempt, sidecar, started_unix_ms, state, claimed_unix_ms, ends_unix_ms)
SELECT $1, $2, $3, $4, $5, $6, 'open', now, now + $7
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock WHERE $8 BETWEEN now - $9 AND now + $9
ON CONFLICT (name) DO UPDATE SET body = excluded.body, token = excluded.token, attempt = excluded.attempt, sidecar = excluded.sidecar,
  started_unix_ms = excluded.started_unix_ms, state = 'open', status = NULL, region = NULL, job_id = NULL,
  claimed_unix_ms = excluded.claimed_unix_ms, ends_unix_ms = excluded.ends_unix_ms
WHERE ojs_hub_key.ends_unix_ms <= excluded.claimed_unix_ms
  OR (ojs_hub_key.state = 'open' AND ojs_hub_key.token = excluded.token AND ojs_hub_key.attempt <= excluded.attempt)
  OR (ojs_hub_key.state = 'free' AND ojs_hub_key.claimed_unix_ms < $8)
RETURNING 1";

/// The time, and a key in any state, whose columns are null where the record does not have it.
const KNOWN: &str = "
SELECT now, state, body, greatest(now - claimed_unix_ms, 0), status, region, job_id
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock LEFT JOIN ojs_hub_key ON name = $1";

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

/// Leaves a mark for a while with the time, so that a claim which was sent before takes nothing when it comes later.
const RELEASE: &str = "
INSERT INTO ojs_hub_key (name, body, token, attempt, sidecar, started_unix_ms, state, claimed_unix_ms, ends_unix_ms)
SELECT $1, $2, $3, $4, $5, $6, 'free', now, now + $7
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now) AS clock
ON CONFLICT (name) DO UPDATE SET state = 'free', claimed_unix_ms = excluded.claimed_unix_ms, ends_unix_ms = excluded.ends_unix_ms
WHERE ojs_hub_key.state = 'free'
  OR (ojs_hub_key.state = 'open' AND ojs_hub_key.token = excluded.token AND ojs_hub_key.attempt <= excluded.attempt)";

pub(super) async fn claim(line: &Line, settings: &PostgresSettings, it: &SavedKey) -> Result<ClaimedKey, RecordError> {
    let (numbers, sent, age) = (Numbers::of(it, it.ttl_ms), signed(it.sent_unix_ms), signed(CLAIM_AGE_MAX_MS));
    let mut values = numbers.values(it).to_vec();
    values.extend([(&sent as _, Type::INT8), (&age as _, Type::INT8)]);
    for _ in 0..TRIES_MAX {
        if !line.ask(settings, CLAIM, &values).await?.is_empty() {
            return Ok(ClaimedKey::Taken);
        }
        let known = line.ask(settings, KNOWN, &[(&it.key, Type::TEXT)]).await?;
        let now_unix_ms = number(&known, 0, 0)?;
        if is_late(it.sent_unix_ms, now_unix_ms) {
            return Ok(ClaimedKey::Late { now_unix_ms });
        }
        if let Some(key) = read(&known)? {
            return Ok(ClaimedKey::Known(key));
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

/// The key in the row of [`KNOWN`].
fn read(rows: &[Row]) -> Result<Option<KnownKey>, PostgresError> {
    let state = rows.first().map_or(Ok(None), |row| row.try_get::<_, Option<String>>(1));
    let Some(state) = state.map_err(PostgresError::content)? else { return Ok(None) };
    let (body, age_ms) = (text(rows, 0, 2)?, number(rows, 0, 3)?);
    let stored =
        if state == "stored" { Some((number(rows, 0, 4)?, text(rows, 0, 5)?, text(rows, 0, 6)?)) } else { None };
    Ok(Some(KnownKey { body: (state != "free").then_some(body), age_ms, stored }))
}
