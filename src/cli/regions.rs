//! `ojs-sidecar regions`: those of a running sidecar, and those that operators put at a hub for the discovery of its sidecars.

use bytes::Bytes;
use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use super::arguments::QueryArgs;
use super::exit::{DONE, FAILED};
use super::order::{ListArgs, OrderedBy, To, listed, order, order_with, say_durable};
use super::out::say;
use super::query::{self, cell, list, table};
use crate::base::RegionId;

/// The path of the regions at a hub. Spec: RFC-0001 §3.
const PATH: &str = "/v1/federation/regions";

#[derive(Debug, Args)]
pub(super) struct RegionsArgs {
    #[command(subcommand)]
    command: Option<RegionsCommand>,
    #[command(flatten)]
    query: QueryArgs,
}

#[derive(Debug, Subcommand)]
enum RegionsCommand {
    /// Put a region at a hub, or change it: sidecars with `discovery.hub` take it once its certificate has shown its identity
    Put(PutArgs),
    /// Delete a region that was put at a hub; sidecars let it go after two looks at the hub that agree
    Delete(DeleteArgs),
    /// Show the regions that were put at a hub
    List(ListArgs),
}

#[derive(Debug, Args)]
struct PutArgs {
    /// The id
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    region: RegionId,
    /// Its base URL, such as https://ojs.eu-west-1.example.com:8443
    #[arg(long, value_name = "URL")]
    url: String,
    /// Its weight; `discovery.defaults.weight` of each sidecar without it
    #[arg(long, value_name = "NUMBER")]
    weight: Option<u32>,
    /// A tag; several options name several
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    by: OrderedBy,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// The id
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    region: RegionId,
    #[command(flatten)]
    by: OrderedBy,
}

/// Shows the regions of a sidecar, or carries out an order at a hub; exit code 1 where it refuses.
pub(super) fn regions(arguments: &RegionsArgs) -> u8 {
    match &arguments.command {
        None => query::regions(&arguments.query),
        Some(RegionsCommand::Put(put)) => self::put(put),
        Some(RegionsCommand::Delete(delete)) => self::delete(delete),
        Some(RegionsCommand::List(list)) => self::show(list),
    }
}

fn put(arguments: &PutArgs) -> u8 {
    let PutArgs { region, url, weight, tags, by } = arguments;
    let mut body = json!({ "url": url, "tags": tags });
    if let Some(weight) = weight {
        body["weight"] = (*weight).into();
    }
    let body = Bytes::from(body.to_string());
    let is_ours = |it: &Value| it["region"]["id"].is_string();
    let answer = order_with(To::Hub(&by.hub), Method::PUT, &path(region, by), body, is_ours);
    let Some(document) = answer else { return FAILED };
    let how = if document["changed"] == true { "put" } else { "there already" };
    say(format_args!("{how}: {region} at {}", cell(&document["region"]["url"])));
    say_durable(&document);
    DONE
}

fn delete(arguments: &DeleteArgs) -> u8 {
    let DeleteArgs { region, by } = arguments;
    let is_ours = |it: &Value| it["deleted"]["id"].is_string();
    let answer = order(To::Hub(&by.hub), Method::DELETE, &path(region, by), is_ours);
    let Some(document) = answer else { return FAILED };
    say(format_args!("deleted: {region}"));
    if document["left"] == 0 {
        say("the hub has no region now, and sidecars keep those they have: take the last one out by discovery.allow");
    }
    say_durable(&document);
    DONE
}

fn show(arguments: &ListArgs) -> u8 {
    let row = |it: &Value| {
        let tags = list(&it["tags"]).iter().map(cell).collect::<Vec<_>>().join(",");
        let [id, url, weight, since, reason, ticket, author] =
            ["id", "url", "weight", "since", "reason", "ticket", "author"].map(|key| cell(&it[key]));
        [id, url, weight, if tags.is_empty() { "-".to_owned() } else { tags }, since, reason, ticket, author]
    };
    let head = ["REGION", "URL", "WEIGHT", "TAGS", "SINCE", "REASON", "TICKET", "AUTHOR"];
    listed(arguments, (PATH, "regions"), "no region was put at the hub", |regions| {
        table(head, regions.iter().map(row).collect());
    })
}

fn path(region: &RegionId, by: &OrderedBy) -> String {
    format!("{PATH}/{region}?{}", by.query())
}
