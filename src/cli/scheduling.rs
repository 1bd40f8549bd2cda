//! `ojs-sidecar scheduling`: the pools of workers of a running sidecar, and the shares of their queues.

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
const QUEUE_HEADS: [&str; 5] = ["QUEUE", "JOBS IN A MINUTE", "SHARE", "MEAN WAIT MS", "ACTIVE JOBS"];

#[derive(Debug, Args)]
pub(super) struct SchedulingArgs {
    #[command(flatten)]
    query: QueryArgs,
    /// The sums over all sidecars, by the hub that the sidecar follows
    #[arg(long)]
    fleet: bool,
}

/// Prints the pools and their queues as two tables, or both answers as the members `pools` and `stats` of one JSON object.
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
    DONE
}

/// Of which sidecars the figures are.
fn counted(fleet: &Value) -> String {
    let [sidecars, left_out] = ["sidecars", "sidecars_left_out"].map(|key| cell(&fleet[key]));
    let age = fleet["age_ms"].as_u64().unwrap_or(0) / 1_000;
    format!("{sidecars} sidecars, {left_out} connected ones left out; the oldest figures are {age} s old")
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

fn queue_row(queue: &Value) -> [String; 5] {
    ["name", "dispatch_count_1m", "dispatch_ratio_1m", "avg_wait_ms", "active_jobs"].map(|key| cell(&queue[key]))
}
