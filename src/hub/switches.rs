//! Orders of operators about switches of the whole fleet.

use std::rc::Rc;

use http::StatusCode;
use serde_json::{Value, json};

use super::access::Caller;
use super::response::Refusal;
use super::state::Hub;
use crate::switch::{Order, Switch, Switches};
use crate::telemetry::event;

/// All switches in force.
pub(super) fn list(hub: &Hub) -> Value {
    let current = hub.current();
    json!({ "version": current.version.to_string(), "switches": shown(current.switches.iter()) })
}

/// Sets the switch of a query; see [`Order::read`]. The answer comes once the switch is on disk.
pub(super) async fn set(hub: Rc<Hub>, caller: &Caller, query: &str) -> Result<Value, Refusal> {
    let order = Order::read(query, true).map_err(Refusal::bad_request)?;
    let unix_ms = hub.clock.unix_ms();
    let unknown = order.region.as_ref().filter(|id| !order.force && !hub.fleet.borrow().knows(id, unix_ms));
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
            let Some(switch) = order.switch(now, unix_ms) else { return (None, Vec::new()) };
            let mut after = all.clone();
            after.set(switch.clone());
            let stranded = hub.fleet.borrow().stranded(&switch, &after, unix_ms).filter(|_| !order.force);
            if stranded.is_some() {
                return (Some((switch, stranded)), Vec::new());
            }
            *all = after;
            let entry = hub.entry(caller, "switch_set", &switch, [&order.reason, &order.ticket, &order.author]);
            (Some((switch, None)), vec![entry])
        })
        .await?;
    let Some((switch, stranded)) = set else {
        return Err(Refusal::bad_request("`switch`: expected a switch".to_owned()));
    };
    if let Some((sidecar, key)) = stranded {
        let message = format!(
            "`region`: with it no region of `{key}` of the sidecar {sidecar} would take flexible jobs; end the switch of another region \
             first, or set `force` (--force)"
        );
        return Err(Refusal::new(StatusCode::CONFLICT, "last_region", message));
    }
    let lasts = switch.ends_unix_ms.saturating_sub(switch.set_unix_ms) / 1_000;
    event::switch_set(switch.kind, region(&switch), lasts, [&switch.reason, &switch.ticket, &switch.author]);
    Ok(changed(&hub, "switches", std::iter::once(&switch)))
}

/// Ends the switches of a query; see [`Order::read`].
pub(super) async fn end(hub: Rc<Hub>, caller: &Caller, query: &str) -> Result<Value, Refusal> {
    let order = Order::read(query, false).map_err(Refusal::bad_request)?;
    let by = [order.reason.as_str(), &order.ticket, &order.author];
    let ended = hub
        .change(|all: &mut Switches, _| {
            let ended = all.end(order.kind, order.region.as_ref());
            let entries = ended.iter().map(|it| hub.entry(caller, "switch_ended", it, by)).collect();
            (ended, entries)
        })
        .await?;
    if ended.is_empty() {
        let message = "no such switch of the hub is in force; `ojs-sidecar switches --hub` lists those that are";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "not_found", message.to_owned()));
    }
    for switch in &ended {
        event::switch_ended(switch.kind, region(switch), Some(by));
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

fn region(switch: &Switch) -> &str {
    switch.region.as_ref().map_or("", |region| region.as_str())
}
