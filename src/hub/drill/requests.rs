//! Orders and questions of operators about drills, and the counts of sidecars.

use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use super::super::access::Caller;
use super::super::drill_desk::{Latest, sum_of};
use super::super::drill_order::{Cause, Drill};
use super::super::name::random_name;
use super::super::record::{Kept, RecordError};
use super::super::response::Refusal;
use super::super::sidecar_request::read;
use super::super::state::Hub;
use super::ending::{end, note};
use super::order::DrillOrder;
use crate::base::{RegionId, SwitchKind};
use crate::switch::DrillReport;
use crate::telemetry::event;

/// Takes an order; see [`DrillOrder::read`]. Shape of the answer: the drill, and whether it was a dry run, which begins none.
///
/// Errors: 400 for a parameter, 404 for a region that nothing here knows, 409 where it cannot be drilled now or another drill is on.
pub(in crate::hub) async fn order(hub: Rc<Hub>, caller: &Caller, query: &str) -> Result<Value, Refusal> {
    let order = DrillOrder::read(caller, query)?;
    let taken = hub.take_statuses().await;
    taken.map_err(Refusal::unchanged)?;
    let [well, unwell] = check(&hub, &order.region)?;
    let known = hub.record.last_drills().await?;
    let number = known.last().map_or(1, |last| last.number.saturating_add(1));
    if let Some(on) = known.into_iter().find(|it| it.is_open) {
        let message = format!(
            "the drill {} is on, and there is one at a time; `ojs-sidecar drills {} --stop` ends it",
            on.id, on.id
        );
        return Err(Refusal::new(StatusCode::CONFLICT, "drill_under_way", message));
    }
    let (began_ms, lasts_ms) = (hub.clock.unix_ms(), u64::try_from(order.lasts.as_millis()).unwrap_or(u64::MAX));
    let drill = Drill {
        id: random_name(),
        region: order.region,
        share: order.share,
        began_ms,
        ends_ms: began_ms.saturating_add(lasts_ms),
        abort_failures: order.abort_failures,
        abort_latency_ms: order.abort_latency.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
        well,
        unwell,
        reason: order.reason,
        ticket: order.ticket,
        author: order.author,
        ended: None,
    };
    let sidecars = hub.fleet.borrow().counts().1;
    let answer = |is_dry_run: bool| json!({ "drill": drill.shown(), "dry_run": is_dry_run, "sidecars": sidecars });
    if order.is_dry_run {
        return Ok(answer(true));
    }
    // In the trail before it is in force: no drill is unaccounted for.
    note(&hub, &drill, &caller.name, "drill_ordered", Some(lasts_ms), drill.reason.clone())
        .await
        .map_err(Refusal::unchanged)?;
    if hub.record.change_drill(drill.saved(number, 0)).await.map_err(Refusal::unchanged)? == Kept::Behind {
        let message = "another drill was begun just now, and there is one at a time".to_owned();
        return Err(Refusal::new(StatusCode::CONFLICT, "drill_under_way", message));
    }
    hub.drills.set(Latest { drill: drill.clone(), number, version: 1 }, hub.clock.now());
    let Drill { id, region, share, reason, ticket, author, .. } = &drill;
    event::hub_drill_started(id, region.as_str(), &share.to_string(), lasts_ms / 1_000, [reason, ticket, author]);
    Ok(answer(false))
}

/// The regions that the hub's probes find healthy, and the others of them, where the region can be drilled now.
///
/// Errors: 404 and 409.
fn check(hub: &Hub, region: &RegionId) -> Result<[Vec<RegionId>; 2], Refusal> {
    let conflict = |code, message| Err(Refusal::new(StatusCode::CONFLICT, code, message));
    let probed = hub.views.as_ref().map(|views| views.present().0);
    let is_probed = probed.as_ref().is_some_and(|view| view.index_of(region.as_str()).is_some());
    if !is_probed && !hub.fleet.borrow().knows(region, hub.clock.unix_ms()) {
        let message = format!(
            "`region`: no sidecar of the last hour knows {region}, nor is it among the `regions` of this hub; see `ojs-sidecar fleet`"
        );
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message));
    }
    let closed = hub.current().in_force().of_region(region).filter(|kind| *kind != SwitchKind::Forbid);
    if let Some(kind) = closed {
        let message = format!(
            "`region`: the switch {} {region} is in force, so that no flexible job goes there; end it first",
            kind.as_str()
        );
        return conflict("region_closed", message);
    }
    let Some(views) = &hub.views else { return Ok([Vec::new(), Vec::new()]) };
    let all = probed.iter().flat_map(|view| view.regions.iter()).map(|it| it.id.clone());
    let (well, unwell): (Vec<RegionId>, Vec<RegionId>) = all.partition(|id| views.is_healthy(id));
    if is_probed && !well.contains(region) {
        return conflict(
            "region_unhealthy",
            format!(
                "`region`: {region} is not healthy by the probes of this hub; a drill needs a region that it can go back to"
            ),
        );
    }
    if !well.iter().any(|it| it != region) {
        return conflict(
            "no_other_region",
            format!("`region`: no other region than {region} is healthy by the probes of this hub"),
        );
    }
    Ok([well, unwell])
}

