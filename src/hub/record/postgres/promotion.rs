//! Promotions in a record in PostgreSQL. Each decision is one statement, by the clock of the server, which all hubs share.

use tokio_postgres::types::Type;

use super::super::super::postgres_settings::PostgresSettings;
use super::super::content::{IndexedChange, Kept, PromotionJob, Promotions, RecordError, SavedPromotion, StepCount};
use super::super::postgres_error::PostgresError;
use super::super::step::JobStep;
use super::index;
use super::line::{Line, Value};
use super::values::{number, signed, text};

/// One row at least, with the time.
const ALL: &str = "
SELECT id, version, document, holds, is_open, began_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM (SELECT 1) AS one LEFT JOIN ojs_hub_promotion ON true ORDER BY began_ms, id";

/// One row where the promotion was at the version that the change was made from, and no other one is open of its region.
const CHANGE: &str = "
INSERT INTO ojs_hub_promotion SELECT $1, $2 + 1, $3, $4, $5, $6
WHERE ($2 = 0 OR EXISTS (SELECT 1 FROM ojs_hub_promotion WHERE id = $1))
  AND NOT EXISTS (SELECT 1 FROM ojs_hub_promotion WHERE holds = $4 AND id <> $1)
ON CONFLICT (id) DO UPDATE SET version = excluded.version, document = excluded.document, holds = excluded.holds, is_open = excluded.is_open
WHERE ojs_hub_promotion.version = $2
RETURNING 1";

const ADD: &str = "
INSERT INTO ojs_hub_promotion_job (promotion, job_id, enqueued_ms, step, why, detail, sends, changed_ms)
SELECT $2, job_id, enqueued_ms, step, why, detail, sends, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
FROM json_populate_recordset(NULL::ojs_hub_promotion_job, $1::json)
ON CONFLICT (promotion, job_id) DO NOTHING";

/// The oldest jobs of some steps.
const JOBS: &str = "
SELECT job_id, enqueued_ms, step, why, detail, sends, changed_ms FROM ojs_hub_promotion_job
WHERE promotion = $1 AND step = ANY (string_to_array($2, ',')) AND (enqueued_ms, job_id) > ($3, $4) ORDER BY enqueued_ms, job_id LIMIT $5";

/// One row where the job was at the step that the change was made from, and the promotion at a version, where one is given.
const MOVE: &str = "
UPDATE ojs_hub_promotion_job SET step = $4, why = $5, detail = $6, sends = $7, changed_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE promotion = $1 AND job_id = $2 AND step = $3
  AND ($8 IS NULL OR EXISTS (SELECT 1 FROM ojs_hub_promotion WHERE id = $1 AND version = $8)) RETURNING 1";

const LEAVE: &str = "
UPDATE ojs_hub_promotion_job SET step = 'left', why = $2, changed_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE promotion = $1 AND step = 'planned'";

const RESTORE: &str = "
UPDATE ojs_hub_promotion_job SET step = 'planned', why = NULL, changed_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE promotion = $1 AND step = 'left' AND why = $2";

const COUNTS: &str = "
SELECT step, why, count(*) FROM ojs_hub_promotion_job WHERE promotion = $1 GROUP BY step, why ORDER BY step, why";

const PRUNE: &str = "
WITH dropped AS (DELETE FROM ojs_hub_promotion WHERE NOT is_open AND began_ms < $1 RETURNING id)
DELETE FROM ojs_hub_promotion_job WHERE promotion IN (SELECT id FROM dropped)";

/// The facts about the next jobs of a region, job by job.
const JOBS_OF_REGION: &str = "ojs_hub_change WHERE region = $1 AND job_id IN (
  SELECT DISTINCT job_id FROM ojs_hub_change WHERE region = $1 AND job_id > $2 ORDER BY job_id LIMIT $3) ORDER BY job_id, lease_ms";

pub(in crate::hub::record) async fn all(line: &Line, settings: &PostgresSettings) -> Result<Promotions, RecordError> {
    let rows = line.ask(settings, ALL, &[]).await?;
    let mut found = Promotions { all: Vec::new(), now_ms: number(&rows, 0, 6)? };
    let is_empty = rows.first().is_some_and(|row| matches!(row.try_get::<_, Option<&str>>(0), Ok(None)));
    for at in 0..if is_empty { 0 } else { rows.len() } {
        found.all.push(SavedPromotion {
            id: text(&rows, at, 0)?,
            version: number(&rows, at, 1)?,
            document: text(&rows, at, 2)?,
            holds: rows[at].try_get(3).map_err(PostgresError::content)?,
            is_open: rows[at].try_get(4).map_err(PostgresError::content)?,
            began_ms: number(&rows, at, 5)?,
        });
    }
    Ok(found)
}

