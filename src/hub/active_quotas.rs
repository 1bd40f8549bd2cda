//! The use of the quotas that bound the jobs which are active at once.

use serde_json::Value;

use super::limits::Subject;
use super::response::Refusal;
use super::state::Hub;
use crate::policy::{OnHubLoss, Quota};

/// Writes the use of a quota: `active`, the jobs that workers of all sidecars hold by their last reports; `activeGranted`, the slots that sidecars have, taken
/// or not; `activeSidecars`; and `exact`, whether there are never more active jobs than `maxActive`. Returns why not.
///
/// Errors: those of the record.
pub(super) async fn show(hub: &Hub, quota: &Quota, shown: &mut Value) -> Result<Vec<&'static str>, Refusal> {
    let limit = hub.limits.of(&Subject::Quota(quota.key()));
    let holders = match &limit {
        Some(limit) => Some(limit.holders(&hub.record).await?),
        // It was put a moment ago.
        None => None,
    };
    let why = advisory(quota);
    shown["active"] = holders.as_ref().map_or(0, |it| it.held()).into();
    shown["activeGranted"] = holders.as_ref().map_or(0, |it| it.calls()).into();
    shown["activeSidecars"] = holders.as_ref().map_or(0, |it| it.count()).into();
    shown["exact"] = why.is_empty().into();
    Ok(why)
}

/// Why there may be more active jobs of a quota than `maxActive`, although all workers ask by sidecars that follow it.
fn advisory(quota: &Quota) -> Vec<&'static str> {
    let mut why = Vec::new();
    if !quota.bounds_queues() {
        why.push("shared_queues");
    } else if quota.queues.is_empty() {
        why.push("outside_of_shards");
    }
    if quota.on_hub_loss == OnHubLoss::Local {
        why.push("local_without_hub");
    }
    why
}
