//! Finds the tracking ids that several regions have, from the facts as the record gets them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::index::Index;
use super::super::record::{IndexPlace, RecordError};
use super::super::state::Hub;
use crate::telemetry::event;

/// Facts that are looked at in one statement.
const FACTS_AT_ONCE: usize = 1_000;
/// Statements about one origin in a round, so that the copies that are due are looked at in between.
const PARTS_MAX: usize = 10;

/// Looks at the facts of all origins behind the ones of the last time. Returns whether there are more.
///
/// Errors: the same facts are looked at again.
pub(super) async fn discover(hub: &Hub, index: &Index, settle: Duration) -> Result<bool, RecordError> {
    let settings = &index.settings;
    let mut more = false;
    for origin in std::iter::once(&settings.region).chain(settings.from.iter().map(|it| &it.region)) {
        for _ in 0..PARTS_MAX {
            more = part(hub, index, origin.as_str(), settle).await?;
            if !more {
                break;
            }
        }
    }
    Ok(more)
}

/// The name of the place up to which the facts of an origin were looked at. No region has such a name.
fn place_name(origin: &str) -> String {
    format!("conflicts of {origin}")
}

async fn part(hub: &Hub, index: &Index, origin: &str, settle: Duration) -> Result<bool, RecordError> {
    let name = place_name(origin);
    let place = hub.record.index_place(&name).await?;
    let found = hub.record.changes_behind(origin, place, FACTS_AT_ONCE).await?;
    let Some(last) = found.last() else { return Ok(false) };
    let next = IndexPlace { epoch: String::new(), written: last.written, mark: last.mark };
    let is_full = found.len() == FACTS_AT_ONCE;
    let named =
        found.into_iter().filter_map(|it| Some((it.change.federation_id?, (it.change.job_id, it.change.region))));
    let jobs: BTreeMap<_, _> = named.collect();
    if !jobs.is_empty() {
        let ids = jobs.keys().cloned().collect();
        let settle_ms = u64::try_from(settle.as_millis()).unwrap_or(u64::MAX);
        let new = hub.record.note_conflicts(index.settings.region.as_str(), ids, settle_ms).await?;
        for (job_id, region) in new.iter().filter_map(|id| jobs.get(id)) {
            index.conflicts.repeated.set(index.conflicts.repeated.get() + 1);
            event::hub_job_repeated(job_id, region.as_str());
        }
    }
    hub.record.save_changes(&name, Vec::new(), Some(next)).await?;
    Ok(is_full)
}
