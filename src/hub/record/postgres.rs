//! The record of several hubs in PostgreSQL, over up to six connections of each hub, and one more while an index is built.
//!
//! Every decision is one statement: safe behind a pooler, and a lost connection leaves nothing half done. A commit waits as long as `synchronous_commit` wants; no statement is cancelled, because the server reports a commit whose wait for a standby was cancelled as durable.

mod bodies;
pub(super) mod conflict;
mod connect;
pub(super) mod drill;
pub(super) mod incident;
pub(super) mod index;
mod keys;
pub(super) mod ledger;
mod limits;
mod line;
pub(super) mod promotion;
pub(super) mod replay;
mod schema;
pub(super) mod search;
mod tls;
pub(super) mod uwer;
mod values;

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::audit::AuditRow;
use super::super::postgres_settings::PostgresSettings;
use super::content::{
    ClaimedKey, IndexPlace, IndexedChange, Kept, OutcomeQuery, Outcomes, REPORTS_MAX, RecordError, ReportsEnd,
    SavedKey, SavedLimit, SavedReport, SavedSidecar, State, StatusPlace, Statuses, Wanted,
};
use super::postgres_error::PostgresError;
use crate::replica::Change;
use crate::switch::Version;
use line::{Line, Value};
use values::{number, signed, state, text};

/// After so long without an answer other hubs may have changed the record unseen.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// How long a change is tried again after a lost connection: its client waits for ten seconds.
const CHANGE_WAIT: Duration = Duration::from_secs(8);
/// Tables are made in less, for no migration reads all rows of one. But each waits for the one of another hub, whose commit may wait for a standby.
const MIGRATION_WAIT: Duration = Duration::from_secs(60);
/// Between two tries.
const RETRY_WAIT: Duration = Duration::from_millis(200);

const NEWER: &str = "
SELECT change, name, switches, number, hash, taken, regions, pools, quotas FROM ojs_hub_state
LEFT JOIN (SELECT number, hash FROM ojs_hub_audit ORDER BY number DESC LIMIT 1) AS head ON true
WHERE name <> $1 OR change <> $2";

/// Moves the state and adds the rows in one statement; the rows are none where the state is another one.
const CHANGE: &str = "
WITH moved AS (
  UPDATE ojs_hub_state SET change = $1, name = $2, switches = $3, taken = $7, regions = $8, pools = $9, quotas = $10
  WHERE change = $4 AND name = $5 RETURNING change),
added AS (
  INSERT INTO ojs_hub_audit SELECT entry.* FROM moved, json_populate_recordset(NULL::ojs_hub_audit, $6::json) AS entry)
SELECT count(*) FROM moved";

/// One row where the state is the present one, or its last row of the trail was kept.
const IS_KEPT: &str = "
SELECT 1 WHERE EXISTS (SELECT 1 FROM ojs_hub_state WHERE name = $1) OR EXISTS (SELECT 1 FROM ojs_hub_audit WHERE hash = $2)";

const AUDIT: &str = "
SELECT row_to_json(entry)::text
FROM (SELECT * FROM ojs_hub_audit WHERE number > $1 ORDER BY number LIMIT $2) AS entry";

const SAVE: &str = "
INSERT INTO ojs_hub_sidecar (name, caller, status, seen_unix_ms, hub)
SELECT name, caller, status, seen_unix_ms, $2 FROM json_populate_recordset(NULL::ojs_hub_sidecar, $1::json)
ON CONFLICT (name) DO UPDATE SET caller = excluded.caller, status = excluded.status, seen_unix_ms = excluded.seen_unix_ms, hub = excluded.hub, written = excluded.written
WHERE ojs_hub_sidecar.seen_unix_ms <= excluded.seen_unix_ms";
const FORGET: &str = "DELETE FROM ojs_hub_sidecar WHERE seen_unix_ms < $1";

