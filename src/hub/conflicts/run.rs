//! Looks for conflicts again and again. Of the hubs that share a record one does so at a time.

use std::time::{Duration, Instant};

use super::super::follow::Failures;
use super::super::index::Index;
use super::super::name::random_name;
use super::super::record::{CONFLICT_TURN_MS, RecordError};
use super::super::state::Hub;
use super::confirm::Peers;
use super::discover::{discover, millis};
use super::prepare::prepare;
use super::resolve::Resolver;

/// Between two rounds: a copy that is to be cancelled has waited for longer already.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same while there are facts that were not looked at: requests of sidecars have the record in between.
const CATCH_UP_EVERY: Duration = Duration::from_millis(100);
/// How often results and tracking ids that are too old are dropped.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Portions of these that are dropped between two rounds, of some thousands each; the rest is dropped behind the next round.
const PRUNE_PARTS: u32 = 5;

/// Finds conflicts and resolves them, for ever.
pub(in crate::hub) async fn run(hub: &Hub) {
    let Some(index) = &hub.index else { return std::future::pending().await };
    let (name, peers, mut failures) = (random_name(), Peers::default(), Failures::default());
    prepare(hub, &name, &mut failures).await;
    let mut pruned: Option<Instant> = None;
    loop {
        // Boxed, because it can make connections, which need much room.
        let found = Box::pin(round(hub, index, &name, &peers)).await;
        failures.note(&found);
        if pruned.is_none_or(|at| hub.clock.now().saturating_duration_since(at) >= PRUNE_EVERY) {
            let left = Box::pin(prune(hub, index)).await;
            failures.note(&left);
            pruned = Some(hub.clock.now()).filter(|_| !left.unwrap_or(false));
        }
        hub.clock.sleep(if found.unwrap_or(false) { CATCH_UP_EVERY } else { LOOK_EVERY }).await;
    }
}

/// One round. Returns whether there is more to find at once.
///
/// Errors: all else of the round was done.
async fn round(hub: &Hub, index: &Index, name: &str, peers: &Peers) -> Result<bool, RecordError> {
    if hub.record.take_conflicts(name, CONFLICT_TURN_MS).await?.is_none() {
        return Ok(false);
    }
    let found = discover(hub, index).await;
    // Another hub may have had the turn meanwhile, if that took long.
    let Some(now_ms) = hub.record.take_conflicts(name, CONFLICT_TURN_MS).await? else { return Ok(false) };
    let resolved = Resolver::new(hub, index, peers, now_ms).resolve_due().await;
    Ok(found? | resolved?)
}

/// Drops results and tracking ids that are too old. Returns whether there are more.
async fn prune(hub: &Hub, index: &Index) -> Result<bool, RecordError> {
    for _ in 0..PRUNE_PARTS {
        if !hub.record.prune_conflicts(millis(index.settings.retention)).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
