//! `ojs-sidecar fleet`: the inventory of a hub.

use http::Method;

use super::arguments::FleetArgs;
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::say;
use super::query::{cell, table};

/// Shows the sidecars that a hub knows; exit code 1 where it does not answer.
pub(super) fn fleet(arguments: &FleetArgs) -> u8 {
    let answer = order(To::Hub(&arguments.hub), Method::GET, "/v1/hub/sidecars", |it| it["sidecars"].is_array());
    let Some(document) = answer else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let heads = ["NAME", "REGION", "VERSION", "CONFIG", "CONNECTED", "CURRENT", "LAST SEEN", "UNKNOWN"];
    let rows = document["sidecars"].as_array().map(Vec::as_slice).unwrap_or_default().iter().map(|it| {
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
    DONE
}
