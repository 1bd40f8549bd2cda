//! Conflicts in a record in PostgreSQL. Each decision is one statement, by the clock of the server, which all hubs share.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::conflict::{CONFLICT_FACTS_MAX, Conflict, ConflictStep, Conflicts, DueId, Next, RepeatedIds};
use super::super::content::{IndexedChange, PRUNED_AT_ONCE, RecordError};
use super::super::postgres_error::PostgresError;
use super::index;
use super::line::{Line, Value};
use super::values::{number, signed, text};

/// One row where no other hub has them.
const TAKE: &str = "
UPDATE ojs_hub_conflict_turn SET hub = $1, until_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2
WHERE hub = $1 OR until_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The next facts of an origin, and one row for each tracking id among them that was not noted before; one without a job where there is
/// none. Whether an id is in several regions is two looks at an index, which the server takes because of the order of each part. An id that waits keeps its place, so that one which is used again and
/// again is looked at all the same.
const FIND: &str = "
WITH place AS (
  SELECT coalesce(max(written), 0) AS written, coalesce(max(mark), 0) AS mark FROM ojs_hub_conflict_place WHERE origin = $1),
found AS MATERIALIZED (
  SELECT job_id, region, federation_id, written, mark FROM ojs_hub_change
  WHERE origin = $1 AND (written, mark) > ((SELECT written FROM place), (SELECT mark FROM place))
    AND written < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
  ORDER BY written, mark LIMIT $4),
named AS (
  SELECT DISTINCT ON (federation_id) federation_id, job_id, region FROM found WHERE federation_id IS NOT NULL ORDER BY federation_id),
repeated AS MATERIALIZED (
  SELECT federation_id, job_id, region,
    (SELECT true FROM ojs_hub_change AS own WHERE own.federation_id = named.federation_id AND own.region >= $2 AND own.region <= $2
     ORDER BY own.region LIMIT 1) IS NOT NULL AS is_here
  FROM named
  WHERE (SELECT it.region FROM ojs_hub_change AS it WHERE it.federation_id = named.federation_id ORDER BY it.region LIMIT 1)
     <> (SELECT it.region FROM ojs_hub_change AS it WHERE it.federation_id = named.federation_id ORDER BY it.region DESC LIMIT 1)),
clock AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms),
noted AS (
  INSERT INTO ojs_hub_repeated_id AS known (federation_id, noted_ms, queued_ms, due_ms, is_crowd)
  SELECT federation_id, ms, CASE WHEN is_here THEN ms END, CASE WHEN is_here THEN ms + $3 END, false
  FROM repeated, clock ORDER BY federation_id
  ON CONFLICT (federation_id) DO UPDATE SET queued_ms = excluded.queued_ms, due_ms = excluded.due_ms
  WHERE known.due_ms IS NULL AND NOT known.is_crowd AND excluded.due_ms IS NOT NULL),
moved AS (
  INSERT INTO ojs_hub_conflict_place SELECT $1, written, mark FROM found ORDER BY written DESC, mark DESC LIMIT 1
  ON CONFLICT (origin) DO UPDATE SET written = excluded.written, mark = excluded.mark)
SELECT (SELECT count(*) FROM found), new.job_id, new.region FROM (VALUES (1)) AS one LEFT JOIN (
  SELECT job_id, region FROM repeated
  WHERE NOT EXISTS (SELECT 1 FROM ojs_hub_repeated_id AS known WHERE known.federation_id = repeated.federation_id)) AS new ON true";

const DUE: &str = "
SELECT federation_id, greatest(0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - queued_ms), due_ms FROM ojs_hub_repeated_id
WHERE due_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint ORDER BY due_ms, federation_id LIMIT $1";

const PUT_OFF: &str = "
UPDATE ojs_hub_repeated_id SET due_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2, is_crowd = $3
WHERE federation_id = $1 AND due_ms = $4";

/// The facts about the copies with a tracking id, of those of this region first. The order of each part, a range in place of an equality, and
/// the limit for each copy leave the server no way but indexes: an id can be that of most rows, and the table has millions.
const FACTS: &str = "
(
  SELECT 0 AS place, its_job, its_region FROM (
    SELECT job_id AS its_job, region AS its_region FROM ojs_hub_change
    WHERE federation_id = $1 AND region >= $2 AND region <= $2 ORDER BY region LIMIT $3) AS own
  UNION SELECT 1, its_job, its_region FROM (
    SELECT job_id AS its_job, region AS its_region FROM ojs_hub_change WHERE federation_id = $1 AND region < $2 ORDER BY region LIMIT $3) AS smaller
  UNION SELECT 1, its_job, its_region FROM (
    SELECT job_id AS its_job, region AS its_region FROM ojs_hub_change WHERE federation_id = $1 AND region > $2 ORDER BY region LIMIT $3) AS greater
  ORDER BY place, its_region, its_job LIMIT $3
) AS named CROSS JOIN LATERAL (
  SELECT * FROM ojs_hub_change AS fact WHERE fact.job_id = its_job AND fact.region = its_region ORDER BY fact.kind LIMIT $3) AS ojs_hub_change
