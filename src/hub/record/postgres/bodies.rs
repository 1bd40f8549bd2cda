//! The bodies of jobs in a record in PostgreSQL, by the transaction that has written them, as the facts of the index.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::body::{BODIES_PRUNED_AT_ONCE, BodiesBehind, BodiesEnd, BodiesLeft, PlacedBody, SavedBody};
use super::super::content::{IndexPlace, RecordError};
use super::super::postgres_error::PostgresError;
use super::Postgres;
use super::line::Value;
use super::values::{number, signed, text};
use crate::replica::Reach;

/// Whether a fact says that the copy of a row of this table has ended.
macro_rules! has_ended {
    ($table:literal) => {
        concat!(
            "EXISTS (SELECT 1 FROM ojs_hub_change AS o WHERE (o.job_id, o.region) = (",
            $table,
            ".job_id, ",
            $table,
            ".region)
  AND (o.kind IN ('completed', 'cancelled') OR o.state IN ('completed', 'cancelled', 'discarded')))"
        )
    };
}

/// The regions that both the known row and the new one permit.
macro_rules! both_permit {
    () => {
        "CASE WHEN known.permitted IS NULL THEN excluded.permitted WHEN excluded.permitted IS NULL THEN known.permitted ELSE (
    SELECT coalesce(string_agg(id, ' ' ORDER BY id COLLATE \"C\"), '') FROM (
      SELECT unnest(string_to_array(known.permitted, ' ')) INTERSECT SELECT unnest(string_to_array(excluded.permitted, ' '))) AS both_permit (id)) END"
    };
}

