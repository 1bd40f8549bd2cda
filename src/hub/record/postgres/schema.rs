//! The tables of a record in PostgreSQL.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::super::content::RecordError;
use super::super::postgres_error::PostgresError;

/// Serialises hubs that start at once. Any number does that no other program uses.
const LOCK: i64 = 0x4f4a_5348;

/// Forward only: the statements at place N bring tables of version N to version N + 1.
const MIGRATIONS: [&str; 18] = [
    "
CREATE TABLE ojs_hub_version (version bigint NOT NULL);
INSERT INTO ojs_hub_version VALUES (0);
CREATE TABLE ojs_hub_state (
  only_one integer PRIMARY KEY CHECK (only_one = 1), change bigint NOT NULL, name text NOT NULL, switches text NOT NULL);
INSERT INTO ojs_hub_state VALUES (1, 0, '', '[]');
CREATE TABLE ojs_hub_audit (
  number bigint PRIMARY KEY, unix_ms bigint NOT NULL, caller text NOT NULL, action text NOT NULL, subject text NOT NULL,
  lasts_ms bigint, force boolean NOT NULL, reason text NOT NULL, ticket text NOT NULL, author text NOT NULL,
  previous text NOT NULL, hash text NOT NULL UNIQUE);
CREATE SEQUENCE ojs_hub_mark;
CREATE TABLE ojs_hub_sidecar (
  name text PRIMARY KEY, caller text NOT NULL, status text NOT NULL, seen_unix_ms bigint NOT NULL, hub text NOT NULL,
  mark bigint NOT NULL DEFAULT nextval('ojs_hub_mark'));
CREATE INDEX ojs_hub_sidecar_mark ON ojs_hub_sidecar (mark);
CREATE TABLE ojs_hub_report (
  sidecar text NOT NULL, number bigint NOT NULL, started_unix_ms bigint NOT NULL, revision bigint NOT NULL,
  is_open boolean NOT NULL, state text NOT NULL, document text NOT NULL, received_unix_ms bigint NOT NULL,
  mark bigint NOT NULL DEFAULT nextval('ojs_hub_mark'), PRIMARY KEY (sidecar, number));
CREATE INDEX ojs_hub_report_mark ON ojs_hub_report (mark);
",
    // The holders of fleet limits.
    "
CREATE TABLE ojs_hub_limit (region text PRIMARY KEY, version bigint NOT NULL, holders text NOT NULL);
",
    // Statuses by the transaction that has written them: numbers of a sequence are given before commits, in another order.
    "
ALTER TABLE ojs_hub_sidecar DROP COLUMN mark;
ALTER TABLE ojs_hub_sidecar ADD COLUMN written bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint);
CREATE INDEX ojs_hub_sidecar_written ON ojs_hub_sidecar (written, name);
",
    // Idempotency keys.
    "
CREATE TABLE ojs_hub_key (
  name text PRIMARY KEY, body text NOT NULL, token text NOT NULL, attempt bigint NOT NULL, sidecar text NOT NULL,
  started_unix_ms bigint NOT NULL, state text NOT NULL, status bigint, region text, job_id text,
  claimed_unix_ms bigint NOT NULL, ends_unix_ms bigint NOT NULL);
CREATE INDEX ojs_hub_key_end ON ojs_hub_key (ends_unix_ms);
",
    // The index of jobs. Texts are compared by their bytes, so that every record joins two reports of a fact to the same one.
    "
CREATE TABLE ojs_hub_change (
  job_id text NOT NULL, region text NOT NULL, kind text NOT NULL, lease_ms bigint NOT NULL, at_ms bigint NOT NULL,
  federation_id text COLLATE \"C\", state text COLLATE \"C\", replicated_from text COLLATE \"C\", job text COLLATE \"C\",
  origin text NOT NULL, learned_ms bigint NOT NULL, mark bigint NOT NULL DEFAULT nextval('ojs_hub_mark'),
  written bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
  PRIMARY KEY (job_id, region, kind, lease_ms, origin));
