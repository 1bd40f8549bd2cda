//! `ojs-sidecar regions`, `ojs-sidecar outcomes` and `ojs-sidecar route`: the state and the decisions of a running
//! sidecar, as a table.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::arguments::{OutcomesArgs, QueryArgs};
use super::client::{Header, ask_with};
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use super::runtime::runtime;
use crate::ojs::path_segment;

/// The registry as a table.
pub(super) fn regions(query: &QueryArgs) -> u8 {
    let question =
        Question { method: Method::GET, path: "/v1/federation/regions", body: Bytes::new(), member: "regions" };
    answer(query, question, |document| {
        let regions = list(&document["regions"]);
        say(format_args!("federation {}", cell(&document["federation_id"])));
        table(REGION_HEADS, regions.iter().map(region_row).collect());
        for region in regions {
            let error = &region["last_error"];
            if let (Some(message), Some(address)) = (error["message"].as_str(), error["address"].as_str()) {
                say(format_args!("{}: {address}: {message}", cell(&region["id"])));
            }
        }
    })
}

const REGION_HEADS: [&str; 10] =
    ["REGION", "STATUS", "BREAKER", "LATENCY MS", "LOCAL", "WEIGHT", "IN FLIGHT", "LAST CHECK", "NEXT CHECK", "URL"];

fn region_row(region: &Value) -> [String; 10] {
    let text = |key: &str| cell(&region[key]);
    let switch = region["switch"].as_str();
    let cut_off = Some("cut off").filter(|_| region["cut_off"] == true);
    let drained = cut_off.or(Some("drained").filter(|_| region["weight"] == 0)).or(switch);
    let local = if region["local"] == true { "local" } else { "-" };
    [
        text("id"),
        drained.map_or_else(|| text("status"), |word| format!("{}, {word}", text("status"))),
        text("circuit_breaker"),
        latency(region),
        local.to_owned(),
        text("weight"),
        text("in_flight"),
        text("last_health_check"),
        text("next_health_check"),
        text("url"),
    ]
}

/// Milliseconds with two places, where the sidecar says microseconds.
fn latency(region: &Value) -> String {
    match region["latency_us"].as_u64() {
        Some(us) => format!("{}.{:02}", us / 1_000, us % 1_000 / 10),
        None => cell(&region["latency_ms"]),
    }
}

/// Unknown outcomes as a table, page by page; as JSON the newest page.
pub(super) fn outcomes(arguments: &OutcomesArgs) -> u8 {
    let OutcomesArgs { state, job_id, federation_id, region, query, .. } = arguments;
    let region = region.as_ref().map(ToString::to_string);
    let filters = [("state", state), ("job_id", job_id), ("federation_id", federation_id), ("region", &region)];
    let chosen = filters.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let first: String = chosen.map(|(name, value)| format!("&{name}={}", path_segment(value))).collect();
    let (mut path, mut rows) = (format!("/v1/federation/outcomes?limit=1000{first}"), Vec::new());
    loop {
        let question = Question { method: Method::GET, path: &path, body: Bytes::new(), member: "outcomes" };
        let (document, body) = match document(query, question) {
            Ok(answer) => answer,
            Err(code) => return code,
        };
        if query.json {
            say(body);
            return DONE;
        }
        rows.extend(list(&document["outcomes"]).iter().map(outcome_row));
        let Some(cursor) = document["next_cursor"].as_str() else {
            let kept = if document["durable"] == true { "in the journal's file" } else { "in memory only" };
            let [unknown, watched] = ["unknown", "watched"].map(|key| cell(&document[key]));
            say(format_args!("{unknown} unknown, {watched} watched; kept {kept}"));
            table(OUTCOME_HEADS, rows);
            return DONE;
        };
        path = format!("/v1/federation/outcomes?limit=1000{first}&cursor={cursor}");
    }
}

pub(super) const OUTCOME_HEADS: [&str; 8] =
    ["ID", "SENT", "STATE", "CLIENT WAS TOLD", "JOB", "COPIES", "ASKED NEXT", "DECIDED BY AN OPERATOR"];