pub(in crate::hub::record) async fn change(
    line: &Line,
    settings: &PostgresSettings,
    to: &SavedPromotion,
) -> Result<Kept, RecordError> {
    let (version, began_ms) = (signed(to.version), signed(to.began_ms));
    let values: [Value<'_>; 6] = [
        (&to.id, Type::TEXT),
        (&version, Type::INT8),
        (&to.document, Type::TEXT),
        (&to.holds, Type::TEXT),
        (&to.is_open, Type::BOOL),
        (&began_ms, Type::INT8),
    ];
    let changed = line.ask(settings, CHANGE, &values).await?;
    Ok(if changed.is_empty() { Kept::Behind } else { Kept::Kept })
}

pub(in crate::hub::record) async fn add(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    jobs: &[PromotionJob],
) -> Result<(), RecordError> {
    let rows = serde_json::json!(jobs).to_string();
    line.ask(settings, ADD, &[(&rows, Type::TEXT), (&id, Type::TEXT)]).await.map(drop)
}

pub(in crate::hub::record) async fn jobs(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    steps: &[JobStep],
    after: &(u64, String),
    max: usize,
) -> Result<Vec<PromotionJob>, RecordError> {
    let steps: Vec<&str> = steps.iter().map(|step| step.as_str()).collect();
    let (steps, enqueued_ms, max) = (steps.join(","), signed(after.0), signed(max as u64));
    let values: [Value<'_>; 5] = [
        (&id, Type::TEXT),
        (&steps, Type::TEXT),
        (&enqueued_ms, Type::INT8),
        (&after.1, Type::TEXT),
        (&max, Type::INT8),
    ];
    let rows = line.ask(settings, JOBS, &values).await?;
    let read = |at: usize| {
        let may = |column| rows[at].try_get::<_, Option<String>>(column).map_err(PostgresError::content);
        Ok::<_, PostgresError>(PromotionJob {
            job_id: text(&rows, at, 0)?,
            enqueued_ms: number(&rows, at, 1)?,
            step: text(&rows, at, 2)?,
            why: may(3)?,
            detail: may(4)?,
            sends: number(&rows, at, 5)?,
            changed_ms: number(&rows, at, 6)?,
        })
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn advance(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    from: JobStep,
    to: &PromotionJob,
    version: Option<u64>,
) -> Result<bool, RecordError> {
    let (from, sends, version) = (from.as_str(), signed(to.sends), version.map(signed));
    let values: [Value<'_>; 8] = [
        (&id, Type::TEXT),
        (&to.job_id, Type::TEXT),
        (&from, Type::TEXT),
        (&to.step, Type::TEXT),
        (&to.why, Type::TEXT),
        (&to.detail, Type::TEXT),
        (&sends, Type::INT8),
        (&version, Type::INT8),
    ];
    Ok(!line.ask(settings, MOVE, &values).await?.is_empty())
}

pub(in crate::hub::record) async fn leave(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    why: &str,
) -> Result<(), RecordError> {
    line.ask(settings, LEAVE, &[(&id, Type::TEXT), (&why, Type::TEXT)]).await.map(drop)
}

pub(in crate::hub::record) async fn restore(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
    why: &str,
) -> Result<(), RecordError> {
    line.ask(settings, RESTORE, &[(&id, Type::TEXT), (&why, Type::TEXT)]).await.map(drop)
}

pub(in crate::hub::record) async fn counts(
    line: &Line,
    settings: &PostgresSettings,
    id: &str,
) -> Result<Vec<StepCount>, RecordError> {
    let rows = line.ask(settings, COUNTS, &[(&id, Type::TEXT)]).await?;
    let read = |at: usize| {
        let why = rows[at].try_get::<_, Option<String>>(1).map_err(PostgresError::content)?;
        Ok::<_, PostgresError>((text(&rows, at, 0)?, why, number(&rows, at, 2)?))
    };
    Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
}

pub(in crate::hub::record) async fn prune(
    line: &Line,
    settings: &PostgresSettings,
    before_ms: u64,
) -> Result<(), RecordError> {
    let before = signed(before_ms);
    line.ask(settings, PRUNE, &[(&before, Type::INT8)]).await.map(drop)
}

/// The facts about the next jobs of a region behind one, at most so many jobs, in the order of their ids.
pub(in crate::hub::record) async fn jobs_of_region(
    line: &Line,
    settings: &PostgresSettings,
    region: &str,
    after: &str,
    jobs_max: usize,
) -> Result<Vec<IndexedChange>, RecordError> {
    let max = signed(jobs_max as u64);
    let values: [Value<'_>; 3] = [(&region, Type::TEXT), (&after, Type::TEXT), (&max, Type::INT8)];
    index::select(line, settings, JOBS_OF_REGION, &values).await
}