ORDER BY place, its_region, its_job LIMIT $3";

const SAVE: &str = "
INSERT INTO ojs_hub_conflict AS known (job_id, region, federation_id, step, why, winner_region, winner_job, changed_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
ON CONFLICT (job_id, region) DO UPDATE SET federation_id = excluded.federation_id, step = excluded.step, why = excluded.why,
  winner_region = excluded.winner_region, winner_job = excluded.winner_job, changed_ms = excluded.changed_ms
WHERE known.step = 'cancelling' AND $8 RETURNING 1";

const COLUMNS: &str = "job_id, region, federation_id, step, why, winner_region, winner_job, changed_ms";

/// The greatest number of rows of a kind that were dropped.
const PRUNE: &str = "
WITH noted AS (
  DELETE FROM ojs_hub_repeated_id WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ojs_hub_repeated_id
    WHERE noted_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1 AND due_ms IS NULL ORDER BY noted_ms LIMIT $2))
  RETURNING 1),
waiting AS (
  DELETE FROM ojs_hub_repeated_id WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ojs_hub_repeated_id AS it
    WHERE queued_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1 AND due_ms IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM ojs_hub_conflict AS known WHERE known.federation_id = it.federation_id AND known.step = 'cancelling')
    ORDER BY queued_ms LIMIT $2))
  RETURNING 1),
ended AS (
  DELETE FROM ojs_hub_conflict WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM ojs_hub_conflict
    WHERE changed_ms < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1 AND step <> 'cancelling' ORDER BY changed_ms LIMIT $2))
  RETURNING 1)
SELECT greatest((SELECT count(*) FROM noted), (SELECT count(*) FROM waiting), (SELECT count(*) FROM ended))";

pub(in crate::hub::record) async fn take(
    line: &Line,
    settings: &PostgresSettings,
    hub: &str,
    lasts_ms: u64,
) -> Result<Option<u64>, RecordError> {
    let lasts = signed(lasts_ms);
    let rows = line.ask(settings, TAKE, &[(&hub, Type::TEXT), (&lasts, Type::INT8)]).await?;
    Ok(if rows.is_empty() { None } else { Some(number(&rows, 0, 0)?) })
}