/// One row at least, with the first transaction that may still be under way: those before it have committed all that they have written.
const STATUSES: &str = "
SELECT name, caller, status, seen_unix_ms, written, pg_snapshot_xmin(pg_current_snapshot())::text::bigint
FROM (SELECT 1) AS one LEFT JOIN (
  SELECT name, caller, status, seen_unix_ms, written FROM ojs_hub_sidecar
  WHERE (written, name) > ($1, $2) AND hub <> $3 ORDER BY written, name LIMIT $4) AS found ON true";

/// A later report takes the place of an earlier one, with a mark of its own, unless it is the same.
const SAVE_REPORTS: &str = "
INSERT INTO ojs_hub_report (sidecar, number, started_unix_ms, revision, is_open, state, document, received_unix_ms)
SELECT sidecar, number, started_unix_ms, revision, is_open, state, document, received_unix_ms
FROM json_populate_recordset(NULL::ojs_hub_report, $1::json)
ON CONFLICT (sidecar, number) DO UPDATE SET started_unix_ms = excluded.started_unix_ms, revision = excluded.revision,
  is_open = excluded.is_open, state = excluded.state, document = excluded.document, received_unix_ms = excluded.received_unix_ms,
  mark = CASE WHEN (ojs_hub_report.started_unix_ms, ojs_hub_report.revision) = (excluded.started_unix_ms, excluded.revision)
    THEN ojs_hub_report.mark ELSE excluded.mark END
WHERE ojs_hub_report.started_unix_ms <> excluded.started_unix_ms OR ojs_hub_report.revision <= excluded.revision";

const FIND_REPORTS: &str = "
SELECT sidecar, number, started_unix_ms, revision, is_open, state, document, received_unix_ms, mark FROM ojs_hub_report
WHERE ($1 IS NULL OR state = $1) AND ($2 IS NULL OR sidecar = $2) AND ($3 IS NULL OR mark < $3) ORDER BY mark DESC LIMIT $4";

const DROP_OLD_REPORTS: &str =
    "DELETE FROM ojs_hub_report WHERE received_unix_ms < CASE WHEN is_open THEN $2 ELSE $1 END";

const DROP_REPORTS_BEYOND: &str = "
WITH dropped AS (
  DELETE FROM ojs_hub_report WHERE mark <= (SELECT mark FROM ojs_hub_report ORDER BY mark DESC OFFSET $1 LIMIT 1) RETURNING 1)
SELECT count(*) FROM dropped";

/// Statuses that are read at once, of some kilobytes each; the rest comes the next time.
const STATUSES_MAX: i64 = 5_000;

/// A database that several hubs share.
#[derive(Debug)]
pub(in crate::hub) struct Postgres {
    settings: PostgresSettings,
    /// The name of this process among the hubs, random.
    hub: String,
    /// For the state, so that neither statuses nor reports delay it.
    of_state: Line,
    /// For keys, for which calls wait.
    of_keys: Line,
    /// For reports, so that many of them do not delay the inventory, which orders need.
    of_reports: Line,
    /// For the index of jobs, which is written all the time.
    of_index: Line,
    of_bodies: Line,
    /// For everything else.
    of_rest: Line,
    /// When the state was read or changed last.
    answered: Cell<Option<Instant>>,
}

impl Postgres {
    /// A database that is reached at the first request.
    ///
    /// Errors: the files that the settings name cannot be used.
    pub(super) fn new(settings: &PostgresSettings) -> Result<Self, PostgresError> {
        connect::access(settings)?;
        let (settings, hub) = (settings.clone(), super::super::name::random_name());
        let [of_state, of_keys, of_reports, of_index, of_bodies, of_rest]: [Line; 6] = Default::default();
        Ok(Self {
            settings,
            hub,
            of_state,
            of_keys,
            of_reports,
            of_index,
            of_bodies,
            of_rest,
            answered: Cell::new(None),
        })
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.answered.get().is_none_or(|at| at.elapsed() > STUCK_AFTER)
    }