/// Keeps bodies of jobs that have not ended, each once, and the place of the source. Sorted, so that two hubs which write the same bodies
/// wait for each other in one order.
const SAVE: &str = concat!(
    "
WITH added AS (
  INSERT INTO ojs_hub_body AS known (job_id, region, origin, federation_id, permitted, sealed, bytes, learned_ms)
  SELECT job_id, region, $6, federation_id, permitted, sealed, length(sealed), (extract(epoch FROM clock_timestamp()) * 1000)::bigint
  FROM unnest($1, $2, $3, $4, $5) AS reported (job_id, region, federation_id, permitted, sealed)
  WHERE NOT ",
    has_ended!("reported"),
    " ORDER BY job_id, region
  ON CONFLICT (job_id, region, origin) DO UPDATE SET permitted = ",
    both_permit!(),
    "
  WHERE ",
    both_permit!(),
    " IS DISTINCT FROM known.permitted)
INSERT INTO ojs_hub_body_place SELECT $6, $7, $8, $9 WHERE $7 IS NOT NULL
ON CONFLICT (origin) DO UPDATE SET epoch = excluded.epoch, written = excluded.written, mark = excluded.mark
WHERE ojs_hub_body_place.epoch <> excluded.epoch
  OR (ojs_hub_body_place.written, ojs_hub_body_place.mark) < (excluded.written, excluded.mark)"
);

const BEHIND: &str = concat!(
    "
SELECT job_id, region, federation_id, permitted, sealed, written, mark,
  EXISTS (SELECT 1 FROM ojs_hub_change AS o WHERE (o.job_id, o.region) = (ojs_hub_body.job_id, ojs_hub_body.region) AND o.replicated_from IS NOT NULL)
FROM ojs_hub_body JOIN (
  SELECT mark, sum(bytes) OVER (ORDER BY written, mark) - bytes AS before FROM (
    SELECT written, mark, bytes FROM ojs_hub_body
    WHERE origin = $1 AND (written, mark) > ($2, $3) AND written < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
      AND NOT ",
    has_ended!("ojs_hub_body"),
    " ORDER BY written, mark LIMIT $4) AS next) AS next USING (mark)
WHERE before < $5 ORDER BY written, mark"
);

const FIND: &str = concat!(
    "SELECT job_id, region, federation_id, permitted, sealed FROM ojs_hub_body WHERE job_id = $1 AND region = $2 AND NOT ",
    has_ended!("ojs_hub_body"),
    " ORDER BY origin LIMIT 1"
);

const HAVING: &str = concat!(
    "SELECT DISTINCT job_id, region FROM ojs_hub_body JOIN unnest($1, $2) AS copy (job_id, region) USING (job_id, region) WHERE NOT ",
    has_ended!("ojs_hub_body")
);

const KEY_TRIES: usize = 3;

const KEY_CHECK: &str = "
WITH added AS (INSERT INTO ojs_hub_body_key VALUES (1, $1) ON CONFLICT (only_one) DO NOTHING RETURNING sealed)
SELECT sealed FROM added UNION ALL SELECT sealed FROM ojs_hub_body_key";

/// Drops those that are too old, and those that were written beside the end of their job.
const DROP_OLD: &str = concat!(
    "
WITH dropped AS (
  DELETE FROM ojs_hub_body WHERE ctid = ANY (ARRAY(
    (SELECT ctid FROM ojs_hub_body WHERE learned_ms < $1 LIMIT $3)
    UNION ALL (SELECT ctid FROM ojs_hub_body WHERE learned_ms >= $2 AND ",
    has_ended!("ojs_hub_body"),
    " LIMIT $3))) RETURNING 1)
SELECT count(*) FROM dropped"
);

const TOTAL: &str = "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM ojs_hub_body";

const DROP_BEYOND: &str = "
WITH dropped AS (
  DELETE FROM ojs_hub_body WHERE mark = ANY (ARRAY(
    SELECT mark FROM (
      SELECT mark, sum(bytes) OVER (ORDER BY learned_ms, mark) - bytes AS before
      FROM (SELECT learned_ms, mark, bytes FROM ojs_hub_body ORDER BY learned_ms, mark LIMIT $2) AS oldest) AS oldest
    WHERE before < $1)) RETURNING bytes)
SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM dropped";

impl Postgres {
    pub(in crate::hub::record) async fn save_bodies(
        &self,
        origin: &str,
        bodies: &[SavedBody],
        place: Option<&IndexPlace>,
    ) -> Result<(), RecordError> {
        let texts = |of: fn(&SavedBody) -> &str| bodies.iter().map(of).collect::<Vec<_>>();
        let (jobs, regions) = (texts(|it| &it.job_id), texts(|it| &it.region));
        let federation_ids: Vec<Option<&str>> = bodies.iter().map(|it| it.federation_id.as_deref()).collect();
        let permitted: Vec<Option<String>> = bodies.iter().map(|it| it.reach.text()).collect();
        let sealed: Vec<&[u8]> = bodies.iter().map(|it| &it.sealed[..]).collect();
        let epoch = place.map(|it| it.epoch.as_str());
        let (written, mark) = (place.map(|it| signed(it.written)), place.map(|it| signed(it.mark)));
        let values: [Value<'_>; 9] = [
            (&jobs, Type::TEXT_ARRAY),
            (&regions, Type::TEXT_ARRAY),
            (&federation_ids, Type::TEXT_ARRAY),
            (&permitted, Type::TEXT_ARRAY),
            (&sealed, Type::BYTEA_ARRAY),
            (&origin, Type::TEXT),
            (&epoch, Type::TEXT),
            (&written, Type::INT8),
            (&mark, Type::INT8),
        ];
        self.of_bodies.ask(&self.settings, SAVE, &values).await.map(drop)
    }

    pub(in crate::hub::record) async fn bodies_behind(
        &self,
        origin: &str,
        asked: &BodiesBehind,
    ) -> Result<Vec<PlacedBody>, RecordError> {
        let (written, mark) = (signed(asked.after.written), signed(asked.after.mark));
        let (rows_max, bytes_max) = (signed(asked.rows_max as u64), signed(asked.bytes_max as u64));
        let values: [Value<'_>; 5] = [
            (&origin, Type::TEXT),
            (&written, Type::INT8),
            (&mark, Type::INT8),
            (&rows_max, Type::INT8),
            (&bytes_max, Type::INT8),
        ];
        let rows = self.of_bodies.ask(&self.settings, BEHIND, &values).await?;
        let read = |at: usize| {
            let is_replica = rows[at].try_get(7).map_err(PostgresError::content)?;
            let (written, mark) = (number(&rows, at, 5)?, number(&rows, at, 6)?);
            Ok::<_, PostgresError>(PlacedBody { body: saved(&rows, at)?, written, mark, is_replica })
        };
        Ok((0..rows.len()).map(read).collect::<Result<_, _>>()?)
    }

    pub(in crate::hub::record) async fn body(
        &self,
        job_id: &str,
        region: &str,
    ) -> Result<Option<SavedBody>, RecordError> {
        let rows = self.of_bodies.ask(&self.settings, FIND, &[(&job_id, Type::TEXT), (&region, Type::TEXT)]).await?;
        if rows.is_empty() { Ok(None) } else { Ok(Some(saved(&rows, 0)?)) }
    }

    pub(in crate::hub::record) async fn having_bodies(
        &self,
        copies: &[(String, String)],
    ) -> Result<Vec<(String, String)>, RecordError> {
        let (jobs, regions): (Vec<&str>, Vec<&str>) =
            copies.iter().map(|(job, region)| (&job[..], &region[..])).unzip();
        let rows = self
            .of_bodies
            .ask(&self.settings, HAVING, &[(&jobs, Type::TEXT_ARRAY), (&regions, Type::TEXT_ARRAY)])
            .await?;
        let copy = |at| Ok::<_, PostgresError>((text(&rows, at, 0)?, text(&rows, at, 1)?));
        Ok((0..rows.len()).map(copy).collect::<Result<_, _>>()?)
    }

    pub(in crate::hub::record) async fn bodies_place(&self, origin: &str) -> Result<IndexPlace, RecordError> {
        let select = "SELECT epoch, written, mark FROM ojs_hub_body_place WHERE origin = $1";
        let rows = self.of_bodies.ask(&self.settings, select, &[(&origin, Type::TEXT)]).await?;
        if rows.is_empty() {
            return Ok(IndexPlace::default());
        }
        Ok(IndexPlace { epoch: text(&rows, 0, 0)?, written: number(&rows, 0, 1)?, mark: number(&rows, 0, 2)? })
    }

    pub(in crate::hub::record) async fn bodies_key_check(&self, sealed: &[u8]) -> Result<Vec<u8>, RecordError> {
        // A second time only where another hub has written the word since the first one began.
        for _ in 0..KEY_TRIES {
            let rows = self.of_bodies.ask(&self.settings, KEY_CHECK, &[(&sealed, Type::BYTEA)]).await?;
            if let Some(row) = rows.first() {
                return Ok(row.try_get(0).map_err(PostgresError::content)?);
            }
        }
        Err(RecordError::Contended)
    }

    pub(in crate::hub::record) async fn prune_bodies(&self, end: BodiesEnd) -> Result<BodiesLeft, RecordError> {
        let (before, raced, most) = (signed(end.before_ms), signed(end.raced_since_ms), signed(BODIES_PRUNED_AT_ONCE));
        let values: [Value<'_>; 3] = [(&before, Type::INT8), (&raced, Type::INT8), (&most, Type::INT8)];
        let aged = number(&self.of_bodies.ask(&self.settings, DROP_OLD, &values).await?, 0, 0)?;
        let total = self.of_bodies.ask(&self.settings, TOTAL, &[]).await?;
        let (mut count, mut bytes, mut dropped) = (number(&total, 0, 0)?, number(&total, 0, 1)?, 0);
        if bytes > end.bytes_max {
            let excess = signed(bytes - end.bytes_max);
            let rows =
                self.of_bodies.ask(&self.settings, DROP_BEYOND, &[(&excess, Type::INT8), (&most, Type::INT8)]).await?;
            dropped = number(&rows, 0, 0)?;
            (count, bytes) = (count.saturating_sub(dropped), bytes.saturating_sub(number(&rows, 0, 1)?));
        }
        let more = aged >= BODIES_PRUNED_AT_ONCE || bytes > end.bytes_max;
        Ok(BodiesLeft { count, bytes, dropped, more })
    }
}

fn saved(rows: &[Row], at: usize) -> Result<SavedBody, PostgresError> {
    let may = |column| rows[at].try_get::<_, Option<String>>(column).map_err(PostgresError::content);
    let reach = Reach::of_text(may(3)?.as_deref());
    Ok(SavedBody {
        job_id: text(rows, at, 0)?,
        region: text(rows, at, 1)?,
        federation_id: may(2)?,
        reach: reach.ok_or_else(|| PostgresError::content("regions of a later version"))?,
        sealed: rows[at].try_get(4).map_err(PostgresError::content)?,
    })
}
