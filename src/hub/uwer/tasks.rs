//! Claims of tasks by calls of sidecars, their ends, and the tasks that there are.

use std::rc::Rc;

use serde_json::{Value, json};

use super::super::follow::Failures;
use super::super::keys::in_time;
use super::super::record::{ClaimedTask, TaskClaim};
use super::super::response::Refusal;
use super::super::state::Hub;
use crate::base::RegionId;
use crate::base::text::rfc3339;
use crate::fleet::{TaskClaimed, TaskEnd, TaskRequest};
use crate::ojs::query_value;
use crate::replica::is_text;

/// Tasks of one workflow in an answer.
const TASKS_MAX: u64 = 32;
/// Tasks, claims and letters, of each so many, that one statement drops.
const PRUNED_AT_ONCE: u64 = 1_000;
/// Between two looks for old tasks, and the same while there are more.
const PRUNE_EVERY: (std::time::Duration, std::time::Duration) =
    (std::time::Duration::from_secs(60), std::time::Duration::from_millis(100));

fn read(body: &[u8]) -> Result<TaskRequest, Refusal> {
    let request: TaskRequest = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("expected a claim of a task: {error}")))?;
    request.mistake().map_or(Ok(request), |mistake| Err(Refusal::bad_request(mistake.to_owned())))
}

fn saved(hub: &Hub, request: &TaskRequest) -> TaskClaim {
    TaskClaim {
        key: request.key.clone(),
        digest: request.digest.clone(),
        workflow_id: request.workflow_id.clone(),
        origin: request.origin.clone(),
        job_id: request.job_id.clone(),
        job_type: request.job_type.clone(),
        queue: request.queue.clone(),
        token: request.token.clone(),
        hold_ms: request.hold_ms,
        now_ms: hub.clock.unix_ms(),
    }
}

/// Claims a task for a call of a sidecar; the claim is durable when this returns.
///
/// Errors: 400, 503: it may have been claimed.
pub(super) async fn claim(hub: &Rc<Hub>, body: &[u8]) -> Result<Value, Refusal> {
    let request = read(body)?;
    if request.end.is_some() {
        return Err(Refusal::bad_request("`end`: a claim has none; send it to /v1/hub/uwer/settle".to_owned()));
    }
    let (claim, it) = (saved(hub, &request), Rc::clone(hub));
    let claimed = match in_time(hub, async move { it.record.claim_task(claim).await }).await? {
        ClaimedTask::Taken { job_id, job_type, queue } => TaskClaimed::Taken { job_id, job_type, queue },
        ClaimedTask::Stored { job_id, region } => {
            let region = RegionId::parse(&region).map_err(|_| Refusal::unreadable("the region of the task"))?;
            TaskClaimed::Stored { job_id, region }
        }
        ClaimedTask::Held { left_ms } => TaskClaimed::Held { left_ms },
        ClaimedTask::OtherTask => TaskClaimed::OtherTask,
    };
    Ok(json!(claimed))
}

/// Takes the end of a claim, which is durable when this returns.
///
/// Errors: 400, 503: it may have been taken.
pub(super) async fn settle(hub: &Rc<Hub>, body: &[u8]) -> Result<Value, Refusal> {
    let request = read(body)?;
    let (claim, it) = (saved(hub, &request), Rc::clone(hub));
    let settled = match request.end {
        None => {
            return Err(Refusal::bad_request(
                "`end`: expected `stored` with a region, `released` or `withdrawn`".to_owned(),
            ));
        }
        Some(TaskEnd::Stored(region)) => {
            in_time(hub, async move { it.record.settle_task(claim, region.as_str()).await }).await?
        }
        Some(TaskEnd::Released) => {
            in_time(hub, async move { it.record.release_task(claim).await }).await?;
            true
        }
        Some(TaskEnd::Withdrawn) => {
            in_time(hub, async move { it.record.withdraw_task(claim).await }).await?;
            true
        }
    };
    Ok(json!({ "settled": settled }))
}

/// The tasks of a workflow, or the task of a job. Query: `id=ID`.
///
/// Errors: 400, 503.
pub(super) async fn show(hub: &Hub, query: &str) -> Result<Value, Refusal> {
    let id = query.strip_prefix("id=").filter(|rest| !rest.contains('&')).and_then(query_value);
    let id = id.filter(|id| is_text(id)).ok_or_else(|| {
        Refusal::bad_request(
            "`id`: expected the id of a workflow or of a job, and nothing else in the query".to_owned(),
        )
    })?;
    let tasks = hub.record.tasks(&id.to_ascii_lowercase(), TASKS_MAX).await?;
    let shown = tasks.into_iter().map(|it| {
        json!({
            "workflow_id": it.workflow_id, "idempotency_key": it.key, "origin_service": it.origin, "job_id": it.job_id, "region": it.region,
            "claimed_at": rfc3339(it.claimed_ms), "stored_at": it.stored_ms.map(rfc3339),
        })
    });
    Ok(json!({ "tasks": shown.collect::<Vec<_>>() }))
}

/// Drops tasks and letters behind their time, for ever.
pub(in crate::hub) async fn prune(hub: &Hub) {
    let Some(store) = &hub.uwer else { return std::future::pending().await };
    let retention_ms = u64::try_from(store.settings.retention.as_millis()).unwrap_or(u64::MAX);
    let mut failures = Failures::default();
    loop {
        let pruned = hub.record.prune_tasks(retention_ms, hub.clock.unix_ms(), PRUNED_AT_ONCE).await;
        failures.note(&pruned);
        let has_more = pruned.is_ok_and(|dropped| dropped >= PRUNED_AT_ONCE);
        hub.clock.sleep(if has_more { PRUNE_EVERY.1 } else { PRUNE_EVERY.0 }).await;
    }
}