CREATE INDEX ojs_hub_change_place ON ojs_hub_change (origin, written, mark);
CREATE INDEX ojs_hub_change_mark ON ojs_hub_change (mark);
CREATE INDEX ojs_hub_change_federation ON ojs_hub_change (federation_id) WHERE federation_id IS NOT NULL;
CREATE INDEX ojs_hub_change_learned ON ojs_hub_change (learned_ms);
CREATE TABLE ojs_hub_index_place (origin text PRIMARY KEY, epoch text NOT NULL, written bigint NOT NULL, mark bigint NOT NULL);
CREATE TABLE ojs_hub_index_epoch (epoch text NOT NULL);
INSERT INTO ojs_hub_index_epoch VALUES (md5(random()::text || clock_timestamp()::text));
",
    // Sealed bodies of jobs, stored as they are: sealed bytes cannot be compressed. The last index answers for their total without a look at them.
    "
CREATE TABLE ojs_hub_body (
  job_id text NOT NULL, region text NOT NULL, origin text NOT NULL, federation_id text, permitted text, sealed bytea NOT NULL,
  bytes bigint NOT NULL, learned_ms bigint NOT NULL, mark bigint NOT NULL DEFAULT nextval('ojs_hub_mark'),
  written bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint), PRIMARY KEY (job_id, region, origin));
ALTER TABLE ojs_hub_body ALTER COLUMN sealed SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX ojs_hub_body_mark ON ojs_hub_body (mark);
CREATE INDEX ojs_hub_body_order ON ojs_hub_body (origin, written, mark);
CREATE INDEX ojs_hub_body_learned ON ojs_hub_body (learned_ms, mark) INCLUDE (bytes);
CREATE TABLE ojs_hub_body_place (origin text PRIMARY KEY, epoch text NOT NULL, written bigint NOT NULL, mark bigint NOT NULL);
CREATE TABLE ojs_hub_body_key (only_one integer PRIMARY KEY CHECK (only_one = 1), sealed bytea NOT NULL);
",
    // Promotions, and the jobs that their plans are about.
    "
CREATE TABLE ojs_hub_promotion (
  id text PRIMARY KEY, version bigint NOT NULL, document text NOT NULL, holds text UNIQUE, is_open boolean NOT NULL,
  began_ms bigint NOT NULL);
CREATE TABLE ojs_hub_promotion_job (
  promotion text NOT NULL, job_id text NOT NULL, enqueued_ms bigint NOT NULL, step text NOT NULL, why text, detail text,
  sends bigint NOT NULL, changed_ms bigint NOT NULL, PRIMARY KEY (promotion, job_id));
CREATE INDEX ojs_hub_promotion_job_age ON ojs_hub_promotion_job (promotion, step, enqueued_ms, job_id);
",
    // The isolations of hubs of other regions.
    "ALTER TABLE ojs_hub_state ADD COLUMN taken text NOT NULL DEFAULT '[]';",
    // Tracking ids that several regions have, when each is looked at, the results for copies of this region, and the hub that decides about
    // these. The facts that are there before are not looked at, nor read: there may be millions, and earlier hubs go on writing. Those of
    // transactions that are under way are behind the place of their origin, as they are for the search. Its index is built later.
    "
