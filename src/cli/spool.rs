//! `ojs-sidecar spool`: the outage spool of a running sidecar, and orders about jobs that are set aside.

use http::Method;
use serde_json::Value;

use super::arguments::{SpoolArgs, SpoolCommand, SpoolOrderArgs};
use super::exit::{DONE, FAILED};
use super::order::{To, order};
use super::out::say;
use super::query::cell;
use crate::ojs::path_segment;

/// Lists the spool, or carries out an order; exit code 1 where the sidecar refuses.
pub(super) fn spool(arguments: &SpoolArgs) -> u8 {
    match &arguments.command {
        None | Some(SpoolCommand::List) => list(arguments),
        Some(SpoolCommand::Retry(it)) => decide(it, "retry"),
        Some(SpoolCommand::Aside(it)) => decide(it, "aside"),
        Some(SpoolCommand::Discard(it)) => decide(it, "discard"),
    }
}

fn list(arguments: &SpoolArgs) -> u8 {
    let is_ours = |document: &Value| document["set_aside"].is_array();
    let Some(document) = order(To::Sidecar(&arguments.at), Method::GET, "/spool", is_ours) else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let [state, waiting, bytes, age] =
        ["state", "waiting", "bytes", "oldest_age_seconds"].map(|key| cell(&document[key]));
    say(format_args!("the spool is {state}: {waiting} jobs wait, the oldest for {age} s; {bytes} bytes are used"));
    for job in document["set_aside"].as_array().into_iter().flatten() {
        let [id, job_id, state, reason, since] =
            ["id", "job_id", "state", "reason", "since"].map(|key| cell(&job[key]));
        say(format_args!("row {id}: job {job_id} is {state} ({reason}), spooled at {since}"));
    }
    DONE
}

fn decide(arguments: &SpoolOrderArgs, word: &str) -> u8 {
    let SpoolOrderArgs { id, reason, at } = arguments;
    let path = format!("/spool/{}/{word}?reason={}", path_segment(id), path_segment(reason));
    let is_ours = |document: &Value| document["order"].is_string();
    let Some(document) = order(To::Sidecar(at), Method::POST, &path, is_ours) else { return FAILED };
    say(format_args!("job {}: {}", cell(&document["id"]), cell(&document["order"])));
    DONE
}
