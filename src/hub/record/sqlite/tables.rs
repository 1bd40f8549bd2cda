//! The tables of a hub's record in SQLite.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::Serialize;

use super::super::super::audit::{AuditRow, Head};
use super::super::content::{RecordError, SavedSidecar, State};
use crate::switch::Version;

/// Says in the file's head that it is a hub's.
const APPLICATION: i64 = 0x4f4a_5348;
/// Names of sidecars and reasons of operators are private.
const MODE: u32 = 0o600;

/// Forward only: the statements at place N bring a file of version N to version N + 1.
const MIGRATIONS: [&str; 18] = [
    "
CREATE TABLE state (
  only_one INTEGER PRIMARY KEY CHECK (only_one = 1), change INTEGER NOT NULL, switches TEXT NOT NULL);
CREATE TABLE audit (
  number INTEGER PRIMARY KEY, unix_ms INTEGER NOT NULL, caller TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL,
  lasts_ms INTEGER, force INTEGER NOT NULL, reason TEXT NOT NULL, ticket TEXT NOT NULL, author TEXT NOT NULL,
  previous TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE sidecar (
  name TEXT PRIMARY KEY, caller TEXT NOT NULL, status TEXT NOT NULL, seen_unix_ms INTEGER NOT NULL);
INSERT INTO state VALUES (1, 0, '[]');
",
    // The name of a state, so that two states with one number are told apart; and the outcomes of the fleet.
    "
ALTER TABLE state ADD COLUMN name TEXT NOT NULL DEFAULT '';
CREATE TABLE report (
  mark INTEGER PRIMARY KEY AUTOINCREMENT, sidecar TEXT NOT NULL, number INTEGER NOT NULL, started_unix_ms INTEGER NOT NULL,
  revision INTEGER NOT NULL, is_open INTEGER NOT NULL, state TEXT NOT NULL, document TEXT NOT NULL,
  received_unix_ms INTEGER NOT NULL, UNIQUE (sidecar, number));
",
    // The holders of fleet limits.
    "CREATE TABLE fleet_limit (region TEXT PRIMARY KEY, version INTEGER NOT NULL, holders TEXT NOT NULL);",
    // Idempotency keys.
    "
CREATE TABLE claimed_key (
  name TEXT PRIMARY KEY, body TEXT NOT NULL, token TEXT NOT NULL, attempt INTEGER NOT NULL, sidecar TEXT NOT NULL,
  started_unix_ms INTEGER NOT NULL, state TEXT NOT NULL, status INTEGER, region TEXT, job_id TEXT,
  claimed_unix_ms INTEGER NOT NULL, ends_unix_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX claimed_key_end ON claimed_key (ends_unix_ms);
",
    // The index of jobs.
    "
CREATE TABLE job_change (
  job_id TEXT NOT NULL, region TEXT NOT NULL, kind TEXT NOT NULL, lease_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL,
  federation_id TEXT, state TEXT, replicated_from TEXT, job TEXT, origin TEXT NOT NULL, learned_ms INTEGER NOT NULL, mark INTEGER NOT NULL,
  PRIMARY KEY (job_id, region, kind, lease_ms, origin)) WITHOUT ROWID;
CREATE INDEX job_change_place ON job_change (origin, mark);
CREATE UNIQUE INDEX job_change_mark ON job_change (mark);
CREATE INDEX job_change_federation ON job_change (federation_id) WHERE federation_id IS NOT NULL;
CREATE INDEX job_change_learned ON job_change (learned_ms);
CREATE TABLE index_place (origin TEXT PRIMARY KEY, epoch TEXT NOT NULL, written INTEGER NOT NULL, mark INTEGER NOT NULL);
CREATE TABLE index_epoch (epoch TEXT NOT NULL, mark INTEGER NOT NULL);
INSERT INTO index_epoch VALUES (lower(hex(randomblob(8))), 0);
",
    // Sealed bodies of jobs. Their total is kept, because a sum over millions of them would hold up all else.
    "
CREATE TABLE job_body (
  mark INTEGER PRIMARY KEY AUTOINCREMENT, job_id TEXT NOT NULL, region TEXT NOT NULL, origin TEXT NOT NULL, federation_id TEXT, permitted TEXT,
  bytes INTEGER NOT NULL, learned_ms INTEGER NOT NULL, sealed BLOB NOT NULL, UNIQUE (job_id, region, origin));
CREATE INDEX job_body_place ON job_body (origin, mark, bytes);
CREATE INDEX job_body_learned ON job_body (learned_ms);
CREATE TABLE body_place (origin TEXT PRIMARY KEY, epoch TEXT NOT NULL, written INTEGER NOT NULL, mark INTEGER NOT NULL);
CREATE TABLE body_key (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), sealed BLOB NOT NULL);
CREATE TABLE body_total (count INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO body_total VALUES (0, 0);
CREATE TRIGGER job_body_added AFTER INSERT ON job_body BEGIN UPDATE body_total SET count = count + 1, bytes = bytes + NEW.bytes; END;
CREATE TRIGGER job_body_dropped AFTER DELETE ON job_body BEGIN UPDATE body_total SET count = count - 1, bytes = bytes - OLD.bytes; END;
",
    // Promotions, and the jobs that their plans are about.
    "
CREATE TABLE promotion (
  id TEXT PRIMARY KEY, version INTEGER NOT NULL, document TEXT NOT NULL, holds TEXT UNIQUE, is_open INTEGER NOT NULL,
  began_ms INTEGER NOT NULL);
CREATE TABLE promotion_job (
  promotion TEXT NOT NULL, job_id TEXT NOT NULL, enqueued_ms INTEGER NOT NULL, step TEXT NOT NULL, why TEXT, detail TEXT,
  sends INTEGER NOT NULL, changed_ms INTEGER NOT NULL, PRIMARY KEY (promotion, job_id)) WITHOUT ROWID;
CREATE INDEX promotion_job_age ON promotion_job (promotion, step, enqueued_ms, job_id);
",
    // The isolations of hubs of other regions.
    "ALTER TABLE state ADD COLUMN taken TEXT NOT NULL DEFAULT '[]';",
    // Tracking ids that several regions have, when each is looked at, and the results for copies of this region. The facts that are there
    // before are not looked at: there may be millions of them.
    "
DROP INDEX job_change_federation;
CREATE INDEX job_change_federation ON job_change (federation_id, region) WHERE federation_id IS NOT NULL;
CREATE TABLE repeated_id (
  federation_id TEXT PRIMARY KEY, noted_ms INTEGER NOT NULL, queued_ms INTEGER, due_ms INTEGER, is_crowd INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX repeated_id_due ON repeated_id (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX repeated_id_noted ON repeated_id (noted_ms) WHERE due_ms IS NULL;
CREATE INDEX repeated_id_queued ON repeated_id (queued_ms) WHERE due_ms IS NOT NULL;
CREATE TABLE conflict (
  job_id TEXT NOT NULL, region TEXT NOT NULL, federation_id TEXT NOT NULL, step TEXT NOT NULL, why TEXT, winner_region TEXT, winner_job TEXT,
  changed_ms INTEGER NOT NULL, PRIMARY KEY (job_id, region)) WITHOUT ROWID;
CREATE INDEX conflict_federation ON conflict (federation_id);
CREATE INDEX conflict_changed ON conflict (changed_ms) WHERE step <> 'cancelling';
CREATE TABLE conflict_place (origin TEXT PRIMARY KEY, written INTEGER NOT NULL, mark INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO conflict_place SELECT origin, 0, max(mark) FROM job_change GROUP BY origin;
",
    // The regions that operators have put.
    "ALTER TABLE state ADD COLUMN regions TEXT NOT NULL DEFAULT '[]';",
    // The pools of workers that operators have put.
    "ALTER TABLE state ADD COLUMN pools TEXT NOT NULL DEFAULT '[]';",
    // Failover drills, and the counts of sidecars in them.
    "
CREATE TABLE drill (
  id TEXT PRIMARY KEY, number INTEGER NOT NULL UNIQUE, version INTEGER NOT NULL, document TEXT NOT NULL, is_open INTEGER NOT NULL,
  began_ms INTEGER NOT NULL);
CREATE UNIQUE INDEX drill_open ON drill (is_open) WHERE is_open;
CREATE TABLE drill_count (
  drill TEXT NOT NULL, sidecar TEXT NOT NULL, started_ms INTEGER NOT NULL, seq INTEGER NOT NULL, document TEXT NOT NULL,
  PRIMARY KEY (drill, sidecar, started_ms)) WITHOUT ROWID;
",
    // The source of a fact that no sidecar has reported.
    "ALTER TABLE job_change ADD COLUMN observed_by TEXT;",
    // The ledger of jobs.
    "
CREATE TABLE ledger_day (
  day INTEGER PRIMARY KEY, rows INTEGER NOT NULL, is_closed INTEGER NOT NULL DEFAULT FALSE, is_dropped INTEGER NOT NULL DEFAULT FALSE,
  head TEXT);
CREATE TABLE ledger_turn (only_one INTEGER PRIMARY KEY CHECK (only_one = 1), change INTEGER NOT NULL);
INSERT INTO ledger_turn VALUES (1, 0);
CREATE TABLE job_history (
  day INTEGER NOT NULL, number INTEGER NOT NULL, job_id TEXT NOT NULL, region TEXT NOT NULL, name TEXT NOT NULL, leaf BLOB NOT NULL, line TEXT,
  UNIQUE (day, number), UNIQUE (job_id, region, name));
CREATE TABLE ledger_job (
  job_id TEXT NOT NULL, region TEXT NOT NULL, tenant TEXT, job_type TEXT, is_bound INTEGER NOT NULL, is_waiting INTEGER NOT NULL,
  enqueued_ms INTEGER NOT NULL, learned_ms INTEGER NOT NULL, document TEXT NOT NULL, PRIMARY KEY (job_id, region));
CREATE INDEX ledger_job_age ON ledger_job (enqueued_ms, job_id, region);
CREATE INDEX ledger_job_tenant ON ledger_job (tenant, enqueued_ms, job_id, region) WHERE tenant IS NOT NULL;
CREATE INDEX ledger_job_learned ON ledger_job (learned_ms);
CREATE INDEX ledger_job_waiting ON ledger_job (job_type, tenant) WHERE is_waiting;
",
    // Replays, and the jobs that they are about.
    "
CREATE TABLE replay (
  id TEXT PRIMARY KEY, version INTEGER NOT NULL, document TEXT NOT NULL, is_open INTEGER NOT NULL, began_ms INTEGER NOT NULL);
CREATE INDEX replay_open ON replay (began_ms, id) WHERE is_open;
CREATE INDEX replay_age ON replay (began_ms, id);
CREATE TABLE replay_job (
  replay TEXT NOT NULL, place INTEGER NOT NULL, job_id TEXT NOT NULL, region TEXT, new_id TEXT, digest TEXT, step TEXT NOT NULL, why TEXT,
  detail TEXT, sends INTEGER NOT NULL, changed_ms INTEGER NOT NULL, PRIMARY KEY (replay, place)) WITHOUT ROWID;
CREATE INDEX replay_job_due ON replay_job (replay, step, changed_ms, place);
",
    // The quotas that operators have put.
    "ALTER TABLE state ADD COLUMN quotas TEXT NOT NULL DEFAULT '{}';",
    // Incidents: breakers of job types, from the trip to the close. Jobs without a tenant have an empty one.
    "
CREATE TABLE incident (
  id TEXT PRIMARY KEY, version INTEGER NOT NULL, job_type TEXT NOT NULL, tenant TEXT NOT NULL, is_open INTEGER NOT NULL,
  opened_ms INTEGER NOT NULL, closed_ms INTEGER, due_ms INTEGER, document TEXT NOT NULL);
CREATE UNIQUE INDEX incident_open ON incident (job_type, tenant) WHERE is_open;
CREATE INDEX incident_age ON incident (opened_ms, id);
CREATE INDEX incident_closed ON incident (closed_ms) WHERE closed_ms IS NOT NULL;
CREATE INDEX incident_due ON incident (due_ms) WHERE due_ms IS NOT NULL;
",
    // Tasks of UWER by their idempotency keys, and the documents that were refused.
    "
CREATE TABLE uwer_task (
  key TEXT PRIMARY KEY, digest TEXT NOT NULL, workflow_id TEXT NOT NULL, origin TEXT NOT NULL, job_id TEXT NOT NULL UNIQUE,
  job_type TEXT NOT NULL, queue TEXT NOT NULL, token TEXT NOT NULL, until_ms INTEGER NOT NULL, region TEXT, claimed_ms INTEGER NOT NULL, stored_ms INTEGER) WITHOUT ROWID;
CREATE INDEX uwer_task_workflow ON uwer_task (workflow_id);
CREATE INDEX uwer_task_stored ON uwer_task (stored_ms) WHERE stored_ms IS NOT NULL;
CREATE INDEX uwer_task_claimed ON uwer_task (claimed_ms) WHERE region IS NULL;
CREATE TABLE uwer_letter (
  id TEXT PRIMARY KEY, first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL, count INTEGER NOT NULL, document TEXT NOT NULL, sealed BLOB);
CREATE INDEX uwer_letter_age ON uwer_letter (first_ms, id);
CREATE INDEX uwer_letter_last ON uwer_letter (last_ms);
",
];

/// Opens a file that no other process holds, and makes its tables where it is new.
pub(super) fn open(path: Option<&Path>) -> Result<Connection, RecordError> {
    let mut connection = match path {
        Some(path) => {
            // A file that cannot be made here is reported when SQLite opens it.
            let _ = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path);
            let _ = std::fs::set_permissions(path, Permissions::from_mode(MODE));
            Connection::open(path)?
        }
        None => Connection::open_in_memory()?,
    };
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if tables > 0 && number("PRAGMA application_id")? != APPLICATION {
        return Err(RecordError::Foreign);
    }
    let version = usize::try_from(number("PRAGMA user_version")?).map_err(|_| RecordError::Later)?;
    if version > MIGRATIONS.len() {
        return Err(RecordError::Later);
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Takes the lock also where there is nothing to make.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)?;
    for statements in MIGRATIONS.iter().skip(version) {
        transaction.execute_batch(statements)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64)?;
    transaction.commit()?;
    Ok(connection)
}

pub(super) fn state(connection: &mut Connection) -> rusqlite::Result<State> {
    let head = connection
        .query_row("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1", [], |row| {
            Ok(Head { number: whole(row, "number")?, hash: row.get("hash")? })
        })
        .optional()?;
    connection.query_row("SELECT change, name, switches, taken, regions, pools, quotas FROM state", [], |row| {
        let wrong = |error: serde_json::Error| {
            rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, error.into())
        };
        let switches = serde_json::from_str(&row.get::<_, String>("switches")?).map_err(wrong)?;
        let taken = serde_json::from_str(&row.get::<_, String>("taken")?).map_err(wrong)?;
        let regions = Arc::new(serde_json::from_str(&row.get::<_, String>("regions")?).map_err(wrong)?);
        let pools = Arc::new(serde_json::from_str(&row.get::<_, String>("pools")?).map_err(wrong)?);
        let quotas = Arc::new(serde_json::from_str(&row.get::<_, String>("quotas")?).map_err(wrong)?);
        let version = Version { name: row.get("name")?, change: whole(row, "change")? };
        Ok(State { version, switches, taken, regions, pools, quotas, head: head.unwrap_or_default() })
    })
}

pub(super) fn sidecars(connection: &mut Connection) -> rusqlite::Result<Vec<SavedSidecar>> {
    let mut statement = connection.prepare("SELECT * FROM sidecar")?;
    let sidecars = statement.query_map([], |row| {
        Ok(SavedSidecar {
            name: row.get("name")?,
            caller: row.get("caller")?,
            status: row.get("status")?,
            seen_unix_ms: whole(row, "seen_unix_ms")?,
        })
    })?;
    sidecars.collect()
}

pub(super) fn change(connection: &mut Connection, to: &State, rows: &[AuditRow]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let [switches, taken] = [in_json(&to.switches)?, in_json(&to.taken)?];
    let [regions, pools, quotas] = [in_json(&*to.regions)?, in_json(&*to.pools)?, in_json(&*to.quotas)?];
    let values = params![signed(to.version.change), to.version.name, switches, taken, regions, pools, quotas];
    let update =
        "UPDATE state SET change = ?1, name = ?2, switches = ?3, taken = ?4, regions = ?5, pools = ?6, quotas = ?7";
    transaction.execute(update, values)?;
    for row in rows {
        let lasts_ms = row.lasts_ms.map(signed);
        transaction.execute(
            "INSERT INTO audit VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)",
            params![
                signed(row.number),
                signed(row.unix_ms),
                row.caller,
                row.action,
                row.subject,
                lasts_ms,
                row.force,
                row.reason,
                row.ticket,
                row.author,
                row.previous,
                row.hash,
            ],
        )?;
    }
    transaction.commit()
}

pub(super) fn audit(connection: &mut Connection, after: u64, max: usize) -> rusqlite::Result<Vec<AuditRow>> {
    let mut statement = connection.prepare("SELECT * FROM audit WHERE number > ?1 ORDER BY number LIMIT ?2")?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![signed(after), max], |row| {
        Ok(AuditRow {
            number: whole(row, "number")?,
            unix_ms: whole(row, "unix_ms")?,
            caller: row.get("caller")?,
            action: row.get("action")?,
            subject: row.get("subject")?,
            lasts_ms: row.get::<_, Option<i64>>("lasts_ms")?.map(unsigned),
            force: row.get("force")?,
            reason: row.get("reason")?,
            ticket: row.get("ticket")?,
            author: row.get("author")?,
            previous: row.get("previous")?,
            hash: row.get("hash")?,
        })
    })?;
    rows.collect()
}

pub(super) fn save_sidecars(
    connection: &mut Connection,
    sidecars: &[SavedSidecar],
    forget_before_unix_ms: u64,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    for SavedSidecar { name, caller, status, seen_unix_ms } in sidecars {
        let values = params![name, caller, status, signed(*seen_unix_ms)];
        transaction.execute("INSERT OR REPLACE INTO sidecar VALUES (?1,?2,?3,?4)", values)?;
    }
    transaction.execute("DELETE FROM sidecar WHERE seen_unix_ms < ?1", [signed(forget_before_unix_ms)])?;
    transaction.commit()
}

fn in_json(document: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(document).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Times and numbers are far below 2^63.
pub(super) fn signed(number: u64) -> i64 {
    debug_assert!(i64::try_from(number).is_ok());
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn whole(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(unsigned(row.get(column)?))
}

/// This program writes no number below 0.
fn unsigned(number: i64) -> u64 {
    debug_assert!(number >= 0);
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_from_before_the_search_for_conflicts_are_not_searched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hub.db");
        let earlier = Connection::open(&path).unwrap();
        MIGRATIONS[..8].iter().for_each(|statements| earlier.execute_batch(statements).unwrap());
        for mark in 1..=3 {
            let fact = "INSERT INTO job_change VALUES (?1, 'eu', 'created', 0, 5, 'f', NULL, NULL, NULL, 'eu', 5, ?1)";
            earlier.execute(fact, [mark]).unwrap();
        }
        earlier.pragma_update(None, "application_id", APPLICATION).unwrap();
        earlier.pragma_update(None, "user_version", 8).unwrap();
        drop(earlier);
        let opened = open(Some(&path)).unwrap();
        let place = opened.query_row("SELECT mark FROM conflict_place WHERE origin = 'eu'", [], |row| row.get(0));
        assert_eq!(place, Ok(3));
    }
}
