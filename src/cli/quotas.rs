//! `ojs-sidecar quotas`: the quotas that operators put at a hub for all its sidecars.

use std::path::PathBuf;

use bytes::Bytes;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::Value;

use super::exit::{DONE, FAILED};
use super::order::{ListArgs, OrderedBy, To, listed, order_with, say_durable};
use super::out::{complain, say};
use super::query::{cell, list, table};

/// The path of the quotas at a hub.
const PATH: &str = "/api/quotas";
/// The longest file that is read: as long as a hub takes. Units: bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

#[derive(Debug, Args)]
pub(super) struct QuotasArgs {
    #[command(subcommand)]
    command: QuotasCommand,
}

#[derive(Debug, Subcommand)]
enum QuotasCommand {
    /// Put quotas at a hub, in place of all before: all sidecars of the hub keep to them within seconds
    Put(PutArgs),
    /// Show the quotas that were put at a hub, and their use
    List(ListArgs),
}

#[derive(Debug, Args)]
struct PutArgs {
    /// The whole set as JSON: {"profiles": {NAME: {"maxPerHour": N, "burst": N, "maxActive": N}}, "quotas": [{"tenant": T, "jobType": J, "profile": NAME}]}
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    by: OrderedBy,
}

/// Carries out an order at a hub, or shows its quotas; exit code 1 where it refuses.
pub(super) fn quotas(arguments: &QuotasArgs) -> u8 {
    match &arguments.command {
        QuotasCommand::Put(put) => self::put(put),
        QuotasCommand::List(list) => show(list),
    }
}

fn put(arguments: &PutArgs) -> u8 {
    let PutArgs { file, by } = arguments;
    let is_long = std::fs::metadata(file).is_ok_and(|it| it.len() > FILE_BYTES_MAX);
    let body = match std::fs::read(file) {
        Ok(body) if !is_long => body,
        Ok(_) => {
            complain(format_args!("{}: expected at most {FILE_BYTES_MAX} bytes", file.display()));
            return FAILED;
        }
        Err(error) => {
            complain(format_args!("{}: cannot be read: {error}", file.display()));
            return FAILED;
        }
    };
    let query = by.query().replace("reason=", "quota_reason=").replace("&ticket=", "&quota_ticket=");
    let is_ours = |it: &Value| it["quotas"].is_array();
    let answer = order_with(To::Hub(&by.hub), Method::PUT, &format!("{PATH}?{query}"), Bytes::from(body), is_ours);
    let Some(document) = answer else { return FAILED };
    let how = if document["changed"] == true { "put" } else { "there already" };
    say(format_args!("{how}: {} quotas", list(&document["quotas"]).len()));
    say_durable(&document);
    DONE
}

fn show(arguments: &ListArgs) -> u8 {
    let keys = [
        "tenant",
        "jobType",
        "maxPerHour",
        "burst",
        "overLimit",
        "onHubLoss",
        "usedInLastHour",
        "granted",
        "later",
        "nextEligible",
        "maxActive",
        "active",
        "exact",
    ];
    let row = |it: &Value| keys.map(|key| cell(&it[key]));
    let head = [
        "TENANT",
        "TYPE",
        "MAX PER HOUR",
        "BURST",
        "OVER LIMIT",
        "ON HUB LOSS",
        "USED",
        "GRANTED",
        "LATER",
        "NEXT",
        "MAX ACTIVE",
        "ACTIVE",
        "EXACT",
    ];
    listed(arguments, (PATH, "quotas"), "no quota was put at the hub", |quotas| {
        table(head, quotas.iter().map(row).collect());
    })
}
