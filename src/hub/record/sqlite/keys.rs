//! Idempotency keys in a hub's record in SQLite. Each decision is one statement; a look behind it finds the owner of a key that was not taken.

use rusqlite::{Connection, params};

use super::super::content::{ClaimedKey, KnownKey, RELEASED_FOR_MS, SavedKey, is_late};
use super::tables::{signed, whole};

/// Takes a key that is new, over, released before the claim was sent, or this claim's by an earlier call.
const CLAIM: &str = "
INSERT INTO claimed_key VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'open', NULL, NULL, NULL, ?7, ?8)
ON CONFLICT (name) DO UPDATE SET body = excluded.body, token = excluded.token, attempt = excluded.attempt, sidecar = excluded.sidecar,
  started_unix_ms = excluded.started_unix_ms, state = 'open', status = NULL, region = NULL, job_id = NULL,
  claimed_unix_ms = excluded.claimed_unix_ms, ends_unix_ms = excluded.ends_unix_ms
WHERE claimed_key.ends_unix_ms <= excluded.claimed_unix_ms
  OR (claimed_key.state = 'open' AND claimed_key.token = excluded.token AND claimed_key.attempt <= excluded.attempt)
  OR (claimed_key.state = 'free' AND claimed_key.claimed_unix_ms < ?9)";

const KNOWN: &str = "SELECT * FROM claimed_key WHERE name = ?1";

const SETTLE: &str = "
INSERT INTO claimed_key VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'stored', ?9, ?10, ?11, ?7, ?8)
ON CONFLICT (name) DO UPDATE SET body = excluded.body, token = excluded.token, attempt = excluded.attempt, sidecar = excluded.sidecar,
  started_unix_ms = excluded.started_unix_ms, state = 'stored', status = excluded.status, region = excluded.region,
  job_id = excluded.job_id, claimed_unix_ms = excluded.claimed_unix_ms, ends_unix_ms = excluded.ends_unix_ms
WHERE claimed_key.ends_unix_ms <= excluded.claimed_unix_ms OR claimed_key.state = 'free' OR claimed_key.token = excluded.token";

/// Leaves a mark for a while with the time, so that a claim which was sent before takes nothing when it comes later.
const RELEASE: &str = "
INSERT INTO claimed_key VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'free', NULL, NULL, NULL, ?7, ?8)
ON CONFLICT (name) DO UPDATE SET state = 'free', claimed_unix_ms = excluded.claimed_unix_ms, ends_unix_ms = excluded.ends_unix_ms
WHERE claimed_key.state = 'free'
  OR (claimed_key.state = 'open' AND claimed_key.token = excluded.token AND claimed_key.attempt <= excluded.attempt)";

pub(super) fn claim(connection: &mut Connection, it: &SavedKey) -> rusqlite::Result<ClaimedKey> {
    if is_late(it.sent_unix_ms, it.now_unix_ms) {
        return Ok(ClaimedKey::Late { now_unix_ms: it.now_unix_ms });
    }
    let (started, now, ends) = (signed(it.started_unix_ms), signed(it.now_unix_ms), signed(it.now_unix_ms + it.ttl_ms));
    let values =
        params![it.key, it.body, it.token, it.attempt, it.sidecar, started, now, ends, signed(it.sent_unix_ms)];
    if connection.execute(CLAIM, values)? > 0 {
        return Ok(ClaimedKey::Taken);
    }
    // This thread is the only one that changes the table.
    known(connection, &it.key, it.now_unix_ms).map(ClaimedKey::Known)
}

/// Returns whether the record has it.
pub(super) fn settle(
    connection: &mut Connection,
    it: &SavedKey,
    (status, region, job_id): &(u64, String, String),
) -> rusqlite::Result<bool> {
    let (started, now, ends) = (signed(it.started_unix_ms), signed(it.now_unix_ms), signed(it.now_unix_ms + it.ttl_ms));
    let status = signed(*status);
    let values = params![it.key, it.body, it.token, it.attempt, it.sidecar, started, now, ends, status, region, job_id];
    Ok(connection.execute(SETTLE, values)? > 0)
}

pub(super) fn release(connection: &mut Connection, it: &SavedKey) -> rusqlite::Result<()> {
    let (started, now) = (signed(it.started_unix_ms), signed(it.now_unix_ms));
    let ends = signed(it.now_unix_ms + RELEASED_FOR_MS);
    let values = params![it.key, it.body, it.token, it.attempt, it.sidecar, started, now, ends];
    connection.execute(RELEASE, values).map(drop)
}

/// Returns how many are left.
pub(super) fn prune(connection: &mut Connection, now_unix_ms: u64) -> rusqlite::Result<u64> {
    connection.execute("DELETE FROM claimed_key WHERE ends_unix_ms <= ?1", [signed(now_unix_ms)])?;
    connection.query_row("SELECT count(*) AS count FROM claimed_key", [], |row| whole(row, "count"))
}

pub(super) fn is_known(connection: &Connection, key: &str) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM claimed_key WHERE name = ?1")?.exists([key])
}

/// A key in any state.
fn known(connection: &Connection, key: &str, now_unix_ms: u64) -> rusqlite::Result<KnownKey> {
    connection.query_row(KNOWN, [key], |row| {
        let state: String = row.get("state")?;
        let stored = if state == "stored" {
            Some((whole(row, "status")?, row.get("region")?, row.get("job_id")?))
        } else {
            None
        };
        let body = if state == "free" { None } else { Some(row.get("body")?) };
        Ok(KnownKey { body, age_ms: now_unix_ms.saturating_sub(whole(row, "claimed_unix_ms")?), stored })
    })
}
