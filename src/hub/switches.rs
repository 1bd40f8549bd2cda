//! Orders of operators about switches of the whole fleet.

use std::rc::Rc;

use http::StatusCode;
use serde_json::{Value, json};

use super::access::Caller;
use super::record::State;
use super::response::Refusal;
use super::state::Hub;
use crate::base::Moment;
use crate::switch::{Order, SWITCHES_MAX, Switch, Switches, ThrottleRequest};
use crate::telemetry::event;

/// All switches in force, also those that another hub has just set.
pub(super) async fn list(hub: &Hub) -> Result<Value, Refusal> {
    hub.refresh_in_time().await?;
    let current = hub.current();
    let taken = current.taken.iter().map(|it| {
        let mut shown = it.isolation.switch().shown("hub");
        shown["source"] = it.source.as_str().into();
        shown
    });
    let switches: Vec<Value> = shown(current.switches.iter()).into_iter().chain(taken).collect();
    Ok(json!({ "version": current.version.to_string(), "switches": switches }))
}

/// The order of a query. A token names its author. A certificate may be that of a tool, and its request names the author.
fn order(caller: &Caller, query: &str, sets: bool) -> Result<Order, Refusal> {
    let order = match &caller.author {
        Some(author) => Order::read_of(author, query, sets),
        None => Order::read(query, sets),
    };
    order.map_err(Refusal::bad_request)
}

/// Sets the switch of a query; see [`Order::read`]. The answer comes once the switch is on disk.
pub(super) async fn set(hub: Rc<Hub>, caller: &Caller, query: &str) -> Result<Value, Refusal> {
    set_by(hub, caller, order(caller, query, true)?).await
}

/// Ends the switches of a query; see [`Order::read`].
pub(super) async fn end(hub: Rc<Hub>, caller: &Caller, query: &str) -> Result<Value, Refusal> {
    end_by(hub, caller, order(caller, query, false)?).await
}

/// Carries out the request of an orchestrator; see [`ThrottleRequest`].
pub(super) async fn throttle(hub: Rc<Hub>, caller: &Caller, body: &[u8]) -> Result<Value, Refusal> {
    match ThrottleRequest::read(caller.author.as_deref(), body).map_err(Refusal::bad_request)? {
        ThrottleRequest::Set(order) => set_by(hub, caller, order).await,
        ThrottleRequest::End(order) => end_by(hub, caller, order).await,
    }
}

async fn set_by(hub: Rc<Hub>, caller: &Caller, order: Order) -> Result<Value, Refusal> {
    let taken = hub.take_statuses().await;
    // A forced order needs no sidecar to agree.
    taken.or_else(|error| if order.force { Ok(()) } else { Err(Refusal::unchanged(error)) })?;
    let unix_ms = hub.clock.unix_ms();
    let unknown = order.subject.region().filter(|id| !order.force && !hub.fleet.borrow().knows(id, unix_ms));
    if let Some(region) = unknown {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!(
                "`region`: no sidecar of the last hour knows {region}; see `ojs-sidecar fleet`, or set `force` (--force)"
            ),
        ));
    }
    let set = hub
        .change(|all, now| {
            let planned = planned(&hub, &order, all, now);
            let Ok((switch, after)) = planned else { return (planned.map(|(switch, _)| switch), Vec::new()) };
            all.switches = after;
            let entry = hub.entry(caller, "switch_set", &switch, &order);
            (Ok(switch), vec![entry])
        })
        .await
        .map_err(Refusal::unchanged)?;
    let switch = set?;
    let lasts = switch.ends_unix_ms.saturating_sub(switch.set_unix_ms) / 1_000;
    event::switch_set(
        switch.kind,
        &switch.subject,
        switch.calls,
        lasts,
        [&switch.reason, &switch.ticket, &switch.author],
    );
    Ok(changed(&hub, "switches", std::iter::once(&switch)))
}

/// The switch of an order, and all switches of this hub with it.
///
/// Errors: the hub has as many as it may, or the order leaves jobs without a region.
fn planned(hub: &Hub, order: &Order, all: &State, now: Moment) -> Result<(Switch, Switches), Refusal> {
    let unix_ms = hub.clock.unix_ms();
    let switch = order.switch(now, unix_ms);
    let switch = switch.ok_or_else(|| Refusal::bad_request("`switch`: expected a switch".to_owned()))?;
    let mut own = all.switches.clone();
    own.set(switch.clone());
    let after = all.taken.joined(&own);
    let conflict = |code, message| Err(Refusal::new(StatusCode::CONFLICT, code, message));
    if after.are_too_many() {
        return conflict("too_many", format!("a hub has at most {SWITCHES_MAX} switches; end one that is not needed"));
    }
    let stranded = hub.fleet.borrow().stranded(&switch, &after, unix_ms).filter(|_| !order.force);
    if let Some((sidecar, key)) = stranded {
        let message = format!(
            "`region`: with it no region of `{key}` of the sidecar {sidecar} would take flexible jobs; end the switch of another region \
             first, or set `force` (--force)"
        );
        return conflict("last_region", message);
    }
    Ok((switch, own))
}

async fn end_by(hub: Rc<Hub>, caller: &Caller, order: Order) -> Result<Value, Refusal> {
    let ended = hub
        .change(|all, _| {
            let ended = all.switches.end(order.kind, &order.subject);
            let ended = [ended, all.taken.end(order.kind, &order.subject)].concat();
            let entries = ended.iter().map(|it| hub.entry(caller, "switch_ended", it, &order)).collect();
            (ended, entries)
        })
        .await
        .map_err(Refusal::unchanged)?;
    if ended.is_empty() {
        let message = "no such switch of the hub is in force; `ojs-sidecar switches --hub` lists those that are";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message.to_owned()));
    }
    for switch in &ended {
        event::switch_ended(switch.kind, &switch.subject, Some([&order.reason, &order.ticket, &order.author]));
    }
    Ok(changed(&hub, "ended", ended.iter()))
}

fn changed<'s>(hub: &Hub, key: &str, switches: impl Iterator<Item = &'s Switch>) -> Value {
    let version = hub.current().version.to_string();
    json!({ key: shown(switches), "version": version, "durable": hub.record.is_durable() })
}

fn shown<'s>(switches: impl Iterator<Item = &'s Switch>) -> Vec<Value> {
    switches.map(|it| it.shown("hub")).collect()
}