pub(in crate::hub::record) async fn find(
    line: &Line,
    settings: &PostgresSettings,
    (origin, region): (&str, &str),
    due_after_ms: u64,
    max: usize,
) -> Result<RepeatedIds, RecordError> {
    let (due, facts) = (signed(due_after_ms), signed(max as u64));
    let values: [Value<'_>; 4] =
        [(&origin, Type::TEXT), (&region, Type::TEXT), (&due, Type::INT8), (&facts, Type::INT8)];
    let rows = line.ask(settings, FIND, &values).await?;
    let has_more = number(&rows, 0, 0)? >= max as u64;
    let named = rows.iter().map(|row| Ok(Option::zip(may(row, 1)?, may(row, 2)?)));
    let new: Vec<Option<(String, String)>> = named.collect::<Result<_, PostgresError>>()?;
    Ok(RepeatedIds { has_more, new: new.into_iter().flatten().collect() })
}

pub(in crate::hub::record) async fn due(
    line: &Line,
    settings: &PostgresSettings,
    max: usize,
) -> Result<Vec<DueId>, RecordError> {
    let rows = line.ask(settings, DUE, &[(&signed(max as u64), Type::INT8)]).await?;
    let read = |at| {
        let (federation_id, waited_ms) = (text(&rows, at, 0)?, number(&rows, at, 1)?);
        Ok(DueId { federation_id, due_ms: number(&rows, at, 2)?, waited_ms })
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, PostgresError>>()?)
}

pub(in crate::hub::record) async fn put_off(
    line: &Line,
    settings: &PostgresSettings,
    id: &DueId,
    next: Next,
) -> Result<(), RecordError> {
    let after = match next {
        Next::After(ms) => Some(signed(ms)),
        Next::OnFact | Next::Never => None,
    };
    let (is_crowd, due) = (next == Next::Never, signed(id.due_ms));
    let values: [Value<'_>; 4] =
        [(&id.federation_id, Type::TEXT), (&after, Type::INT8), (&is_crowd, Type::BOOL), (&due, Type::INT8)];
    line.ask(settings, PUT_OFF, &values).await.map(drop)
}

pub(in crate::hub::record) async fn facts(
    line: &Line,
    settings: &PostgresSettings,
    federation_id: &str,
    region: &str,
) -> Result<Vec<IndexedChange>, RecordError> {
    let max = signed(CONFLICT_FACTS_MAX as u64);
    let values: [Value<'_>; 3] = [(&federation_id, Type::TEXT), (&region, Type::TEXT), (&max, Type::INT8)];
    index::select(line, settings, FACTS, &values).await
}

/// Whether this hub has the event streams, for so long.
pub(in crate::hub::record) async fn take_events(
    line: &Line,
    settings: &PostgresSettings,
    hub: &str,
    lasts_ms: u64,
) -> Result<bool, RecordError> {
    let take = TAKE.replace("ojs_hub_conflict_turn", "ojs_hub_events_turn");
    let lasts_ms = signed(lasts_ms);
    Ok(!line.ask(settings, &take, &[(&hub, Type::TEXT), (&lasts_ms, Type::INT8)]).await?.is_empty())
}

/// Returns false where the copy has a result, or an order that is not known of.
pub(in crate::hub::record) async fn save(
    line: &Line,
    settings: &PostgresSettings,
    to: &Conflict,
    is_ordered: bool,
) -> Result<bool, RecordError> {
    let step = to.step.as_str();
    let winner_region = to.winner.as_ref().map(|it| it.0.as_str());
    let winner_job = to.winner.as_ref().map(|it| it.1.as_str());
    let values: [Value<'_>; 8] = [
        (&to.job_id, Type::TEXT),
        (&to.region, Type::TEXT),
        (&to.federation_id, Type::TEXT),
        (&step, Type::TEXT),
        (&to.why, Type::TEXT),
        (&winner_region, Type::TEXT),
        (&winner_job, Type::TEXT),
        (&is_ordered, Type::BOOL),
    ];
    Ok(!line.ask(settings, SAVE, &values).await?.is_empty())
}

pub(in crate::hub::record) async fn remove(
    line: &Line,
    settings: &PostgresSettings,
    job_id: &str,
    region: &str,
) -> Result<(), RecordError> {
    let statement = "DELETE FROM ojs_hub_conflict WHERE job_id = $1 AND region = $2 AND step = 'cancelling'";
    line.ask(settings, statement, &[(&job_id, Type::TEXT), (&region, Type::TEXT)]).await.map(drop)
}

pub(in crate::hub::record) async fn of(
    line: &Line,
    settings: &PostgresSettings,
    federation_id: &str,
) -> Result<Conflicts, RecordError> {
    let noted = "SELECT due_ms IS NOT NULL, is_crowd FROM ojs_hub_repeated_id WHERE federation_id = $1";
    let noted = line.ask(settings, noted, &[(&federation_id, Type::TEXT)]).await?;
    let flag = |column| noted.first().map_or(Ok(false), |row| row.try_get(column).map_err(PostgresError::content));
    let select = format!("SELECT {COLUMNS} FROM ojs_hub_conflict WHERE federation_id = $1 LIMIT $2");
    let max = signed(CONFLICT_FACTS_MAX as u64);
    let rows = line.ask(settings, &select, &[(&federation_id, Type::TEXT), (&max, Type::INT8)]).await?;
    let copies = (0..rows.len()).map(|at| read(&rows, at)).collect::<Result<_, _>>()?;
    Ok(Conflicts { copies, is_queued: flag(0)?, is_crowd: flag(1)? })
}

pub(in crate::hub::record) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    older_than_ms: u64,
) -> Result<bool, RecordError> {
    let (age, max) = (signed(older_than_ms), signed(PRUNED_AT_ONCE));
    let dropped = line.ask(settings, PRUNE, &[(&age, Type::INT8), (&max, Type::INT8)]).await?;
    Ok(number(&dropped, 0, 0)? >= PRUNED_AT_ONCE)
}

fn may(row: &Row, column: usize) -> Result<Option<String>, PostgresError> {
    row.try_get(column).map_err(PostgresError::content)
}

fn read(rows: &[Row], at: usize) -> Result<Conflict, PostgresError> {
    let step = ConflictStep::parse(&text(rows, at, 3)?);
    Ok(Conflict {
        job_id: text(rows, at, 0)?,
        region: text(rows, at, 1)?,
        federation_id: text(rows, at, 2)?,
        step: step.ok_or_else(|| PostgresError::content("a step of a later version"))?,
        why: may(&rows[at], 4)?,
        winner: Option::zip(may(&rows[at], 5)?, may(&rows[at], 6)?),
        changed_ms: number(rows, at, 7)?,
    })
}
