//! `ojs-sidecar fleet`: the inventory of a hub, the outcomes that its sidecars have reported, and the limits that they share.

use http::Method;

use super::arguments::FleetArgs;
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::say;
use super::query::{OUTCOME_HEADS, cell, list, outcome_row, table};

/// Shows the sidecars that a hub knows; exit code 1 where it does not answer.
pub(super) fn fleet(arguments: &FleetArgs) -> u8 {
    if arguments.outcomes {
        return outcomes(arguments);
    }
    if arguments.limits {
        return limits(arguments);
    }
    let answer = order(To::Hub(&arguments.hub), Method::GET, "/v1/hub/sidecars", |it| it["sidecars"].is_array());
    let Some(document) = answer else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let heads = ["NAME", "REGION", "VERSION", "CONFIG", "CONNECTED", "CURRENT", "LAST SEEN", "UNKNOWN"];
    let rows = list(&document["sidecars"]).iter().map(|it| {
        let digest = it["config_digest"].as_str().and_then(|digest| digest.get(..12)).unwrap_or("-");
        let yes = |key: &str| if it[key] == true { "yes" } else { "no" };
        [
            cell(&it["name"]),
            cell(&it["local_region"]),
            cell(&it["version"]),
            digest.to_owned(),
            yes("connected").to_owned(),
            yes("current").to_owned(),
            cell(&it["last_seen"]),
            cell(&it["outcomes"]["unknown"]),
        ]
    });
    table(heads, rows.collect());
    for shared in list(&document["sidecars"]).iter().filter(|it| it["name_shared"] == true) {
        say(format_args!(
            "{}: several processes report under this name; give each its own hub.name",
            cell(&shared["name"])
        ));
    }
    if document["record"] == "unreachable" {
        say("the record of this hub does not answer: sidecars of other hubs may be missing, and orders are refused");
    }
    DONE
}

/// Shows the limits of the fleet, a row for each holder.
fn limits(arguments: &FleetArgs) -> u8 {
    let answer = order(To::Hub(&arguments.hub), Method::GET, "/v1/hub/limits", |it| it["limits"].is_array());
    let Some(document) = answer else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let are_shown = [
        holders(&document["limits"], ["region", "calls", "calls"], "calls at once"),
        holders(&document["pools"], ["pool", "concurrency", "places"], "places"),
    ];
    if are_shown == [false, false] {
        say("the hub has no limits");
    }
    DONE
}

/// Shows limits of one kind, with the members that name their subject, its bound and the part of a holder. Returns whether there are any.
fn holders(limits: &serde_json::Value, [subject, bound, part]: [&'static str; 3], noun: &str) -> bool {
    let mut rows = Vec::new();
    for limit in list(limits) {
        let [name, granted, most] = [subject, "granted", bound].map(|key| cell(&limit[key]));
        say(format_args!("{name}: {granted} of {most} {noun} are granted"));
        let row = |it: &serde_json::Value| {
            [name.clone(), cell(&it["sidecar"]), cell(&it[part]), cell(&it["needs"]), cell(&it["ends"])]
        };
        rows.extend(list(&limit["holders"]).iter().map(row));
    }
    let is_shown = !list(limits).is_empty();
    if is_shown {
        let [subject, part] = [subject, part].map(str::to_uppercase);
        table([&subject, "SIDECAR", &part, "NEEDS", "ENDS"], rows);
    }
    is_shown
}

/// Shows outcomes, page by page; as JSON the first page.
fn outcomes(arguments: &FleetArgs) -> u8 {
    let state = arguments.state.as_ref().map(|state| format!("&state={state}")).unwrap_or_default();
    let first = format!("/v1/hub/outcomes?limit=1000{state}");
    let (mut path, mut rows) = (first.clone(), Vec::new());
    loop {
        let answer = order(To::Hub(&arguments.hub), Method::GET, &path, |it| it["outcomes"].is_array());
        let Some(document) = answer else { return FAILED };
        if arguments.json {
            say(format_args!("{document:#}"));
            return DONE;
        }
        rows.extend(list(&document["outcomes"]).iter().map(|it| {
            let [id, sent, state, told, job, copies, next, decided] = outcome_row(it);
            [cell(&it["sidecar"]), id, sent, state, told, job, copies, next, decided]
        }));
        let Some(cursor) = document["next_cursor"].as_str() else {
            let counts = document["counts"].as_object().into_iter().flatten();
            let counts: Vec<String> = counts.map(|(state, count)| format!("{count} {state}")).collect();
            say(if counts.is_empty() { "no outcome was reported".to_owned() } else { counts.join(", ") });
            let [id, sent, state, told, job, copies, next, decided] = OUTCOME_HEADS;
            table(["SIDECAR", id, sent, state, told, job, copies, next, decided], rows);
            return DONE;
        };
        path = format!("{first}&cursor={cursor}");
    }
}
