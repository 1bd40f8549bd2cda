//! `ojs-sidecar incidents`: the incidents of stopped job types at a hub.

use bytes::Bytes;
use clap::{ArgGroup, Args};
use http::Method;
use serde_json::{Value, json};

use super::arguments::HubArgs;
use super::exit::{DONE, FAILED};
use super::order::{To, order, order_with, say_durable};
use super::out::say;
use super::query::{cell, list, table};
use crate::ojs::path_segment;

/// The path of the incidents at a hub.
const PATH: &str = "/api/incidents";

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
pub(super) struct IncidentsArgs {
    /// One incident with its evidence, in place of the last ones
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Only those that are open, or closed
    #[arg(long, value_name = "STATUS", conflicts_with = "id", value_parser = ["open", "closed"])]
    status: Option<String>,
    /// Close the incident: the jobs of its type and tenant go again at once
    #[arg(long, requires_all = ["id", "reason", "ticket"])]
    close: bool,
    /// Why it is closed, for the log and the audit trail
    #[arg(long, value_name = "TEXT", requires = "close")]
    reason: Option<String>,
    /// The ticket of the close
    #[arg(long, value_name = "TICKET", requires = "close")]
    ticket: Option<String>,
    /// The name of the operator; with a token its own name counts
    #[arg(long, value_name = "NAME", requires = "close")]
    author: Option<String>,
    /// Print the hub's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hub: HubArgs,
}

/// Shows incidents, or closes one; exit code 1 where the hub refuses.
pub(super) fn incidents(arguments: &IncidentsArgs) -> u8 {
    match &arguments.id {
        None => all(arguments),
        Some(id) if arguments.close => close(arguments, id),
        Some(id) => {
            let path = format!("{PATH}/{}", path_segment(id));
            let answer = order(To::Hub(&arguments.hub), Method::GET, &path, |it| it["incident"]["id"].is_string());
            answer.map_or(FAILED, |document| shown(arguments, &document))
        }
    }
}

fn all(arguments: &IncidentsArgs) -> u8 {
    let query = arguments.status.as_ref().map(|status| format!("?status={status}")).unwrap_or_default();
    let path = format!("{PATH}{query}");
    let answer = order(To::Hub(&arguments.hub), Method::GET, &path, |it| it["incidents"].is_array());
    let Some(document) = answer else { return FAILED };
    let incidents = list(&document["incidents"]);
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    if incidents.is_empty() {
        say("there is no such incident");
        return DONE;
    }
    let row = |it: &Value| {
        let evidence = &it["evidence"];
        let counts = evidence["failed"].as_u64().zip(evidence["succeeded"].as_u64());
        let share = counts.map(|(failed, succeeded)| format!("{failed} of {}", failed.saturating_add(succeeded)));
        [
            cell(&it["id"]),
            cell(&it["status"]),
            cell(&it["breaker"]["state"]),
            cell(&it["jobType"]),
            cell(&it["tenant"]),
            cell(&it["openedAt"]),
            cell(&it["closedAt"]),
            share.unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let head = ["ID", "STATUS", "BREAKER", "TYPE", "TENANT", "OPENED", "CLOSED", "FAILED"];
    table(head, incidents.iter().map(row).collect());
    DONE
}

fn close(arguments: &IncidentsArgs, id: &str) -> u8 {
    let IncidentsArgs { reason, ticket, author, .. } = arguments;
    let path = format!("{PATH}/{}/close", path_segment(id));
    let body = json!({ "reason": reason, "ticket": ticket, "author": author });
    let answer = order_with(To::Hub(&arguments.hub), Method::POST, &path, Bytes::from(body.to_string()), |it| {
        it["incident"]["status"] == "closed"
    });
    let Some(document) = answer else { return FAILED };
    let code = shown(arguments, &document);
    say_durable(&document);
    code
}

fn shown(arguments: &IncidentsArgs, document: &Value) -> u8 {
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let it = &document["incident"];
    let (evidence, breaker, by) = (&it["evidence"], &it["breaker"], &it["closedBy"]);
    let mut lines = vec![
        ["incident".to_owned(), cell(&it["id"])],
        ["status".to_owned(), cell(&it["status"])],
        ["type".to_owned(), cell(&it["jobType"])],
        ["tenant".to_owned(), cell(&it["tenant"])],
        ["opened".to_owned(), cell(&it["openedAt"])],
        ["failed".to_owned(), cell(&evidence["failed"])],
        ["succeeded".to_owned(), cell(&evidence["succeeded"])],
        ["breaker".to_owned(), cell(&breaker["state"])],
        ["until".to_owned(), cell(&breaker["until"])],
        ["reopened".to_owned(), cell(&breaker["reopened"])],
    ];
    if it["status"] == "closed" {
        lines.push(["closed".to_owned(), cell(&it["closedAt"])]);
        lines.push(["closed by".to_owned(), format!("{}: {}", cell(&by["by"]), cell(&by["reason"]))]);
    }
    lines.extend(list(&evidence["jobs"]).iter().map(|job| ["failed job".to_owned(), cell(job)]));
    table(["WHAT", "VALUE"], lines);
    DONE
}
