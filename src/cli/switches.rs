//! `ojs-sidecar drain`, `undrain`, `throttle`, `unthrottle`, `maintenance`, `pause`, `resume` and `switches`: orders of an operator with a time to live.

use http::Method;
use serde_json::Value;

use super::arguments::{
    DrainArgs, MaintenanceArgs, Pausable, PauseArgs, ResumeArgs, SwitchedBy, SwitchesArgs, ThrottleArgs, UndrainArgs,
    UnthrottleArgs,
};
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::say;
use super::query::cell;
use crate::base::SwitchKind;
use crate::ojs::path_segment;

/// Sets a switch for a region; exit code 1 where the sidecar refuses.
pub(super) fn drain(arguments: &DrainArgs) -> u8 {
    let DrainArgs { region, evacuate, isolate, forbid, lasts, force, by } = arguments;
    let kind = match (isolate, evacuate, forbid) {
        (true, _, _) => SwitchKind::Isolate,
        (_, true, _) => SwitchKind::Evacuate,
        (_, _, true) => SwitchKind::Forbid,
        _ => SwitchKind::Drain,
    };
    let (kind, lasts) = (kind.as_str(), path_segment(lasts));
    change(Method::PUT, &format!("switch={kind}&region={region}&for={lasts}&force={force}"), by)
}

/// Ends the switch of a region that keeps jobs from it; exit code 1 where there is none.
pub(super) fn undrain(arguments: &UndrainArgs) -> u8 {
    change(Method::DELETE, &format!("region={}", arguments.region), &arguments.by)
}

/// Bounds the calls to a region; exit code 1 where the sidecar refuses.
pub(super) fn throttle(arguments: &ThrottleArgs) -> u8 {
    let ThrottleArgs { region, calls, lasts, force, by } = arguments;
    let lasts = path_segment(lasts);
    change(Method::PUT, &format!("switch=throttle&region={region}&calls={calls}&for={lasts}&force={force}"), by)
}

/// Ends the bound on the calls to a region; exit code 1 where there is none.
pub(super) fn unthrottle(arguments: &UnthrottleArgs) -> u8 {
    change(Method::DELETE, &format!("switch=throttle&region={}", arguments.region), &arguments.by)
}

/// Sets or ends maintenance; exit code 1 where the sidecar refuses.
pub(super) fn maintenance(arguments: &MaintenanceArgs) -> u8 {
    let MaintenanceArgs { state, lasts, by } = arguments;
    match lasts.as_ref().filter(|_| state == "on") {
        Some(lasts) => change(Method::PUT, &format!("switch=maintenance&for={}", path_segment(lasts)), by),
        None => change(Method::DELETE, "switch=maintenance", by),
    }
}

/// Pauses a queue, a job type or a tenant; exit code 1 where the sidecar refuses.
pub(super) fn pause(arguments: &PauseArgs) -> u8 {
    let PauseArgs { what, name, lasts, by } = arguments;
    change(Method::PUT, &format!("{}&for={}", paused(*what, name), path_segment(lasts)), by)
}

/// Ends a pause; exit code 1 where there is none.
pub(super) fn resume(arguments: &ResumeArgs) -> u8 {
    change(Method::DELETE, &paused(arguments.what, &arguments.name), &arguments.by)
}

/// The pause in a query.
fn paused(what: Pausable, name: &str) -> String {
    let key = match what {
        Pausable::Queue => "queue",
        Pausable::Type => "type",
        Pausable::Tenant => "tenant",
    };
    format!("switch=pause&{key}={}", path_segment(name))
}

/// Shows the switches in force; exit code 1 where no sidecar answers.
pub(super) fn switches(arguments: &SwitchesArgs) -> u8 {
    let Some(document) = answer(To::of(&arguments.hub, &arguments.at), Method::GET, "") else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let all = document["switches"].as_array().map(Vec::as_slice).unwrap_or_default();
    if all.is_empty() {
        say("no switch is in force");
    }
    all.iter().for_each(say_switch);
    DONE
}

fn change(method: Method, what: &str, by: &SwitchedBy) -> u8 {
    let SwitchedBy { reason, ticket, author, at, hub } = by;
    let [reason, ticket] = [reason, ticket].map(|text| path_segment(text));
    let author = author.as_ref().map(|author| format!("&author={}", path_segment(author))).unwrap_or_default();
    let query = format!("?{what}&reason={reason}&ticket={ticket}{author}");
    let Some(document) = answer(To::of(hub, at), method, &query) else { return FAILED };
    for switch in document["switches"].as_array().into_iter().flatten() {
        say_switch(switch);
    }
    for switch in document["ended"].as_array().into_iter().flatten() {
        say(format_args!("ended: {}", named(switch)));
    }
    if document["durable"] != true {
        say("this is not on disk: a restart forgets it");
    }
    DONE
}

/// `query` begins with its question mark, or is empty.
fn answer(to: To<'_>, method: Method, query: &str) -> Option<Value> {
    let path = match to {
        To::Sidecar(_) => format!("/switches{query}"),
        To::Hub(_) => format!("/v1/hub/switches{query}"),
    };
    order(to, method, &path, |document| document["switches"].is_array() || document["ended"].is_array())
}

fn say_switch(switch: &Value) {
    let [until, reason, ticket, author] = ["until", "reason", "ticket", "author"].map(|key| cell(&switch[key]));
    let from = match (switch["source"].as_str(), switch["from"] == "hub") {
        (Some(source), _) => format!(", set at the hub of {source}"),
        (None, true) => ", set at the hub".to_owned(),
        (None, false) => String::new(),
    };
    say(format_args!("{} until {until}: {reason} ({ticket}, {author}{from})", named(switch)));
}

fn named(switch: &Value) -> String {
    let kind = cell(&switch["switch"]);
    if switch["region"].is_string() {
        let calls = switch["calls"].as_u64().map(|calls| format!(" to {calls} calls")).unwrap_or_default();
        return format!("{kind} {}{calls}", cell(&switch["region"]));
    }
    let paused = ["queue", "type", "tenant"].into_iter().find(|key| switch[*key].is_string());
    paused.map_or(kind.clone(), |key| format!("{kind} {key} {}", cell(&switch[key])))
}
