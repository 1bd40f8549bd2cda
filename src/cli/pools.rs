//! `ojs-sidecar pools`: the pools of workers that operators put at a hub for all its sidecars.

use bytes::Bytes;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::exit::{DONE, FAILED};
use super::order::{ListArgs, OrderedBy, To, listed, order, order_with, say_durable};
use super::out::say;
use super::query::{cell, list, table};
use crate::ojs::path_segment;

/// The path of the pools at a hub. Spec: fair-scheduling 10.1.
const PATH: &str = "/ojs/v1/admin/pools";

#[derive(Debug, Args)]
pub(super) struct PoolsArgs {
    #[command(subcommand)]
    command: PoolsCommand,
}

#[derive(Debug, Subcommand)]
enum PoolsCommand {
    /// Put a pool of workers at a hub, or change it: all sidecars of the hub keep to it within seconds
    Put(PutArgs),
    /// Delete a pool that was put at a hub
    Delete(DeleteArgs),
    /// Show the pools that were put at a hub
    List(ListArgs),
}

#[derive(Debug, Args)]
struct PutArgs {
    /// The name
    #[arg(value_name = "POOL")]
    pool: String,
    /// A queue, as a name or a glob; several options name several
    #[arg(long = "queue", value_name = "QUEUE", required = true)]
    queues: Vec<String>,
    /// The jobs that its workers hold at once at most, at all sidecars together
    #[arg(long, value_name = "JOBS")]
    concurrency: Option<u64>,
    /// The longest lease of its jobs, such as 5m; with --concurrency
    #[arg(long, value_name = "DURATION", requires = "concurrency")]
    longest_lease: Option<String>,
    /// How its queues take turns: strict, round-robin, weighted or least-loaded
    #[arg(long, value_name = "STRATEGY")]
    strategy: Option<String>,
    /// The weight of a queue, with --strategy weighted; several options weigh several
    #[arg(long = "weight", value_name = "QUEUE=NUMBER", value_parser = weight)]
    weights: Vec<(String, u32)>,
    /// Keep its queues from all other workers
    #[arg(long)]
    isolated: bool,
    /// The least share of each queue with jobs, such as 0.05
    #[arg(long, value_name = "SHARE")]
    min_dispatch_ratio: Option<f64>,
    /// The window in which that share is kept, such as PT30S
    #[arg(long, value_name = "DURATION", requires = "min_dispatch_ratio")]
    rotation_interval: Option<String>,
    #[command(flatten)]
    by: OrderedBy,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// The name
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    by: OrderedBy,
}

/// Carries out an order at a hub, or shows its pools; exit code 1 where it refuses.
pub(super) fn pools(arguments: &PoolsArgs) -> u8 {
    match &arguments.command {
        PoolsCommand::Put(put) => self::put(put),
        PoolsCommand::Delete(delete) => self::delete(delete),
        PoolsCommand::List(list) => show(list),
    }
}

fn put(arguments: &PutArgs) -> u8 {
    let (pool, by) = (&arguments.pool, &arguments.by);
    let is_ours = |it: &Value| it["pool"]["name"].is_string();
    let body = Bytes::from(body(arguments).to_string());
    let answer = order_with(To::Hub(&by.hub), Method::PUT, &path(pool, by), body, is_ours);
    let Some(document) = answer else { return FAILED };
    let how = if document["changed"] == true { "put" } else { "there already" };
    say(format_args!("{how}: {pool}"));
    say_durable(&document);
    DONE
}

/// The body of a PUT, with the members that are set.
fn body(arguments: &PutArgs) -> Value {
    let PutArgs { queues, concurrency, longest_lease, strategy, isolated, .. } = arguments;
    let mut body = json!({ "queues": queues, "isolated": isolated });
    let texts = [("longest_lease", longest_lease), ("strategy", strategy)];
    for (member, text) in texts.into_iter().filter_map(|(member, text)| Some((member, text.as_ref()?))) {
        body[member] = text.as_str().into();
    }
    if let Some(concurrency) = concurrency {
        body["concurrency"] = (*concurrency).into();
    }
    if !arguments.weights.is_empty() {
        let weights = arguments.weights.iter().map(|(queue, weight)| (queue.clone(), (*weight).into()));
        body["weights"] = weights.collect::<Map<_, _>>().into();
    }
    if let Some(share) = arguments.min_dispatch_ratio {
        let mut floor = json!({ "enabled": true, "min_dispatch_ratio": share });
        if let Some(interval) = &arguments.rotation_interval {
            floor["rotation_interval"] = interval.as_str().into();
        }
        body["starvation_prevention"] = floor;
    }
    body
}

fn delete(arguments: &DeleteArgs) -> u8 {
    let DeleteArgs { pool, by } = arguments;
    let is_ours = |it: &Value| it["deleted"]["name"].is_string();
    let answer = order(To::Hub(&by.hub), Method::DELETE, &path(pool, by), is_ours);
    let Some(document) = answer else { return FAILED };
    say(format_args!("deleted: {pool}"));
    say_durable(&document);
    DONE
}

fn show(arguments: &ListArgs) -> u8 {
    let row = |it: &Value| {
        let queues = list(&it["queues"]).iter().map(cell).collect::<Vec<_>>().join(",");
        let keys = [
            "concurrency",
            "strategy",
            "isolated",
            "active_workers",
            "active_jobs",
            "since",
            "reason",
            "ticket",
            "author",
        ];
        let [concurrency, strategy, isolated, workers, jobs, since, reason, ticket, author] =
            keys.map(|key| cell(&it[key]));
        [cell(&it["name"]), queues, concurrency, strategy, isolated, workers, jobs, since, reason, ticket, author]
    };
    let head =
        ["POOL", "QUEUES", "BOUND", "STRATEGY", "ISOLATED", "WORKERS", "JOBS", "SINCE", "REASON", "TICKET", "AUTHOR"];
    listed(arguments, (PATH, "items"), "no pool was put at the hub", |pools| {
        table(head, pools.iter().map(row).collect())
    })
}

fn weight(text: &str) -> Result<(String, u32), String> {
    let expected = || "expected a queue and its weight, such as email=3".to_owned();
    let (queue, weight) = text.rsplit_once('=').ok_or_else(expected)?;
    Ok((queue.to_owned(), weight.parse().map_err(|_| expected())?))
}

fn path(pool: &str, by: &OrderedBy) -> String {
    format!("{PATH}/{}?{}", path_segment(pool), by.query())
}
