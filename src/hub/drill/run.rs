//! Keeps the counts of the last drill, and ends it when it is to end.

use std::time::Duration;

use super::super::drill_desk::Latest;
use super::super::drill_order::Drill;
use super::super::record::RecordError;
use super::super::state::Hub;
use super::ending::{end, keep_counts};
use super::judge::judge;
use crate::base::RegionId;
use crate::telemetry::event;

/// How often the record is looked at for drills, and the counts are judged.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a drill that has ended can be looked up. Units: milliseconds.
const KEPT_FOR_MS: u64 = 366 * 24 * 60 * 60 * 1_000;
/// The caller of ends in the audit trail.
const CALLER: &str = "drill";

/// Judges drills, for ever. Hubs that share a record all do; the first one ends a drill.
pub(in crate::hub) async fn run(hub: &Hub) {
    let mut trouble = None;
    loop {
        // Boxed, because it can make connections, which need much room.
        let why = Box::pin(round(hub)).await.err().map(|error| error.to_string());
        if let Some(why) = why.as_ref().filter(|why| trouble.as_ref() != Some(*why)) {
            event::hub_drill_waits(why);
        }
        trouble = why;
        hub.clock.sleep(LOOK_EVERY).await;
    }
}

async fn round(hub: &Hub) -> Result<(), RecordError> {
    let all = hub.record.drills().await?;
    // The one that is on, else the last one.
    let Some(saved) = all.iter().find(|it| it.is_open).or_else(|| all.last()) else { return Ok(()) };
    let before = hub.clock.unix_ms().saturating_sub(KEPT_FOR_MS);
    if all.first().is_some_and(|it| it.began_ms < before) {
        hub.record.prune_drills(before).await?;
    }
    // One of a later version of this program is left to a hub of that version.
    let Ok(drill) = serde_json::from_str::<Drill>(&saved.document) else { return Ok(()) };
    let (id, latest) = (drill.id.clone(), Latest { drill, version: saved.version });
    hub.drills.set(latest.clone());
    keep_counts(hub, &id).await?;
    if latest.drill.ended.is_some() {
        return Ok(());
    }
    hub.drills.merge(&id, hub.record.drill_counts(&id).await?);
    let (counts, _) = hub.drills.sum(&id);
    if let Some(cause) = judge(&latest.drill, &counts, &unhealthy(hub), hub.clock.unix_ms()) {
        end(hub, &latest, cause, CALLER).await?;
    }
    Ok(())
}

/// The regions that the probes of this hub do not find healthy.
fn unhealthy(hub: &Hub) -> Vec<RegionId> {
    let Some(views) = &hub.views else { return Vec::new() };
    let ids = views.present().0.regions.iter().map(|it| it.id.clone()).collect::<Vec<_>>();
    ids.into_iter().filter(|id| !views.is_healthy(id)).collect()
}
