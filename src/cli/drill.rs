//! `ojs-sidecar drill` and `ojs-sidecar drills`: a share of a region's flexible jobs goes to others for a time.

use clap::{ArgGroup, Args};
use http::Method;
use serde_json::Value;

use super::arguments::HubArgs;
use super::exit::{DONE, FAILED};
use super::order::{OrderedBy, To, order};
use super::out::say;
use super::query::{cell, list, table};
use crate::base::RegionId;
use crate::ojs::path_segment;

#[derive(Debug, Args)]
pub(super) struct DrillArgs {
    /// The region whose loss is tried
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    region: RegionId,
    /// The share of its flexible jobs that goes to other regions, such as 5%
    #[arg(long, value_name = "SHARE")]
    share: String,
    /// How long it lasts, such as 10m; a day at most
    #[arg(long = "for", value_name = "DURATION")]
    lasts: String,
    /// End it when more of the diverted jobs fail than this, besides the share of the others that does
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    abort_failures: String,
    /// End it when the diverted jobs wait longer than this for regions on average
    #[arg(long, value_name = "DURATION")]
    abort_latency: Option<String>,
    /// Only say whether the hub would begin it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    by: OrderedBy,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
pub(super) struct DrillsArgs {
    /// The report of one drill, in place of all
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// End it
    #[arg(long, requires = "id")]
    stop: bool,
    /// Print the hub's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hub: HubArgs,
}

/// Orders a drill; exit code 1 where the hub refuses.
pub(super) fn drill(arguments: &DrillArgs) -> u8 {
    let DrillArgs { region, share, lasts, abort_failures, abort_latency, dry_run, by } = arguments;
    let [share, lasts, failures] = [share, lasts, abort_failures].map(|it| path_segment(it).to_string());
    let latency = abort_latency.as_ref().map(|it| format!("&abort_latency={}", path_segment(it))).unwrap_or_default();
    let path = format!(
        "/v1/hub/drills?region={region}&share={share}&for={lasts}&abort_failures={failures}{latency}&dry_run={dry_run}&{}",
        by.query()
    );
    let Some(document) = order(To::Hub(&by.hub), Method::POST, &path, is_drill) else { return FAILED };
    let (drill, sidecars) = (&document["drill"], cell(&document["sidecars"]));
    if *dry_run {
        say(format_args!("a dry run; the order would begin this drill, at {sidecars} connected sidecars of this hub:"));
        say_order(drill);
        return DONE;
    }
    say_order(drill);
    let id = cell(&drill["id"]);
    say(format_args!(
        "it is on at {sidecars} sidecars of this hub; `ojs-sidecar drills {id}` has its report, and `--stop` there ends it"
    ));
    DONE
}

/// Shows drills or the report of one, or ends it; exit code 1 where the hub refuses.
pub(super) fn drills(arguments: &DrillsArgs) -> u8 {
    let hub = To::Hub(&arguments.hub);
    let Some(id) = &arguments.id else {
        let all = order(hub, Method::GET, "/v1/hub/drills", |it| it["drills"].is_array());
        let Some(document) = all else { return FAILED };
        match list(&document["drills"]) {
            _ if arguments.json => say(format_args!("{document:#}")),
            [] if list(&document["later"]).is_empty() => say("the hub has no drills"),
            drills => drills.iter().for_each(say_order),
        }
        for later in list(&document["later"]) {
            say(format_args!("{}: written by a later version of the hub, which shows it", cell(later)));
        }
        return DONE;
    };
    let path = format!("/v1/hub/drills/{}", path_segment(id));
    let method = if arguments.stop { Method::DELETE } else { Method::GET };
    let Some(document) = order(hub, method, &path, is_drill) else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    say_order(&document["drill"]);
    if !arguments.stop {
        say_report(&document["drill"]);
    }
    DONE
}

fn is_drill(document: &Value) -> bool {
    document["drill"]["id"].is_string()
}

/// The order and the end.
fn say_order(it: &Value) {
    let [id, region, share, began, ends, reason, ticket, author] =
        ["id", "region", "share", "began_at", "ends_at", "reason", "ticket", "author"].map(|key| cell(&it[key]));
    say(format_args!(
        "{id}: {share} of the flexible jobs of {region}, {began} to {ends}: {reason} ({ticket}, {author})"
    ));
    if let Some(cause) = it["cause"].as_str() {
        let detail = it["detail"].as_str().filter(|it| !it.is_empty()).map(|it| format!(": {it}"));
        say(format_args!("  ended {}, {cause}{}", cell(&it["ended_at"]), detail.unwrap_or_default()));
    }
}

/// The counts.
fn say_report(it: &Value) {
    say(format_args!("  sidecars: {}", list(&it["sidecars"]).len()));
    let row = |name: String, group: &Value| {
        let keys = ["jobs", "stored", "refused", "failed", "unknown", "failure_share", "mean_ms", "max_ms"];
        let [jobs, stored, refused, failed, unknown, share, mean, max] = keys.map(|key| cell(&group[key]));
        [name, jobs, stored, refused, failed, unknown, share, mean, max]
    };
    let regions = list(&it["regions"]).iter().map(|group| row(format!("to {}", cell(&group["region"])), group));
    let control = row(format!("control in {}", cell(&it["region"])), &it["control"]);
    let rows = regions.chain(std::iter::once(control)).collect();
    table(["JOBS", "COUNT", "STORED", "REFUSED", "FAILED", "UNKNOWN", "FAILURE SHARE", "MEAN MS", "MAX MS"], rows);
    let stayed = it["stayed"].as_object().into_iter().flatten().map(|(why, count)| format!("{count} {why}"));
    say(format_args!("  stayed: {}", stayed.collect::<Vec<_>>().join(", ")));
    say(format_args!("  came back to the region behind a try elsewhere: {}", cell(&it["diverted"]["returned"])));
}
