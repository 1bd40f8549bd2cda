//! An order to run one job again: it is carried out while its client waits, and by the runner where that takes too long.

use http::StatusCode;
use serde_json::{Value, json};

use super::super::access::Caller;
use super::super::name::random_name;
use super::super::record::{Kept, OPEN_REPLAYS_MAX, RecordError, ReplayJob, ReplayStep};
use super::super::response::{OUTCOME_UNKNOWN, Refusal};
use super::super::state::Hub;
use super::carry::{Carrier, Tried, explained};
use super::digest::{differs, digest_of, expected_by_ledger};
use super::document::{Replay, read_replay, shown_job, waiting};
use super::ending::{finish, note, unnoted};
use super::order::{ReplayOrder, read_single};
use super::owner::{Owner, find, picked, reached};
use crate::base::RegionId;
use crate::ojs::Original;
use crate::telemetry::event;

/// Takes an order; see `order`. Shape of the answer: `{"replay": ORDER, "job": ROW, "durable": BOOL}`; a dry run has `job` alone.
///
/// Errors: 400 for a member; 404, 410 and 409 for a job that cannot be run again; 409 where its arguments differ, or its region refuses it;
/// 503 where a region does not answer, in which case nothing was sent unless the code is `outcome_unknown`.
pub(super) async fn replay(
    hub: &Hub,
    caller: &Caller,
    job_id: &str,
    query: &str,
    body: &[u8],
) -> Result<Value, Refusal> {
    let views = reached(hub)?;
    let region = picked(views, query)?;
    let order = read_single(caller, job_id, body)?;
    if let Some(known) = repeated(hub, &order, region.as_ref()).await? {
        return answer(hub, &known).await;
    }
    let owner = find(hub, views, job_id, region.as_ref()).await?.map_err(|none| none.refusal())?;
    let digest = checked(hub, &owner, &order).await?;
    if order.is_dry_run {
        return Ok(json!({ "job": {
            "job_id": job_id, "region": owner.region, "step": ReplayStep::WouldReplay.as_str(), "digest": digest,
            "note": owner.state, "priority": order.priority,
        } }));
    }
    let id = order.name.clone().unwrap_or_else(random_name);
    let (now_ms, runner) = (hub.clock.unix_ms(), Some(hub.replays.name.as_str()));
    let replay = Replay::new(id, &order, (region, false), (&caller.name, runner), now_ms);
    let subject = format!("job {job_id} in {}", owner.region);
    note(hub, &replay, &caller.name, "job_replay_ordered", subject).await.map_err(|error| unnoted(&error))?;
    let rows = waiting([(job_id.to_owned(), Some(owner.region.as_str().to_owned()))]);
    let [job] = rows.as_slice() else { return Err(Refusal::bad_request("expected one job".to_owned())) };
    let job = job.clone();
    let _held = hub.replays.hold(&replay.id);
    if let Some(first) = add(hub, &order, &replay, rows).await? {
        return answer(hub, &first).await;
    }
    event::hub_replay_ordered(&replay.id, 1, [&replay.reason, &replay.ticket, &replay.author]);
    let carrier = Carrier { hub, views, replay: &replay, version: 1, now_ms, is_over: false };
    let carried = carry_out(&carrier, job, owner).await;
    // Whatever is left is the runner's.
    hub.replays.ordered.notify_one();
    carried.map_err(|error| {
        let message = format!(
            "{error}: the job may have been run again; `GET /api/replays/{}` says so, and the hub goes on by itself",
            replay.id
        );
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, OUTCOME_UNKNOWN, message)
    })?;
    answer(hub, &replay).await
}

async fn carry_out(carrier: &Carrier<'_>, job: ReplayJob, owner: Owner) -> Result<(), RecordError> {
    let (hub, replay) = (carrier.hub, carrier.replay);
    if let Tried::Silent(why) = carrier.go_on(job, owner).await? {
        let rows = hub.record.replay_jobs(&replay.id, &ReplayStep::ALL, 0, 1).await?;
        if let Some(job) = rows.into_iter().next() {
            carrier.give_up_unsent(job, why).await?;
        }
    }
    finish(hub, replay, carrier.version).await.map(drop)
}