    /// Brings the tables to the version of this program.
    pub(super) async fn migrate(&self) -> Result<(), RecordError> {
        let connected = connect::connect(&self.settings).await?;
        let migrated = tokio::time::timeout(MIGRATION_WAIT, schema::migrate(&connected.client)).await;
        migrated.map_err(|_| RecordError::Slow)?
    }

    pub(super) async fn newer(&self, known: &Version) -> Result<Option<State>, RecordError> {
        let values: [Value<'_>; 2] = [(&known.name, Type::TEXT), (&signed(known.change), Type::INT8)];
        let rows = self.of_state.ask(&self.settings, NEWER, &values).await?;
        let newer = rows.first().map(state).transpose()?;
        // A server that was replaced and came back has the state of then.
        if newer.as_ref().is_some_and(|newer| newer.version.change < known.change) {
            return Err(RecordError::Older);
        }
        self.answered.set(Some(Instant::now()));
        Ok(newer)
    }

    pub(super) async fn change(&self, from: &Version, to: &State, rows: Vec<AuditRow>) -> Result<Kept, RecordError> {
        let has_rows = !rows.is_empty();
        let (switches, rows) = (json!(to.switches).to_string(), json!(rows).to_string());
        let texts = [json!(to.taken), json!(*to.regions), json!(*to.pools), json!(*to.quotas)];
        let [taken, regions, pools, quotas] = texts.map(|it| it.to_string());
        let (change, from_change) = (signed(to.version.change), signed(from.change));
        let values: [Value<'_>; 10] = [
            (&change, Type::INT8),
            (&to.version.name, Type::TEXT),
            (&switches, Type::TEXT),
            (&from_change, Type::INT8),
            (&from.name, Type::TEXT),
            (&rows, Type::TEXT),
            (&taken, Type::TEXT),
            (&regions, Type::TEXT),
            (&pools, Type::TEXT),
            (&quotas, Type::TEXT),
        ];
        let deadline = Instant::now() + CHANGE_WAIT;
        let mut was_lost = false;
        loop {
            match self.of_state.ask(&self.settings, CHANGE, &values).await {
                Ok(moved) if number(&moved, 0, 0)? > 0 => return Ok(Kept::Kept),
                Ok(_) if was_lost && self.is_kept(to, has_rows).await? => return Ok(Kept::Kept),
                Ok(_) => return Ok(Kept::Behind),
                // It was not sent, or the server has refused it.
                Err(error) if !was_lost && !error.leaves_open() => return Err(error),
                Err(error) => {
                    was_lost |= error.leaves_open();
                    if Instant::now() > deadline {
                        return Err(RecordError::Unknown);
                    }
                    tokio::time::sleep(RETRY_WAIT).await;
                }
            }
        }
    }

    /// Whether a state was kept whose answer was lost: it is the present one, or its last row is in the trail.
    async fn is_kept(&self, to: &State, has_rows: bool) -> Result<bool, RecordError> {
        let hash = if has_rows { to.head.hash.as_str() } else { "" };
        let values: [Value<'_>; 2] = [(&to.version.name, Type::TEXT), (&hash, Type::TEXT)];
        let kept = self.of_state.ask(&self.settings, IS_KEPT, &values).await.map_err(|_| RecordError::Unknown)?;
        Ok(!kept.is_empty())
    }

    pub(super) async fn audit(&self, after: u64, max: usize) -> Result<Vec<AuditRow>, RecordError> {
        let (after, max) = (signed(after), i64::try_from(max).unwrap_or(i64::MAX));
        let rows = self.ask(AUDIT, &[(&after, Type::INT8), (&max, Type::INT8)]).await?;
        let read = |place| serde_json::from_str(&text(&rows, place, 0)?).map_err(PostgresError::content);
        Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
    }

    pub(super) async fn save_sidecars(
        &self,
        sidecars: Vec<SavedSidecar>,
        forget_before_unix_ms: u64,
    ) -> Result<(), RecordError> {
        let (sidecars, before) = (json!(sidecars).to_string(), signed(forget_before_unix_ms));
        self.ask(SAVE, &[(&sidecars, Type::TEXT), (&self.hub, Type::TEXT)]).await?;
        self.ask(FORGET, &[(&before, Type::INT8)]).await.map(drop)
    }

    pub(super) async fn save_reports(&self, reports: &[SavedReport]) -> Result<(), RecordError> {
        let reports = json!(reports).to_string();
        self.ask_of_reports(SAVE_REPORTS, &[(&reports, Type::TEXT)]).await.map(drop)
    }

    pub(super) async fn outcomes(&self, query: &OutcomeQuery) -> Result<Outcomes, RecordError> {
        let (before, max) = (query.before.map(signed), i64::try_from(query.max).unwrap_or(i64::MAX));
        let values: [Value<'_>; 4] =
            [(&query.state, Type::TEXT), (&query.sidecar, Type::TEXT), (&before, Type::INT8), (&max, Type::INT8)];
        let found = self.ask_of_reports(FIND_REPORTS, &values).await?;
        let report = |place| {
            let column = |column| text(&found, place, column);
            let whole = |column| number(&found, place, column);
            let is_open = found[place].try_get(4).map_err(PostgresError::content)?;
            let (sidecar, started_unix_ms, received_unix_ms) = (column(0)?, whole(2)?, whole(7)?);
            let (state, document) = (column(5)?, column(6)?);
            let (number, revision) = (whole(1)?, whole(3)?);
            let report =
                SavedReport { sidecar, number, started_unix_ms, revision, is_open, state, document, received_unix_ms };
            Ok::<_, PostgresError>((whole(8)?, report))
        };
        let rows = (0..found.len()).map(report).collect::<Result<_, _>>()?;
        let count = "SELECT state, count(*) FROM ojs_hub_report GROUP BY state ORDER BY state";
        let counted = self.ask_of_reports(count, &[]).await?;
        let count = |place| Ok::<_, PostgresError>((text(&counted, place, 0)?, number(&counted, place, 1)?));
        Ok(Outcomes { rows, counts: (0..counted.len()).map(count).collect::<Result<_, _>>()? })
    }

    pub(super) async fn prune_reports(&self, end: ReportsEnd) -> Result<u64, RecordError> {
        let (closed, open) = (signed(end.closed_before), signed(end.open_before));
        self.ask_of_reports(DROP_OLD_REPORTS, &[(&closed, Type::INT8), (&open, Type::INT8)]).await?;
        let dropped = self.ask_of_reports(DROP_REPORTS_BEYOND, &[(&signed(REPORTS_MAX), Type::INT8)]).await?;
        Ok(number(&dropped, 0, 0)?)
    }

    pub(super) async fn claim_key(&self, claim: &SavedKey) -> Result<ClaimedKey, RecordError> {
        keys::claim(&self.of_keys, &self.settings, claim).await
    }

    pub(super) async fn settle_key(
        &self,
        claim: &SavedKey,
        stored: (u64, String, String),
    ) -> Result<bool, RecordError> {
        keys::settle(&self.of_keys, &self.settings, claim, stored).await
    }

    pub(super) async fn release_key(&self, claim: &SavedKey) -> Result<(), RecordError> {
        keys::release(&self.of_keys, &self.settings, claim).await
    }

    pub(super) async fn has_key(&self, key: &str) -> Result<bool, RecordError> {
        keys::is_known(&self.of_keys, &self.settings, key).await
    }

    pub(super) async fn prune_keys(&self) -> Result<u64, RecordError> {
        self.ask(keys::PRUNE, &[]).await?;
        Ok(number(&self.ask("SELECT count(*) FROM ojs_hub_key", &[]).await?, 0, 0)?)
    }

    pub(super) async fn save_changes(
        &self,
        origin: &str,
        changes: &[Change],
        place: Option<&IndexPlace>,
    ) -> Result<(), RecordError> {
        index::save(&self.of_index, &self.settings, origin, changes, place).await
    }

    pub(super) async fn find_changes(&self, wanted: &Wanted) -> Result<Vec<IndexedChange>, RecordError> {
        index::find(&self.of_index, &self.settings, wanted).await
    }

    pub(super) async fn find_changes_of(
        &self,
        jobs: &[String],
        federation_ids: &[String],
    ) -> Result<Vec<IndexedChange>, RecordError> {
        index::find_of(&self.of_index, &self.settings, jobs, federation_ids).await
    }

    pub(super) async fn changes_behind(
        &self,
        origin: &str,
        after: &IndexPlace,
        max: usize,
    ) -> Result<Vec<IndexedChange>, RecordError> {
        index::behind(&self.of_index, &self.settings, origin, after, max).await
    }

    pub(super) async fn index_place(&self, origin: &str) -> Result<IndexPlace, RecordError> {
        index::place(&self.of_index, &self.settings, origin).await
    }

    pub(super) async fn index_epoch(&self) -> Result<String, RecordError> {
        index::epoch(&self.of_index, &self.settings).await
    }

    pub(super) async fn prune_changes(&self, before_ms: u64, rows_max: u64) -> Result<u64, RecordError> {
        index::prune(&self.of_index, &self.settings, before_ms, rows_max).await
    }

    pub(super) async fn limit(&self, region: &str) -> Result<SavedLimit, RecordError> {
        limits::read(&self.of_rest, &self.settings, region).await
    }

    pub(super) async fn change_limit(&self, region: &str, from: u64, holders: &str) -> Result<Kept, RecordError> {
        limits::change(&self.of_rest, &self.settings, region, from, holders).await
    }

    pub(super) async fn statuses(&self, after: &StatusPlace) -> Result<Statuses, RecordError> {
        let written = signed(after.written);
        let values: [Value<'_>; 4] = [
            (&written, Type::INT8),
            (&after.sidecar, Type::TEXT),
            (&self.hub, Type::TEXT),
            (&STATUSES_MAX, Type::INT8),
        ];
        let rows = self.ask(STATUSES, &values).await?;
        let mut found = Statuses { mark: number(&rows, 0, 5)?, ..Statuses::default() };
        let is_empty = rows.first().is_some_and(|row| matches!(row.try_get::<_, Option<&str>>(0), Ok(None)));
        for place in 0..if is_empty { 0 } else { rows.len() } {
            let (name, caller, status) = (text(&rows, place, 0)?, text(&rows, place, 1)?, text(&rows, place, 2)?);
            found.last = Some(StatusPlace { written: number(&rows, place, 4)?, sidecar: name.clone() });
            found.sidecars.push(SavedSidecar { name, caller, status, seen_unix_ms: number(&rows, place, 3)? });
        }
        if i64::try_from(found.sidecars.len()) != Ok(STATUSES_MAX) {
            found.last = None;
        }
        Ok(found)
    }

    /// The connection for the index of jobs.
    pub(in crate::hub::record) const fn index_line(&self) -> (&Line, &PostgresSettings) {
        (&self.of_index, &self.settings)
    }

    /// The connection for keys, for which calls wait.
    pub(in crate::hub::record) const fn key_line(&self) -> (&Line, &PostgresSettings) {
        (&self.of_keys, &self.settings)
    }

    /// The rows of a statement about reports.
    async fn ask_of_reports(&self, statement: &str, values: &[Value<'_>]) -> Result<Vec<Row>, RecordError> {
        self.of_reports.ask(&self.settings, statement, values).await
    }

    /// The rows of a statement about neither the state nor reports.
    async fn ask(&self, statement: &str, values: &[Value<'_>]) -> Result<Vec<Row>, RecordError> {
        self.of_rest.ask(&self.settings, statement, values).await
    }
}
