//! Looks for conflicts again and again. Of the hubs that share a record one does so at a time.

use std::time::{Duration, Instant};

use super::super::follow::Failures;
use super::super::index::Index;
use super::super::name::random_name;
use super::super::promotion::Regions;
use super::super::record::RecordError;
use super::super::state::Hub;
use super::discover::discover;
use super::resolve::Resolver;

/// Between two rounds: a copy that is to be cancelled has waited for longer already.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a hub has the conflicts before it must say so again. Longer than a round and one copy behind it take. Units: milliseconds.
const TURN_MS: u64 = 60_000;
/// For one answer of the region, connecting included: the decision must not grow old meanwhile.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// How often results that are too old are dropped.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// Finds conflicts and resolves them, for ever.
pub(in crate::hub) async fn run(hub: &Hub) {
    let Some(index) = &hub.index else { return std::future::pending().await };
    let (name, regions, mut failures) = (random_name(), Regions::new(ANSWER_WAIT), Failures::default());
    let mut pruned: Option<Instant> = None;
    loop {
        // Boxed, because it can make connections, which need much room.
        let more = Box::pin(round(hub, index, &name, &regions)).await;
        failures.note(&more);
        if pruned.is_none_or(|at| hub.clock.now().saturating_duration_since(at) >= PRUNE_EVERY) {
            let retention_ms = u64::try_from(index.settings.retention.as_millis()).unwrap_or(u64::MAX);
            failures.note(&hub.record.prune_conflicts(retention_ms).await);
            pruned = Some(hub.clock.now());
        }
        if !more.unwrap_or(false) {
            hub.clock.sleep(LOOK_EVERY).await;
        }
    }
}

/// One round. Returns whether there is more to find at once.
async fn round(hub: &Hub, index: &Index, name: &str, regions: &Regions) -> Result<bool, RecordError> {
    let Some(now_ms) = hub.record.take_conflicts(name, TURN_MS).await? else { return Ok(false) };
    let more = discover(hub, index, index.settings.conflicts_after).await?;
    let resolver = Resolver::new(hub, index, regions, now_ms).await?;
    resolver.resolve_due().await?;
    Ok(more)
}
