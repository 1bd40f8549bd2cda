//! Orders to run many jobs again, and to stop that.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::super::access::Caller;
use super::super::ledger::{LedgerFilter, collect};
use super::super::name::random_name;
use super::super::record::{Kept, OPEN_REPLAYS_MAX, RecordError};
use super::super::response::Refusal;
use super::super::state::Hub;
use super::super::views::Views;
use super::document::{Replay, find, waiting};
use super::ending::{note, unnoted};
use super::order::{JOBS_MAX, read_bulk};
use super::owner::{all as all_regions, picked, reached};
use super::single::{add, repeated, too_many};
use crate::telemetry::event;

/// Tries to stop a replay while the hub that carries it out changes it, and the pause between two.
const STOP_TRIES: usize = 50;
const STOP_PAUSE: Duration = Duration::from_millis(20);

/// Takes an order; see `order`. Shape of the answer: `{"replay": ORDER, "durable": BOOL}`; it is carried out from now on.
///
/// Errors: 400 for a member, 409 where its name is taken or as many are under way as may be.
pub(super) async fn order(hub: &Hub, caller: &Caller, query: &str, body: &[u8]) -> Result<Value, Refusal> {
    let views = reached(hub)?;
    let region = picked(views, query)?;
    let mut order = read_bulk(caller, body)?;
    let shown =
        |replay: &Replay, counts: &[_]| json!({ "replay": replay.shown(counts), "durable": hub.record.is_durable() });
    if let Some(known) = repeated(hub, &order, region.as_ref()).await? {
        let counts = hub.record.replay_counts(&known.id).await?;
        return Ok(shown(&known, &counts));
    }
    let open = hub.record.open_replays().await?.all.len();
    if open as u64 >= OPEN_REPLAYS_MAX {
        return Err(too_many());
    }
    let filter = order.filter.clone().map(|filter| LedgerFilter { region: region.clone(), ..filter });
    let rows = match &filter {
        None => waiting(order.jobs.iter().map(|id| (id.clone(), None))),
        Some(filter) => {
            let jobs = picked_by(hub, views, filter).await?;
            order.jobs = jobs.iter().map(|(id, _)| id.clone()).collect();
            waiting(jobs.into_iter().map(|(id, region)| (id, Some(region))))
        }
    };
    let id = order.name.clone().unwrap_or_else(random_name);
    let replay = Replay::new(id, &order, (region, true), (&caller.name, None), hub.clock.unix_ms());
    let replay = Replay { filter: filter.as_ref().map(LedgerFilter::shown), ..replay };
    // In the trail before it begins: no replay is unaccounted for.
    note(hub, &replay, &caller.name, "replay_ordered", replay.subject()).await.map_err(|error| unnoted(&error))?;
    if let Some(first) = add(hub, &order, &replay, rows).await? {
        let counts = hub.record.replay_counts(&first.id).await?;
        return Ok(shown(&first, &counts));
    }
    event::hub_replay_ordered(&replay.id, replay.jobs, [&replay.reason, &replay.ticket, &replay.author]);
    hub.replays.ordered.notify_one();
    let counts = hub.record.replay_counts(&replay.id).await?;
    Ok(shown(&replay, &counts))
}

/// The jobs of a filter with their regions.
///
/// Errors: those of [`collect`]; 404 where the ledger has no such job, 400 where one is in a region that this hub does not reach.
async fn picked_by(hub: &Hub, views: &Views, filter: &LedgerFilter) -> Result<Vec<(String, String)>, Refusal> {
    let jobs = collect(hub, filter, JOBS_MAX).await?;
    if jobs.is_empty() {
        let message =
            format!("`filter`: the ledger has no job with {}; `GET /api/jobs` shows those that it has", filter.shown());
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
    }
    let reached = all_regions(views);
    if let Some((id, region)) = jobs.iter().find(|(_, region)| reached.iter().all(|it| it.as_str() != region)) {
        let message = format!(
            "`filter`: the job {id} is in {region}, which is not among the `regions` of this hub; name one of those in the query, as in ?region=ID"
        );
        return Err(Refusal::bad_request(message));
    }
    Ok(jobs)
}

/// Ends a replay: no further job is run again. One whose new job is on its way comes to its end.
///
/// Errors: 404 where there is no such replay, 409 where it is over.
pub(super) async fn stop(hub: &Hub, caller: &Caller, id: &str) -> Result<Value, Refusal> {
    let mut is_noted = false;
    for _ in 0..STOP_TRIES {
        let (saved, replay) = find(hub, id).await?;
        if !replay.is_open() {
            return Err(Refusal::new(StatusCode::CONFLICT, "replay_over", format!("the replay {id} is over")));
        }
        if !std::mem::replace(&mut is_noted, true) {
            let by = caller.author.clone().unwrap_or_else(|| caller.name.clone());
            let stopped = Replay { author: by, ..replay.clone() };
            note(hub, &stopped, &caller.name, "replay_stopped", replay.subject()).await.map_err(Refusal::unchanged)?;
        }
        let stopped = Replay { is_stopped: true, ..replay };
        let kept = hub.record.change_replay(stopped.saved(saved.version)).await.map_err(Refusal::unchanged)?;
        if kept == Kept::Kept {
            hub.replays.ordered.notify_one();
            return Ok(json!({ "replay": stopped.shown(&hub.record.replay_counts(id).await?) }));
        }
        // The hub that carries it out was first, and is done with that in a moment.
        hub.clock.sleep(STOP_PAUSE).await;
    }
    Err(Refusal::unchanged(RecordError::Contended))
}
