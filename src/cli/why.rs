//! `ojs-sidecar why`: how a job was routed, for people.

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::arguments::QueryArgs;
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::query::{Question, cell, document, list};
use crate::ojs::path_segment;

/// The ids by which a job may be known, in the order in which they are tried.
const BY: [&str; 3] = ["job_id", "federation_id", "request_id"];

/// Prints each decision about a job, the newest first; it failed where none is known.
pub(super) fn why(id: &str, query: &QueryArgs) -> u8 {
    let mut last = None;
    for by in BY {
        let path = format!("/v1/federation/decisions?{by}={}", path_segment(id));
        let question = Question { method: Method::GET, path: &path, body: Bytes::new(), member: "decisions" };
        let (answer, text) = match document(query, question) {
            Ok(answer) => answer,
            Err(code) => return code,
        };
        let found = list(&answer["decisions"]);
        if !found.is_empty() {
            if query.json {
                say(text);
            } else {
                found.iter().for_each(explain);
            }
            return DONE;
        }
        last = Some(answer);
    }
    if let Some(answer) = last {
        none_known(id, &answer);
    }
    FAILED
}

fn none_known(id: &str, answer: &Value) {
    if answer["rows_max"] == 0 {
        return complain("the sidecar notes no decisions: decisions.rows_max is 0");
    }
    let file = if answer["durable"] == true { "the journal's file" } else { "memory only: there is no journal" };
    complain(format_args!(
        "no decision about {id} is known: the newest {} of jobs that went as planned are kept in memory, and as many others in {file}",
        cell(&answer["rows_max"])
    ));
}

fn explain(it: &Value) {
    let text = |key: &str| cell(&it[key]);
    let call = &it["call"];
    match call["kind"].as_str() {
        Some(kind @ ("workflow" | "cron")) => say(format_args!("{kind} {}", text("job_id"))),
        _ => say(format_args!("job {}", text("job_id"))),
    }
    say(format_args!("  ids         federation {}, request {}", text("federation_id"), text("request_id")));
    if call.is_object() {
        let [kind, jobs, unnoted] = ["kind", "jobs", "unnoted"].map(|key| cell(&call[key]));
        say(format_args!("  call        {kind} of {jobs} jobs, of which {unnoted} have no note"));
    }
    say(format_args!("  routed      {}, queue {}, type {}", text("at"), text("queue"), text("type")));
    say(format_args!("  strategy    {} ({}){}", text("strategy"), origin(it), pin(it)));
    match it["decided_by"].as_str() {
        Some("hub") => say("  decided     by the hub, which was asked"),
        Some("no_answer") => say("  decided     by the sidecar alone: the hub was asked, and gave no answer"),
        _ => {}
    }
    let candidates: Vec<String> = list(&it["candidates"]).iter().map(cell).collect();
    say(format_args!(
        "  candidates  {}",
        if candidates.is_empty() { "none".to_owned() } else { candidates.join(", ") }
    ));
    for refused in list(&it["refused"]) {
        say(format_args!("  fell out    {}: {}", cell(&refused["region"]), cell(&refused["message"])));
    }
    if let Some(moved) = it["moved"].as_object() {
        let [from, to, reason] = ["from", "to", "reason"].map(|key| moved.get(key).map(cell).unwrap_or_default());
        say(format_args!("  moved       from {from} to {to}: {reason}"));
    }
    for tried in list(&it["attempts"]) {
        say(format_args!("  tried       {}", attempt(tried)));
    }
    let refusal = it["answer"]["refusal"].as_str().map(|reason| format!(", {reason}")).unwrap_or_default();
    say(format_args!("  answered    {}{refusal} after {} ms", cell(&it["answer"]["status"]), text("ms")));
}

fn origin(it: &Value) -> String {
    let rule = it["rule"].as_u64();
    match (it["strategy_from"].as_str().unwrap_or_default(), rule) {
        ("pin", None) => "the job names its region".to_owned(),
        ("pin", Some(rule)) => format!("the job names its region, and routing.rules[{rule}] permits it"),
        ("job", None) => "named by the job".to_owned(),
        ("job", Some(rule)) => format!("named by the job, which routing.rules[{rule}] matches"),
        ("rule", Some(rule)) => format!("by routing.rules[{rule}]"),
        ("together", _) => "where other jobs of the call go".to_owned(),
        (_, Some(rule)) => format!("the default, within routing.rules[{rule}]"),
        _ => "the default".to_owned(),
    }
}

fn pin(it: &Value) -> String {
    it["pin"].as_str().map(|region| format!(", pinned to {region}")).unwrap_or_default()
}

fn attempt(tried: &Value) -> String {
    let [region, outcome, ms] = ["region", "outcome", "ms"].map(|key| cell(&tried[key]));
    let status = tried["status"].as_u64().map(|status| format!(" with {status}")).unwrap_or_default();
    let reason = tried["reason"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let found = if tried["found"] == true { "; asked again, it has the job" } else { "" };
    format!("{region}: {outcome}{status}{reason} after {ms} ms{found}")
}
