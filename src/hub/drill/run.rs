//! Keeps the counts of the last drill, and ends it when it is to end.

use std::time::Duration;

use super::super::drill_desk::Latest;
use super::super::record::RecordError;
use super::super::state::Hub;
use super::ending::{end, keep_counts};
use super::judge::judge;
use crate::base::RegionId;
use crate::policy::Health;
use crate::telemetry::event;

/// How often the record is looked at for drills, and the counts are judged.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a drill that has ended can be looked up. Units: milliseconds.
const KEPT_FOR_MS: u64 = 366 * 24 * 60 * 60 * 1_000;
/// The caller of ends in the audit trail.
const CALLER: &str = "drill";

/// Between two looks for drills that are too old. Units: rounds.
const PRUNE_EVERY: u64 = 3_600;

/// Judges drills, for ever. Hubs that share a record all do; the first one ends a drill.
pub(in crate::hub) async fn run(hub: &Hub) {
    let (mut trouble, mut number) = (None, 0_u64);
    loop {
        // Boxed, because it can make connections, which need much room.
        let why = Box::pin(round(hub, number.is_multiple_of(PRUNE_EVERY))).await.err().map(|error| error.to_string());
        if let Some(why) = why.as_ref().filter(|why| trouble.as_ref() != Some(*why)) {
            event::hub_drill_waits(why);
        }
        (trouble, number) = (why, number.wrapping_add(1));
        hub.clock.sleep(LOOK_EVERY).await;
    }
}

async fn round(hub: &Hub, prunes: bool) -> Result<(), RecordError> {
    let read = hub.record.last_drills().await.map(|all| {
        // The one that is on, else the last one. One of a later version of this program is left to a hub of that version.
        let saved = all.iter().find(|it| it.is_open).or_else(|| all.last());
        if let Some(latest) = saved.and_then(Latest::read) {
            hub.drills.set(latest, hub.clock.now());
        }
    });
    // By the counts in memory: neither a record that does not answer nor one that does not take counts hides a failure.
    let judged = judge_last(hub, read.is_ok()).await;
    read?;
    judged?;
    let Some(latest) = hub.drills.latest() else { return Ok(()) };
    keep_counts(hub, &latest.drill.id).await?;
    if latest.drill.ended.is_none() {
        hub.drills.merge(&latest.drill.id, hub.record.drill_counts(&latest.drill.id).await?);
    }
    if prunes {
        hub.record.prune_drills(hub.clock.unix_ms().saturating_sub(KEPT_FOR_MS)).await?;
    }
    Ok(())
}

/// Ends the last drill where it is to end, and else notes that it goes on. `is_read`: whether the record says that it is on; without that it may be over.
async fn judge_last(hub: &Hub, is_read: bool) -> Result<(), RecordError> {
    let Some(latest) = hub.drills.latest().filter(|it| it.drill.ended.is_none()) else { return Ok(()) };
    let (counts, _) = hub.drills.sum(&latest.drill.id);
    match judge(&latest.drill, &counts, &unhealthy(hub), hub.clock.unix_ms()) {
        Some(cause) => {
            // No sidecar waits for the record.
            hub.drills.judged(false, hub.clock.now());
            end(hub, &latest, cause, CALLER).await.map(drop)
        }
        None => {
            if is_read {
                hub.drills.judged(true, hub.clock.now());
            }
            Ok(())
        }
    }
}

/// The regions that the probes of this hub find unhealthy. One that they know nothing of yet is none of them.
fn unhealthy(hub: &Hub) -> Vec<RegionId> {
    let Some(views) = &hub.views else { return Vec::new() };
    let view = views.present().0;
    view.regions.iter().filter(|it| it.health == Health::Unhealthy).map(|it| it.id.clone()).collect()
}
