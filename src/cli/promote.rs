//! `ojs-sidecar promote` and `ojs-sidecar promotions`: the jobs of a lost region go to another one.

use std::time::Duration;

use clap::{ArgGroup, Args};
use http::Method;
use serde_json::Value;

use super::arguments::HubArgs;
use super::exit::{DONE, FAILED};
use super::order::{OrderedBy, To, order};
use super::out::say;
use super::query::{cell, list, table};
use super::runtime::runtime;
use crate::base::RegionId;
use crate::ojs::path_segment;

/// Between two looks at a plan that is being made.
const PAUSE: Duration = Duration::from_millis(200);
/// Looks at it: a minute. A plan of millions of jobs takes longer, and is made all the same.
const LOOKS_MAX: usize = 300;

#[derive(Debug, Args)]
pub(super) struct PromoteArgs {
    /// The lost region
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    region: RegionId,
    /// The region that takes its jobs; --hub names the hub of that region
    #[arg(long, value_name = "REGION", value_parser = RegionId::parse)]
    to: RegionId,
    /// Only make the plan: how many jobs are taken, which not, and why
    #[arg(long)]
    dry_run: bool,
    /// The most jobs a second
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    rate: u32,
    /// Also take jobs that a worker had when the region was lost: they may run twice
    #[arg(long)]
    active: bool,
    /// Promote also where the region looks healthy to the hub
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    by: OrderedBy,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
pub(super) struct PromotionsArgs {
    /// One promotion with its jobs, in place of all
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Only its jobs at this step, such as left or doubled
    #[arg(long, value_name = "STEP", requires = "id")]
    step: Option<String>,
    /// Enqueue no further job of it
    #[arg(long, requires = "id", conflicts_with = "step")]
    stop: bool,
    /// With --stop: do not wait for the lost region, and let jobs and workers go there again
    #[arg(long, requires = "stop")]
    abandon: bool,
    /// Print the hub's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hub: HubArgs,
}

/// Orders a promotion and shows its plan; exit code 1 where the hub refuses.
pub(super) fn promote(arguments: &PromoteArgs) -> u8 {
    let PromoteArgs { region, to, dry_run, rate, active, force, by } = arguments;
    let (grounds, hub) = (by.query(), &by.hub);
    let path = format!(
        "/v1/hub/promotions?region={region}&to={to}&dry_run={dry_run}&rate={rate}&active={active}&force={force}&{grounds}"
    );
    let Some(ordered) = order(To::Hub(hub), Method::POST, &path, is_promotion) else { return FAILED };
    let id = cell(&ordered["promotion"]["id"]);
    let mut looks = 1;
    loop {
        let path = format!("/v1/hub/promotions/{id}");
        let Some(document) = order(To::Hub(hub), Method::GET, &path, is_promotion) else { return FAILED };
        let promotion = &document["promotion"];
        let is_planning = promotion["stage"] == "planning" && !promotion["trouble"].is_string();
        if !is_planning || looks == LOOKS_MAX {
            say_promotion(promotion);
            if is_planning {
                say(format_args!("the plan is still being made; `ojs-sidecar promotions {id}` shows how far it is"));
            }
            break;
        }
        looks += 1;
        pause();
    }
    if !dry_run {
        say(format_args!("it goes on by itself; `ojs-sidecar promotions {id}` shows how far it is, with its jobs"));
    }
    DONE
}

/// Waits between two looks; not at all where the kernel refuses a runtime, which the next look reports.
fn pause() {
    if let Ok(runtime) = runtime() {
        runtime.block_on(async { tokio::time::sleep(PAUSE).await });
    }
}

/// Shows promotions, or ends one; exit code 1 where the hub refuses.
pub(super) fn promotions(arguments: &PromotionsArgs) -> u8 {
    let hub = To::Hub(&arguments.hub);
    let Some(id) = &arguments.id else {
        let all = order(hub, Method::GET, "/v1/hub/promotions", |it| it["promotions"].is_array());
        let Some(document) = all else { return FAILED };
        if arguments.json {
            say(format_args!("{document:#}"));
            return DONE;
        }
        list(&document["promotions"]).iter().for_each(say_promotion);
        if list(&document["promotions"]).is_empty() {
            say("the hub has no promotions");
        }
        return DONE;
    };
    let path = format!("/v1/hub/promotions/{}", path_segment(id));
    if arguments.stop {
        let path = format!("{path}?abandon={}", arguments.abandon);
        let Some(document) = order(hub, Method::DELETE, &path, is_promotion) else { return FAILED };
        say_promotion(&document["promotion"]);
        return DONE;
    }
    jobs(arguments, &path)
}

/// Shows one promotion and its jobs, page by page; as JSON the first page.
fn jobs(arguments: &PromotionsArgs, path: &str) -> u8 {
    let step = arguments.step.as_ref().map(|step| format!("&step={}", path_segment(step))).unwrap_or_default();
    let (mut cursor, mut rows) = (String::new(), Vec::new());
    loop {
        let page = format!("{path}?{}", [step.as_str(), &cursor].concat().trim_start_matches('&'));
        let Some(document) = order(To::Hub(&arguments.hub), Method::GET, &page, is_promotion) else { return FAILED };
        if arguments.json {
            say(format_args!("{document:#}"));
            return DONE;
        }
        let keys = ["job_id", "enqueued_at", "step", "why", "status"];
        rows.extend(list(&document["jobs"]).iter().map(|it| keys.map(|key| cell(&it[key]))));
        let Some(next) = document["next_cursor"].as_str() else {
            say_promotion(&document["promotion"]);
            table(["JOB", "ENQUEUED", "STEP", "WHY", "STATUS"], rows);
            return DONE;
        };
        cursor = format!("&cursor={}", path_segment(next));
    }
}

fn is_promotion(document: &Value) -> bool {
    document["promotion"]["id"].is_string()
}

fn say_promotion(it: &Value) {
    let [id, from, to, stage, reason, ticket, author] =
        ["id", "from", "to", "stage", "reason", "ticket", "author"].map(|key| cell(&it[key]));
    let dry = if it["dry_run"] == true { ", a dry run" } else { "" };
    let stopped = if it["stopped"] == true { ", stopped" } else { "" };
    say(format_args!("{id}: {from} to {to}, {stage}{dry}{stopped}: {reason} ({ticket}, {author})"));
    let counts = |of: &Value| {
        let counts = of.as_object().into_iter().flatten();
        counts.map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    };
    let (jobs, left) = (counts(&it["jobs"]), counts(&it["left"]));
    say(format_args!("  jobs: {}", if jobs.is_empty() { "none" } else { &jobs }));
    if !left.is_empty() {
        say(format_args!("  left where they are: {left}"));
    }
    if let Some(trouble) = it["trouble"].as_str() {
        say(format_args!("  it does not go on: {trouble}"));
    }
}
