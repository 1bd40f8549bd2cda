//! `/switches`: an operator sets, lists and ends switches of this sidecar, from this machine only.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::response::{document, error};
use crate::config::Config;
use crate::journal::Journal;
use crate::switch::{Order, RegionSets, SWITCHES_MAX, Switch, Switches};
use crate::telemetry::event;

/// The methods of the path, as `Allow` has them.
pub(super) const METHODS: &str = "GET, HEAD, PUT, POST, DELETE";

/// Switches in the hands of operators.
#[derive(Clone)]
pub struct Switching {
    /// Where they are.
    pub journal: Arc<Journal>,
    /// The configuration in force; called for each order.
    pub config: Arc<dyn Fn() -> Config + Send + Sync>,
    /// Puts the switches of the journal in force.
    pub apply: Arc<dyn Fn() + Send + Sync>,
    /// Whether only this machine reaches the listener.
    pub is_local: bool,
}

impl std::fmt::Debug for Switching {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switching").field("is_local", &self.is_local).finish_non_exhaustive()
    }
}

/// Why an order was not carried out: the status, the code and the sentence.
type Refused = (StatusCode, &'static str, String);

impl Switching {
    /// All switches in force.
    pub(super) fn list(&self) -> Response<Bytes> {
        let (own, hub) = (self.journal.own_switches(), self.journal.hub().switches);
        let switches = [shown(own.iter(), "sidecar"), shown(hub.iter(), "hub")].concat();
        document(&json!({ "switches": switches }))
    }

    /// Sets the switch of a query; see [`Order::read`].
    pub(super) async fn set(&self, query: Option<&str>) -> Response<Bytes> {
        answered(self.set_by(query.unwrap_or_default()).await)
    }

    /// Ends the switches of a query; see [`Order::read`].
    pub(super) async fn end(&self, query: Option<&str>) -> Response<Bytes> {
        answered(self.end_by(query.unwrap_or_default()).await)
    }

    async fn set_by(&self, query: &str) -> Result<Value, Refused> {
        let order = self.order(query, true)?;
        let config = (self.config)();
        if let Some(region) = order.subject.region().filter(|id| !config.regions.iter().any(|it| it.id == **id)) {
            let message =
                format!("`region`: {region} is not in the configuration; `ojs-sidecar regions` lists those that are");
            return Err((StatusCode::NOT_FOUND, "not_found", message));
        }
        let unix_ms = self.journal.unix_ms(self.journal.now());
        let (sets, hub) = (RegionSets::of(&config), self.journal.hub().switches);
        let change = |all: &mut Switches, now| {
            let switch = order.switch(now, unix_ms);
            let switch = switch.ok_or_else(|| bad_request("`switch`: expected a switch".to_owned()))?;
            let mut after = all.clone();
            after.set(switch.clone());
            check(&switch, &after, &hub, &sets, order.force)?;
            *all = after;
            Ok(switch)
        };
        let (set, is_durable) = self.journal.change_switches(change).await;
        let switch = set?;
        (self.apply)();
        let lasts = switch.ends_unix_ms.saturating_sub(switch.set_unix_ms) / 1_000;
        event::switch_set(
            switch.kind,
            &switch.subject,
            switch.calls,
            lasts,
            [&switch.reason, &switch.ticket, &switch.author],
        );
        Ok(
            json!({ "switches": shown(std::iter::once(&switch), "sidecar"), "durable": is_durable && self.journal.is_durable() }),
        )
    }

    async fn end_by(&self, query: &str) -> Result<Value, Refused> {
        let order = self.order(query, false)?;
        let change = |all: &mut Switches, _| all.end(order.kind, &order.subject);
        let (ended, is_durable) = self.journal.change_switches(change).await;
        if ended.is_empty() {
            let message = if !self.journal.hub().switches.end(order.kind, &order.subject).is_empty() {
                "no such switch was set here; one of the hub is in force: end it there, with --hub"
            } else {
                "no such switch is in force; `ojs-sidecar switches` lists those that are"
            };
            return Err((StatusCode::NOT_FOUND, "not_found", message.to_owned()));
        }
        (self.apply)();
        for switch in &ended {
            event::switch_ended(switch.kind, &switch.subject, Some([&order.reason, &order.ticket, &order.author]));
        }
        Ok(json!({ "ended": shown(ended.iter(), "sidecar"), "durable": is_durable && self.journal.is_durable() }))
    }

    fn order(&self, query: &str, sets: bool) -> Result<Order, Refused> {
        if !self.is_local {
            let message = "switches are set only where `listen.admin` is a loopback address, so that no other host can set them, or over `control.socket` (--socket)";
            return Err((StatusCode::FORBIDDEN, "not_local", message.to_owned()));
        }
        Order::read(query, sets).map_err(bad_request)
    }
}

/// Whether a switch may be set. `after`: all switches of this sidecar with it, `hub`: those of the hub.
///
/// Errors: there are too many, or some jobs would be left without a region.
fn check(switch: &Switch, after: &Switches, hub: &Switches, sets: &RegionSets, force: bool) -> Result<(), Refused> {
    if after.are_too_many() {
        let message = format!("a sidecar has at most {SWITCHES_MAX} switches of its own; end one that is not needed");
        return Err((StatusCode::CONFLICT, "too_many", message));
    }
    match sets.stranded(switch, &after.joined(hub)).filter(|_| !force) {
        Some(key) => {
            let message = format!(
                "`region`: with it no region of `{key}` would take flexible jobs; end the switch of another region first, or set `force` \
                 (--force)"
            );
            Err((StatusCode::CONFLICT, "last_region", message))
        }
        None => Ok(()),
    }
}

fn shown<'s>(switches: impl Iterator<Item = &'s Switch>, from: &str) -> Vec<Value> {
    switches.map(|it| it.shown(from)).collect()
}

fn bad_request(message: String) -> Refused {
    (StatusCode::BAD_REQUEST, "invalid_request", message)
}

fn answered(result: Result<Value, Refused>) -> Response<Bytes> {
    match result {
        Ok(value) => document(&value),
        Err((status, code, message)) => error(status, code, &message),
    }
}
