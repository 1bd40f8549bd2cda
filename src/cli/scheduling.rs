//! `ojs-sidecar scheduling`: the pools of workers of a running sidecar, the shares of their queues, and their turns.

use bytes::Bytes;
use clap::Args;
use http::Method;
use http::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::arguments::QueryArgs;
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::query::{Question, cell, document_with, list, table};

const POOL_HEADS: [&str; 8] =
    ["POOL", "QUEUES", "STRATEGY", "WEIGHTS", "ISOLATED", "WORKERS", "ACTIVE JOBS", "CONCURRENCY"];
const TURN_HEADS: [&str; 6] = ["REGION", "POOL", "STRATEGY", "QUEUE", "JOBS BEHIND", "OWED BY ITS FLOOR"];
const QUEUE_HEADS: [&str; 5] = ["QUEUE", "JOBS IN A MINUTE", "SHARE", "MEAN WAIT MS", "ACTIVE JOBS"];

#[derive(Debug, Args)]
pub(super) struct SchedulingArgs {
    #[command(flatten)]
    query: QueryArgs,
    /// The sums over all sidecars, by the hub that the sidecar follows
    #[arg(long)]
    fleet: bool,
}

/// Prints the pools, their queues and the turns of these as tables, or both answers as the members `pools` and `stats` of one JSON object.
pub(super) fn scheduling(SchedulingArgs { query, fleet }: &SchedulingArgs) -> u8 {
    let scope = || fleet.then(|| (HeaderName::from_static("x-scope"), HeaderValue::from_static("fleet")));
    let ask = |path, member| {
        let question = Question { method: Method::GET, path, body: Bytes::new(), member };
        document_with(query, question, scope()).map(|(answer, _)| answer)
    };
    let both = ask("/ojs/v1/admin/pools", "items")
        .and_then(|pools| Ok((pools, ask("/ojs/v1/admin/scheduling/stats", "queues")?)));
    let (pools, stats) = match both {
        Ok(both) => both,
        Err(code) => return code,
    };
    // An earlier sidecar does not know the header.
    if *fleet && stats["scope"] != "fleet" {
        complain("the sidecar is of an earlier version, which has no figures of the fleet; leave --fleet out");
        return FAILED;
    }
    if query.json {
        say(json!({ "pools": pools, "stats": stats }));
        return DONE;
    }
    if *fleet {
        say(counted(&stats["fleet"]));
    }
    table(POOL_HEADS, list(&pools["items"]).iter().map(pool_row).collect());
    say("");
    table(QUEUE_HEADS, list(&stats["queues"]).iter().map(queue_row).collect());
    let turns = list(&stats["turns"]);
    if !turns.is_empty() {
        say("");
        table(TURN_HEADS, turns.iter().flat_map(turn_rows).collect());
        say("");
        turns.iter().filter_map(last_fetch).for_each(say);
    }
    for queue in list(&stats["starved"]) {
        say(format_args!("{} starves: jobs wait in it, and its workers here get none of it", cell(queue)));
    }
    DONE
}

/// The sentence about the sidecars that are in the sums, and those that are not.
fn counted(fleet: &Value) -> String {
    let [sidecars, left_out] = ["sidecars", "sidecars_left_out"].map(|key| cell(&fleet[key]));
    let age = fleet["age_ms"].as_u64().map(|ms| format!("; the oldest figures are {} s old", ms / 1_000));
    format!("{sidecars} sidecars, {left_out} connected ones left out{}", age.unwrap_or_default())
}

fn pool_row(pool: &Value) -> [String; 8] {
    let text = |key: &str| cell(&pool[key]);
    let queues = list(&pool["queues"]).iter().map(cell).collect::<Vec<_>>().join(", ");
    let weights = pool["weights"].as_object().map(|weights| {
        weights.iter().map(|(queue, weight)| format!("{queue} {weight}")).collect::<Vec<_>>().join(", ")
    });
    let isolated = if pool["isolated"] == true { "isolated" } else { "-" };
    [
        text("name"),
        queues,
        text("strategy"),
        weights.unwrap_or_else(|| "-".to_owned()),
        isolated.to_owned(),
        text("active_workers"),
        text("active_jobs"),
        text("concurrency"),
    ]
}

/// The rows of a list of queues that workers ask for.
fn turn_rows(turns: &Value) -> Vec<[String; 6]> {
    let of = |key: &str| cell(&turns[key]);
    let row = |queue: &Value| {
        let [name, behind, owed] = ["name", "behind", "owed"].map(|key| cell(&queue[key]));
        [of("region"), of("pool"), of("strategy"), name, behind, owed]
    };
    list(&turns["queues"]).iter().map(row).collect()
}

/// Why the last FETCH of a list went where it did.
fn last_fetch(turns: &Value) -> Option<String> {
    let last = turns["last_fetch"].as_object()?;
    let queues = list(&turns["queues"]).iter().map(|queue| cell(&queue["name"])).collect::<Vec<_>>().join(", ");
    let reason = match last.get("reason").and_then(Value::as_str) {
        Some("floor") => "its floor owed it a turn",
        Some("turn") => "it was next by the weights",
        Some("deepest") => "most jobs wait there",
        _ => "it is the first of the list",
    };
    let jobs =
        last.get("jobs").and_then(Value::as_u64).map_or("no answer yet".to_owned(), |jobs| format!("{jobs} jobs"));
    let cell_of = |key: &str| last.get(key).map(cell).unwrap_or_default();
    Some(format!("last FETCH of {queues}: {} first, {reason}; {jobs}, {} s ago", cell_of("first"), cell_of("age_s")))
}

fn queue_row(queue: &Value) -> [String; 5] {
    ["name", "dispatch_count_1m", "dispatch_ratio_1m", "avg_wait_ms", "active_jobs"].map(|key| cell(&queue[key]))
}