pub(super) fn outcome_row(it: &Value) -> [String; 8] {
    let copies = list(&it["copies"]);
    let shown = copies.iter().map(|it| format!("{} {}", cell(&it["region"]), cell(&it["state"])));
    let decided = copies.iter().map(|it| &it["decided"]).filter(|it| !it.is_null());
    let decided = decided.map(|it| format!("{} at {}: {}", cell(&it["as"]), cell(&it["at"]), cell(&it["reason"])));
    let decided = decided.collect::<Vec<_>>().join(", ");
    let [id, sent, state, told, job, next] =
        ["id", "sent_at", "state", "told", "job_id", "next_ask_at"].map(|key| cell(&it[key]));
    let decided = if decided.is_empty() { "-".to_owned() } else { decided };
    [id, sent, state, told, job, shown.collect::<Vec<_>>().join(", "), next, decided]
}

/// A dry run as a table; exit code 1 for a job that would be refused.
pub(super) fn route(file: &Path, query: &QueryArgs) -> u8 {
    let job = match read(file) {
        Ok(job) => job,
        Err(error) => {
            complain(format_args!("{} cannot be read: {error}", file.display()));
            return FAILED;
        }
    };
    let question = Question { method: Method::POST, path: "/v1/federation/route", body: job, member: "candidates" };
    answer(query, question, |document| {
        say(format_args!("target {}, strategy {}", cell(&document["target_region"]), cell(&document["strategy"])));
        match document["decided_by"].as_str() {
            Some("hub") => say("decided by the hub, which was asked"),
            Some("no_answer") => say("decided by the sidecar alone: the hub was asked, and gave no answer"),
            _ => {}
        }
        if let Some(message) = document["error"]["message"].as_str() {
            say(format_args!("a live call would be refused with {}: {message}", cell(&document["status"])));
        }
        let rows = list(&document["candidates"]).iter();
        table(
            ["REGION", "SCORE", "REASON"],
            rows.map(|it| ["id", "score", "reason"].map(|key| cell(&it[key]))).collect(),
        );
    })
}

fn read(file: &Path) -> std::io::Result<Bytes> {
    if file != Path::new("-") {
        return std::fs::read(file).map(Bytes::from);
    }
    let mut job = Vec::new();
    std::io::stdin().lock().read_to_end(&mut job)?;
    Ok(Bytes::from(job))
}

pub(super) struct Question<'q> {
    pub(super) method: Method,
    pub(super) path: &'q str,
    pub(super) body: Bytes,
    /// A list that every answer of a sidecar has, so that the answer of another server is not taken for one.
    pub(super) member: &'static str,
}

pub(super) fn answer(query: &QueryArgs, question: Question<'_>, show: impl FnOnce(&Value)) -> u8 {
    match document(query, question) {
        Ok((document, body)) => {
            if query.json {
                say(body);
            } else {
                show(&document);
            }
            // A dry run is answered 200 with the error that a live call would get.
            if document["error"].is_null() { DONE } else { FAILED }
        }
        Err(code) => code,
    }
}

/// A running sidecar's answer, read and as it came.
///
/// Errors: the exit code; the message is printed already.
pub(super) fn document(query: &QueryArgs, question: Question<'_>) -> Result<(Value, String), u8> {
    document_with(query, question, None)
}

/// The same with a header.
pub(super) fn document_with(
    query: &QueryArgs,
    question: Question<'_>,
    header: Option<Header>,
) -> Result<(Value, String), u8> {
    let Question { method, path, body, member } = question;
    let asked = match runtime() {
        Ok(runtime) => runtime.block_on(ask_with(&query.address, header, method, path, body)),
        Err(error) => Err(format!("the system refuses a runtime: {error}")),
    };
    let (parts, body) = asked.map_err(failed)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    if query.json && !parts.status.is_success() {
        say(body);
        return Err(FAILED);
    }
    let document: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
    if !parts.status.is_success() {
        let message = document["error"]["message"].as_str().unwrap_or("no reason was given");
        return Err(failed(format_args!("the sidecar answered {}: {message}", parts.status.as_u16())));
    }
    if !document[member].is_array() && !query.json {
        let address = &query.address;
        return Err(failed(format_args!(
            "what answers at {address} is no ojs-sidecar; name its client listener with --address"
        )));
    }
    Ok((document, body))
}

fn failed(why: impl std::fmt::Display) -> u8 {
    complain(why);
    FAILED
}

/// The items of a list; none where an answer of an older sidecar has no such list.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn table<const N: usize>(heads: [&str; N], rows: Vec<[String; N]>) {
    let mut rows = rows;
    rows.insert(0, heads.map(str::to_owned));
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        say(cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}