/// All drills, the oldest first, without their counts; of those that a later version of the program has written, the ids.
pub(in crate::hub) async fn list(hub: &Hub) -> Result<Value, Refusal> {
    let all = hub.record.drills().await?;
    let (mut drills, mut later) = (Vec::new(), Vec::new());
    for saved in &all {
        match serde_json::from_str::<Drill>(&saved.document) {
            Ok(drill) => drills.push(drill.shown()),
            Err(_) => later.push(&saved.id),
        }
    }
    Ok(json!({ "drills": drills, "later": later }))
}

/// The report of one drill.
///
/// Errors: 404 where there is no such drill.
pub(in crate::hub) async fn show(hub: &Hub, id: &str) -> Result<Value, Refusal> {
    let Latest { drill, .. } = find(hub, id).await?;
    let saved = hub.record.drill_counts(id).await?;
    if hub.drills.latest().is_some_and(|it| it.drill.id == id) {
        hub.drills.merge(id, saved);
        return Ok(report(&drill, hub.drills.sum(id)));
    }
    Ok(report(&drill, sum_of(saved)))
}

fn report(drill: &Drill, (counts, names): (crate::switch::DrillCounts, Vec<String>)) -> Value {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    json!({ "drill": drill.report(&counts, &names) })
}

/// Ends a drill by the word of an operator.
///
/// Errors: 404 where there is no such drill, 409 where it is over.
pub(in crate::hub) async fn stop(hub: Rc<Hub>, caller: &Caller, id: &str) -> Result<Value, Refusal> {
    let latest = find(&hub, id).await?;
    let over = || Refusal::new(StatusCode::CONFLICT, "drill_over", format!("the drill {id} is over"));
    if latest.drill.ended.is_some() {
        return Err(over());
    }
    let cause = (Cause::Stopped, format!("by {}", caller.name));
    let ended = end(&hub, &latest, cause, &caller.name).await.map_err(Refusal::unchanged)?;
    let drill = ended.ok_or_else(over)?;
    Ok(json!({ "drill": drill.shown() }))
}

/// Takes the counts of a sidecar.
///
/// Errors: as for [`read`]; 409 for a drill that is not the last one.
pub(in crate::hub) fn take(hub: &Hub, caller: &Caller, body: &[u8]) -> Result<(), Refusal> {
    let DrillReport { sidecar, started_unix_ms, seq, drill, counts } = read(hub, caller, body)?;
    let latest: Option<Arc<Latest>> = hub.drills.latest();
    if latest.is_none_or(|it| it.drill.id != drill) {
        let message = format!("`drill`: {drill} is not the last drill of this hub, whose report is closed");
        return Err(Refusal::new(StatusCode::CONFLICT, "unknown_drill", message));
    }
    hub.drills.take(&drill, (sidecar, started_unix_ms), seq, counts).map_err(|_| {
        let message = "the counts of too many sidecars, or of too many processes of this one, were taken for the drill"
            .to_owned();
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "drill_full", message)
    })
}

/// A drill by its name, with its version in the record.
async fn find(hub: &Hub, id: &str) -> Result<Latest, Refusal> {
    let saved = hub.record.drills().await.map_err(|error: RecordError| Refusal::from(error))?;
    let found = saved.iter().find(|it| it.id == id).and_then(Latest::read);
    found.ok_or_else(|| {
        let message = "there is no such drill; `ojs-sidecar drills` lists those that there are".to_owned();
        Refusal::new(StatusCode::NOT_FOUND, "not_found", message)
    })
}