/// The digest of the arguments of a job that can be run again.
///
/// Errors: 409 and 410; nothing was sent.
async fn checked(hub: &Hub, owner: &Owner, order: &ReplayOrder) -> Result<String, Refusal> {
    let original = Original::read(&owner.shown, owner.region.as_str()).map_err(|why| {
        let (code, status, message) = explained(why, &owner.region);
        Refusal::new(status, code, message)
    })?;
    let digest = digest_of(original.args());
    let job_id = order.jobs.first().map_or("", String::as_str);
    let is_compared = order.digest.is_none() && !order.is_ledger_ignored;
    let of_ledger = if is_compared { expected_by_ledger(hub, job_id, owner, &digest).await? } else { None };
    let ignore = ", or with `ledger`: \"ignore\" (--ignore-ledger), as for a region that writes JSON anew";
    for (source, expected, or) in [("`payload_digest`", &order.digest, ""), ("the ledger", &of_ledger, ignore)] {
        if let Some(differs) = differs(&digest, expected.as_deref()) {
            let message = format!(
                "{source}: expected {}, and the arguments of this job in {} have {}; nothing was sent. Look at the job, and repeat the order with the \
                 present one as `payload_digest`{or} where they are right",
                differs.expected, owner.region, differs.found
            );
            return Err(Refusal::new(StatusCode::CONFLICT, "digest_differs", message));
        }
    }
    Ok(digest)
}

/// Keeps a new replay with its jobs. Returns the first one where the same order was there first, under the same name.
///
/// Errors: 409 where its name is taken, or where as many are under way as may be.
pub(super) async fn add(
    hub: &Hub,
    order: &ReplayOrder,
    replay: &Replay,
    rows: Vec<ReplayJob>,
) -> Result<Option<Replay>, Refusal> {
    let kept = hub.record.add_replay(replay.saved(0), rows).await.map_err(|error| {
        let message = format!("{error}: the replay may be under way; `GET /api/replays/{}` says so", replay.id);
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, OUTCOME_UNKNOWN, message)
    })?;
    if kept == Kept::Kept {
        return Ok(None);
    }
    let first = repeated(hub, order, replay.region.as_ref()).await?;
    first.map(Some).ok_or_else(too_many)
}

pub(super) fn too_many() -> Refusal {
    let message = format!("{OPEN_REPLAYS_MAX} replays are under way; wait for one, or stop one that is not needed");
    Refusal::new(StatusCode::CONFLICT, "too_many", message)
}

fn taken(id: &str) -> Refusal {
    let message = format!("`replay_id`: {id} is the name of another replay; give this one another name");
    Refusal::new(StatusCode::CONFLICT, "replay_exists", message)
}

/// The replay that this order has begun before, by its name.
///
/// Errors: 409 where the name is that of another order; 503 where a later version has written it.
pub(super) async fn repeated(
    hub: &Hub,
    order: &ReplayOrder,
    region: Option<&RegionId>,
) -> Result<Option<Replay>, Refusal> {
    let Some(name) = &order.name else { return Ok(None) };
    let Some(saved) = hub.record.replay(name).await? else { return Ok(None) };
    let known = read_replay(&saved)?;
    if known.fingerprint == order.fingerprint(region) { Ok(Some(known)) } else { Err(taken(name)) }
}

/// The present state of a replay of one job; an error where it was refused.
async fn answer(hub: &Hub, replay: &Replay) -> Result<Value, Refusal> {
    let saved = hub.record.replay(&replay.id).await?;
    let present = match saved {
        Some(saved) => read_replay(&saved)?,
        None => {
            let message = format!("the replay {} is over, and the record has dropped it", replay.id);
            return Err(Refusal::new(StatusCode::GONE, "replay_dropped", message));
        }
    };
    let rows = hub.record.replay_jobs(&replay.id, &ReplayStep::ALL, 0, 1).await?;
    let job = rows.into_iter().next().ok_or_else(|| {
        let message = format!("the record has the replay {} without its job", replay.id);
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "record_unavailable", message)
    })?;
    if job.step == ReplayStep::Refused.as_str() {
        let (status, code) = match job.why.as_deref() {
            Some("region_unavailable") => (StatusCode::SERVICE_UNAVAILABLE, "region_unavailable"),
            Some("arguments_gone") => (StatusCode::GONE, "arguments_gone"),
            Some("not_found") => (StatusCode::NOT_FOUND, "not_found"),
            Some("digest_differs") => (StatusCode::CONFLICT, "digest_differs"),
            Some("deduplicated") => (StatusCode::CONFLICT, "deduplicated"),
            _ => (StatusCode::CONFLICT, "region_refused"),
        };
        let why = job.detail.unwrap_or_default();
        let message = format!("the job was not run again: {why}; the replay {} has ended", replay.id);
        return Err(Refusal::new(status, code, message));
    }
    let counts = [(job.step.clone(), job.why.clone(), 1)];
    Ok(json!({ "replay": present.shown(&counts), "job": shown_job(&job), "durable": hub.record.is_durable() }))
}
