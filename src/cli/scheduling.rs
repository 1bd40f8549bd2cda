//! `ojs-sidecar scheduling`: the pools of workers of a running sidecar, and the shares of their queues.

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::arguments::QueryArgs;
use super::exit::DONE;
use super::out::say;
use super::query::{Question, cell, document, list, table};

const POOL_HEADS: [&str; 8] =
    ["POOL", "QUEUES", "STRATEGY", "WEIGHTS", "ISOLATED", "WORKERS", "ACTIVE JOBS", "CONCURRENCY"];
const QUEUE_HEADS: [&str; 5] = ["QUEUE", "JOBS IN A MINUTE", "SHARE", "MEAN WAIT MS", "ACTIVE JOBS"];

/// Prints the pools and their queues as two tables, or both answers as the members `pools` and `stats` of one JSON object.
pub(super) fn scheduling(query: &QueryArgs) -> u8 {
    let ask = |path, member| {
        document(query, Question { method: Method::GET, path, body: Bytes::new(), member }).map(|(answer, _)| answer)
    };
    let both = ask("/ojs/v1/admin/pools", "items")
        .and_then(|pools| Ok((pools, ask("/ojs/v1/admin/scheduling/stats", "queues")?)));
    let (pools, stats) = match both {
        Ok(both) => both,
        Err(code) => return code,
    };
    if query.json {
        say(json!({ "pools": pools, "stats": stats }));
        return DONE;
    }
    table(POOL_HEADS, list(&pools["items"]).iter().map(pool_row).collect());
    say("");
    table(QUEUE_HEADS, list(&stats["queues"]).iter().map(queue_row).collect());
    DONE
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