CREATE TABLE ojs_hub_repeated_id (
  federation_id text COLLATE \"C\" PRIMARY KEY, noted_ms bigint NOT NULL, queued_ms bigint, due_ms bigint, is_crowd boolean NOT NULL);
CREATE INDEX ojs_hub_repeated_id_due ON ojs_hub_repeated_id (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX ojs_hub_repeated_id_noted ON ojs_hub_repeated_id (noted_ms) WHERE due_ms IS NULL;
CREATE INDEX ojs_hub_repeated_id_queued ON ojs_hub_repeated_id (queued_ms) WHERE due_ms IS NOT NULL;
CREATE TABLE ojs_hub_conflict (
  job_id text NOT NULL, region text NOT NULL, federation_id text COLLATE \"C\" NOT NULL, step text NOT NULL, why text, winner_region text,
  winner_job text, changed_ms bigint NOT NULL, PRIMARY KEY (job_id, region));
CREATE INDEX ojs_hub_conflict_federation ON ojs_hub_conflict (federation_id);
CREATE INDEX ojs_hub_conflict_changed ON ojs_hub_conflict (changed_ms) WHERE step <> 'cancelling';
CREATE TABLE ojs_hub_conflict_place (origin text PRIMARY KEY, written bigint NOT NULL, mark bigint NOT NULL);
WITH RECURSIVE known AS (
  (SELECT origin FROM ojs_hub_change ORDER BY origin LIMIT 1)
  UNION ALL
  SELECT (SELECT it.origin FROM ojs_hub_change AS it WHERE it.origin > known.origin ORDER BY it.origin LIMIT 1)
  FROM known WHERE known.origin IS NOT NULL)
INSERT INTO ojs_hub_conflict_place
SELECT origin, pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1, 9223372036854775807 FROM known WHERE origin IS NOT NULL;
CREATE TABLE ojs_hub_conflict_turn (only_one integer PRIMARY KEY CHECK (only_one = 1), hub text NOT NULL, until_ms bigint NOT NULL);
INSERT INTO ojs_hub_conflict_turn VALUES (1, '', 0);
",
    // The regions that operators have put.
    "ALTER TABLE ojs_hub_state ADD COLUMN regions text NOT NULL DEFAULT '[]';",
    // The pools of workers that operators have put.
    "ALTER TABLE ojs_hub_state ADD COLUMN pools text NOT NULL DEFAULT '[]';",
    // Failover drills, and the counts of sidecars in them.
    "
CREATE TABLE ojs_hub_drill (
  id text PRIMARY KEY, number bigint NOT NULL UNIQUE, version bigint NOT NULL, document text NOT NULL, is_open boolean NOT NULL,
  began_ms bigint NOT NULL);
CREATE UNIQUE INDEX ojs_hub_drill_open ON ojs_hub_drill (is_open) WHERE is_open;
CREATE TABLE ojs_hub_drill_count (
  drill text NOT NULL, sidecar text NOT NULL, started_ms bigint NOT NULL, seq bigint NOT NULL, document text NOT NULL,
  PRIMARY KEY (drill, sidecar, started_ms));",
    // The source of a fact that no sidecar has reported, which adds no byte to the facts that are there; and the hub that reads event streams.
    "
ALTER TABLE ojs_hub_change ADD COLUMN observed_by text;
CREATE TABLE ojs_hub_events_turn (only_one integer PRIMARY KEY CHECK (only_one = 1), hub text NOT NULL, until_ms bigint NOT NULL);
INSERT INTO ojs_hub_events_turn VALUES (1, '', 0);
",
    // The ledger of jobs.
    "
CREATE TABLE ojs_hub_ledger_day (day bigint PRIMARY KEY, rows bigint NOT NULL, is_closed boolean NOT NULL, is_dropped boolean NOT NULL, head text);
CREATE TABLE ojs_hub_ledger_turn (only_one integer PRIMARY KEY CHECK (only_one = 1), change bigint NOT NULL);
INSERT INTO ojs_hub_ledger_turn VALUES (1, 0);
CREATE TABLE ojs_hub_job_history (
  day bigint NOT NULL, number bigint NOT NULL, job_id text COLLATE \"C\" NOT NULL, region text COLLATE \"C\" NOT NULL,
  name text COLLATE \"C\" NOT NULL, leaf bytea NOT NULL, line text, PRIMARY KEY (day, number), UNIQUE (job_id, region, name));
CREATE TABLE ojs_hub_ledger_job (
  job_id text COLLATE \"C\" NOT NULL, region text COLLATE \"C\" NOT NULL, tenant text COLLATE \"C\", job_type text COLLATE \"C\",
  is_bound boolean NOT NULL, is_waiting boolean NOT NULL, enqueued_ms bigint NOT NULL, learned_ms bigint NOT NULL, document text NOT NULL, PRIMARY KEY (job_id, region));
CREATE INDEX ojs_hub_ledger_job_age ON ojs_hub_ledger_job (enqueued_ms, job_id, region);
CREATE INDEX ojs_hub_ledger_job_tenant ON ojs_hub_ledger_job (tenant, enqueued_ms, job_id, region) WHERE tenant IS NOT NULL;
CREATE INDEX ojs_hub_ledger_job_learned ON ojs_hub_ledger_job (learned_ms);
CREATE INDEX ojs_hub_ledger_job_waiting ON ojs_hub_ledger_job (job_type, tenant) WHERE is_waiting;
",
    // Replays, and the jobs that they are about.
    "
CREATE TABLE ojs_hub_replay (
  id text COLLATE \"C\" PRIMARY KEY, version bigint NOT NULL, document text NOT NULL, is_open boolean NOT NULL, began_ms bigint NOT NULL);
CREATE INDEX ojs_hub_replay_open ON ojs_hub_replay (began_ms, id) WHERE is_open;
CREATE INDEX ojs_hub_replay_age ON ojs_hub_replay (began_ms, id);
CREATE TABLE ojs_hub_replay_job (
  replay text NOT NULL, place bigint NOT NULL, job_id text NOT NULL, region text, new_id text, digest text, step text NOT NULL, why text,
  detail text, sends bigint NOT NULL, changed_ms bigint NOT NULL, PRIMARY KEY (replay, place));
CREATE INDEX ojs_hub_replay_job_due ON ojs_hub_replay_job (replay, step, changed_ms, place);
",
    // The quotas that operators have put.
    "ALTER TABLE ojs_hub_state ADD COLUMN quotas text NOT NULL DEFAULT '{}';",
    // Incidents: breakers of job types, from the trip to the close; and the ends of jobs that each hub has heard of.
    "
CREATE TABLE ojs_hub_incident (
  id text COLLATE \"C\" PRIMARY KEY, version bigint NOT NULL, job_type text NOT NULL, tenant text NOT NULL, is_open boolean NOT NULL,
  opened_ms bigint NOT NULL, closed_ms bigint, due_ms bigint, document text NOT NULL);
CREATE UNIQUE INDEX ojs_hub_incident_open ON ojs_hub_incident (job_type, tenant) WHERE is_open;
CREATE INDEX ojs_hub_incident_age ON ojs_hub_incident (opened_ms, id);
CREATE INDEX ojs_hub_incident_closed ON ojs_hub_incident (closed_ms) WHERE closed_ms IS NOT NULL;
CREATE INDEX ojs_hub_incident_due ON ojs_hub_incident (due_ms) WHERE due_ms IS NOT NULL;
CREATE TABLE ojs_hub_type_end (
  hub text NOT NULL, job_type text NOT NULL, tenant text NOT NULL, from_ms bigint NOT NULL, succeeded bigint NOT NULL, failed bigint NOT NULL,
  jobs text NOT NULL, PRIMARY KEY (hub, job_type, tenant, from_ms));
CREATE INDEX ojs_hub_type_end_age ON ojs_hub_type_end (from_ms);
",
    // Tasks of UWER by their idempotency keys, and the documents that were refused.
    "
CREATE TABLE ojs_hub_uwer_task (
  key text COLLATE \"C\" PRIMARY KEY, digest text NOT NULL, workflow_id text NOT NULL, origin text NOT NULL, job_id text NOT NULL UNIQUE,
  job_type text NOT NULL, queue text NOT NULL, token text NOT NULL, until_ms bigint NOT NULL, region text, claimed_ms bigint NOT NULL, stored_ms bigint);
CREATE INDEX ojs_hub_uwer_task_workflow ON ojs_hub_uwer_task (workflow_id);
CREATE INDEX ojs_hub_uwer_task_stored ON ojs_hub_uwer_task (stored_ms) WHERE stored_ms IS NOT NULL;
CREATE INDEX ojs_hub_uwer_task_claimed ON ojs_hub_uwer_task (claimed_ms) WHERE region IS NULL;
CREATE TABLE ojs_hub_uwer_letter (
  id text COLLATE \"C\" PRIMARY KEY, first_ms bigint NOT NULL, last_ms bigint NOT NULL, count bigint NOT NULL, document text NOT NULL, sealed bytea);
CREATE INDEX ojs_hub_uwer_letter_age ON ojs_hub_uwer_letter (first_ms, id);
CREATE INDEX ojs_hub_uwer_letter_last ON ojs_hub_uwer_letter (last_ms);
",
];

/// Another hub may make the tables for longer than other statements wait for a lock. Shorter than [`super::MIGRATION_WAIT`]: the server then
/// ends the wait, and leaves no session behind for each try.
const WAIT_FOR_ANOTHER_HUB: &str = "SET LOCAL lock_timeout = '50s'";
/// A transaction that stays open, such as a backup, holds a lock on a table that is changed. Hubs of an earlier version queue behind the change,
/// for less than they wait for an answer; it is tried again.
const WAIT_FOR_TABLES: &str = "SET LOCAL lock_timeout = '2s'";

/// One row where the tables exist. Reads the rows of the catalog: `to_regclass` may answer from a cache of the time before the lock.
const HAS_TABLES: &str = "
SELECT 1 FROM pg_catalog.pg_tables WHERE tablename = 'ojs_hub_version' AND schemaname = ANY (current_schemas(false)) LIMIT 1";

/// Whether the tables are those of this program.
///
/// Errors: [`RecordError::Later`], [`RecordError::Earlier`], or the database's.
pub(super) async fn check(client: &Client) -> Result<(), RecordError> {
    if version(client).await? < MIGRATIONS.len() { Err(RecordError::Earlier) } else { Ok(()) }
}

/// Brings the tables to the version of this program, where they are of an earlier one; one hub at a time.
///
/// Errors: [`RecordError::Later`], or the database's; nothing was changed.
pub(super) async fn migrate(client: &Client) -> Result<(), RecordError> {
    if version(client).await? == MIGRATIONS.len() {
        return Ok(());
    }
    let changed = client.batch_execute("BEGIN");
    changed.await.map_err(PostgresError::migration)?;
    client.batch_execute(WAIT_FOR_ANOTHER_HUB).await.map_err(PostgresError::migration)?;
    let migrated = migrate_locked(client).await;
    let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch_execute(end).await.map_err(PostgresError::migration);
    migrated.and_then(|()| Ok(ended?))
}

async fn migrate_locked(client: &Client) -> Result<(), RecordError> {
    let locked = client.query_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, Type::INT8)]);
    locked.await.map_err(PostgresError::migration)?;
    client.batch_execute(WAIT_FOR_TABLES).await.map_err(PostgresError::migration)?;
    let version = version(client).await?;
    let missing: String = MIGRATIONS.iter().skip(version).copied().collect();
    let reached = format!("UPDATE ojs_hub_version SET version = {}", MIGRATIONS.len());
    Ok(client.batch_execute(&format!("{missing};{reached}")).await.map_err(PostgresError::migration)?)
}

/// The version of the tables; 0 where there are none.
async fn version(client: &Client) -> Result<usize, RecordError> {
    let found = async {
        if client.query_typed(HAS_TABLES, &[]).await?.is_empty() {
            return Ok(0);
        }
        let rows = client.query_typed("SELECT version FROM ojs_hub_version", &[]).await?;
        rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))
    };
    let version = found.await.map_err(PostgresError::Server)?;
    let version = usize::try_from(version).map_err(|_| RecordError::Later)?;
    if version > MIGRATIONS.len() { Err(RecordError::Later) } else { Ok(version) }
}
