//! Finds the tracking ids that several regions have, from the facts as the record gets them.

use std::time::Duration;

use super::super::index::Index;
use super::super::record::RecordError;
use super::super::state::Hub;
use crate::telemetry::event;

/// Facts that are looked at in one statement. Each costs three looks at an index, so that a file is held for some milliseconds.
const FACTS_AT_ONCE: usize = 1_000;
/// Statements about one origin in a round, so that the copies that are due are looked at in between.
const PARTS_MAX: usize = 10;

/// Looks at the facts of all origins behind the ones of the last time. Returns whether there are more.
///
/// Errors: the facts of the other origins were looked at all the same; those of this one are looked at again.
pub(super) async fn discover(hub: &Hub, index: &Index) -> Result<bool, RecordError> {
    let settings = &index.settings;
    let (mut has_more, mut failed) = (false, None);
    for origin in std::iter::once(&settings.region).chain(settings.from.iter().map(|it| &it.region)) {
        match of_origin(hub, index, origin.as_str()).await {
            Ok(more) => has_more |= more,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(has_more), Err)
}

async fn of_origin(hub: &Hub, index: &Index, origin: &str) -> Result<bool, RecordError> {
    for _ in 0..PARTS_MAX {
        let region = index.settings.region.as_str();
        let due_after_ms = millis(index.settings.conflicts_after);
        let found = hub.record.find_repeated(origin, region, due_after_ms, FACTS_AT_ONCE).await?;
        for (job_id, region) in &found.new {
            index.conflicts.repeated.set(index.conflicts.repeated.get() + 1);
            event::hub_job_repeated(job_id, region);
        }
        if !found.has_more {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Units: milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
