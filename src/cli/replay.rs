//! `ojs-sidecar cancel`, `ojs-sidecar replay` and `ojs-sidecar replays`: orders at a hub about single jobs.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::{ArgGroup, Args};
use http::Method;
use serde_json::{Value, json};

use super::arguments::HubArgs;
use super::exit::{DONE, FAILED};
use super::order::{OrderedBy, To, order, order_with, say_durable};
use super::out::{complain, say};
use super::query::{cell, list, table};
use crate::base::RegionId;
use crate::ojs::path_segment;

/// The longest file of ids: a hub takes no longer order. Units: bytes.
const IDS_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Args)]
pub(super) struct CancelArgs {
    /// The id of the job
    #[arg(value_name = "ID")]
    id: String,
    /// The region that has the job, where several have one with this id
    #[arg(long, value_name = "REGION", value_parser = RegionId::parse)]
    region: Option<RegionId>,
    /// Print the hub's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    by: OrderedBy,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("jobs").required(true).args(["ids", "file", "status"]))]
pub(super) struct ReplayArgs {
    /// The ids of the jobs; several are one replay of the hub, which goes on by itself
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// A file with an id in each line; - for standard input. Always one replay of the hub
    #[arg(long = "ids", value_name = "FILE", conflicts_with = "ids")]
    file: Option<PathBuf>,
    /// All jobs of the hub's ledger with this status, such as dead_lettered. Always one replay of the hub
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// With --status: only jobs of this tenant
    #[arg(long, value_name = "TENANT", requires = "status")]
    tenant: Option<String>,
    /// With --status: only jobs of this type
    #[arg(long = "type", value_name = "TYPE", requires = "status")]
    job_type: Option<String>,
    /// With --status: only jobs that were enqueued from this time on, such as 2026-03-15T10:30:00Z
    #[arg(long, value_name = "TIME", requires = "status")]
    from: Option<String>,
    /// With --status: only jobs that were enqueued before this time
    #[arg(long, value_name = "TIME", requires = "status")]
    to: Option<String>,
    /// The region that has the jobs, where several have one with the same id
    #[arg(long, value_name = "REGION", value_parser = RegionId::parse)]
    region: Option<RegionId>,
    /// The digest that the arguments of the one job must have, as sha256:HEX
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["file", "status"])]
    digest: Option<String>,
    /// Run jobs again also where the ledger of the hub has other digests of their arguments
    #[arg(long, conflicts_with = "digest")]
    ignore_ledger: bool,
    /// The priority of the new jobs, from -100 to 100; the highest without it
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    priority: Option<i64>,
    /// The most jobs a second, of several jobs; 10 without it
    #[arg(long, value_name = "NUMBER")]
    per_second: Option<u32>,
    /// Only say whether they would be run again
    #[arg(long)]
    dry_run: bool,
    /// A name of your own, so that the same order sent twice is one replay; without it a new name is made
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print the hub's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    by: OrderedBy,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
pub(super) struct ReplaysArgs {
    /// One replay with its jobs, in place of the last ones
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Only its jobs at this step, such as refused
    #[arg(long, value_name = "STEP", requires = "id")]
    step: Option<String>,
    /// Run no further job of it again
    #[arg(long, requires = "id", conflicts_with = "step")]
    stop: bool,
    /// Print the hub's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hub: HubArgs,
}

/// Cancels a job in its region; exit code 1 where that is refused.
pub(super) fn cancel(arguments: &CancelArgs) -> u8 {
    let CancelArgs { id, region, json, by } = arguments;
    let path = format!("/api/jobs/{}/cancel{}", path_segment(id), query(region.as_ref()));
    let body = json!({ "reason": by.reason, "ticket": by.ticket, "author": by.author });
    let answer = order_with(To::Hub(&by.hub), Method::POST, &path, bytes(&body), |it| it["job"]["state"].is_string());
    let Some(document) = answer else { return FAILED };
    if *json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let job = &document["job"];
    say(format_args!("{} in {}: {}", cell(&job["id"]), cell(&job["region"]), cell(&job["state"])));
    say_durable(&document);
    DONE
}

/// Runs one job again, or orders that for many; exit code 1 where the hub refuses.
pub(super) fn replay(arguments: &ReplayArgs) -> u8 {
    let ReplayArgs { ids, file, status, tenant, job_type, from, to, .. } = arguments;
    if let Some(status) = status {
        let members = [("tenant", tenant), ("jobType", job_type), ("from", from), ("to", to)];
        let mut filter = json!({ "status": status });
        members
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)))
            .for_each(|(name, value)| filter[name] = json!(value));
        return many(arguments, ("filter", filter));
    }
    match (file, ids.as_slice()) {
        (None, [id]) => one(arguments, id),
        (None, ids) => many(arguments, ("jobs", json!(ids))),
        (Some(file), _) => match read_ids(file) {
            Ok(ids) => many(arguments, ("jobs", json!(ids))),
            Err(error) => {
                complain(error);
                FAILED
            }
        },
    }
}

fn one(arguments: &ReplayArgs, id: &str) -> u8 {
    let ReplayArgs { region, digest, priority, dry_run, json, by, per_second, .. } = arguments;
    if per_second.is_some() {
        complain("--per-second: one job has no rate; leave it out");
        return FAILED;
    }
    let (name, ledger) = (name(arguments), ledger(arguments));
    let path = format!("/api/jobs/{}/replay{}", path_segment(id), query(region.as_ref()));
    let body = json!({
        "reason": by.reason, "ticket": by.ticket, "author": by.author, "payload_digest": digest, "priority": priority, "dry_run": dry_run,
        "replay_id": name, "ledger": ledger,
    });
    let answer = order_with(To::Hub(&by.hub), Method::POST, &path, bytes(&body), |it| it["job"]["step"].is_string());
    let Some(document) = answer else { return failed(arguments, name.as_deref()) };
    if *json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let job = &document["job"];
    let [id, region, step, digest] = ["job_id", "region", "step", "digest"].map(|key| cell(&job[key]));
    if *dry_run {
        say(format_args!("a dry run: {id} would be run again in {region}; its arguments have {digest}"));
        return DONE;
    }
    say(format_args!("{id} in {region}: {step} as {}; its arguments have {digest}", cell(&job["new_id"])));
    if document["replay"]["done"] != true {
        let replay = cell(&document["replay"]["id"]);
        say(format_args!(
            "the region has not answered; `ojs-sidecar replays {replay}` says later whether it has the new job"
        ));
    }
    say_durable(&document);
    DONE
}

/// `jobs`: the member of the order that says which ones, and its value.
fn many(arguments: &ReplayArgs, (member, jobs): (&str, Value)) -> u8 {
    let ReplayArgs { region, digest, priority, dry_run, json, by, per_second, .. } = arguments;
    if digest.is_some() {
        complain("--digest: expected with one job only; leave it out");
        return FAILED;
    }
    let (name, ledger) = (name(arguments), ledger(arguments));
    let path = format!("/api/replays{}", query(region.as_ref()));
    let body = json!({
        member: jobs, "backfill_reason": by.reason, "backfill_ticket": by.ticket, "author": by.author, "priority": priority,
        "dry_run": dry_run, "replay_id": name, "per_second": per_second, "ledger": ledger,
    });
    let answer = order_with(To::Hub(&by.hub), Method::POST, &path, bytes(&body), is_replay);
    let Some(document) = answer else { return failed(arguments, name.as_deref()) };
    if *json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    say_replay(&document["replay"]);
    let id = cell(&document["replay"]["id"]);
    say(format_args!("it goes on by itself; `ojs-sidecar replays {id}` shows how far it is, with its jobs"));
    say_durable(&document);
    DONE
}

/// The name of a replay: that of the operator, or a new one, so that an order whose answer is lost can be repeated.
fn name(arguments: &ReplayArgs) -> Option<String> {
    let mut name = [0; 8];
    let made = || aws_lc_rs::rand::fill(&mut name).ok().map(|()| data_encoding::HEXLOWER.encode(&name));
    arguments.name.clone().or_else(made)
}

fn ledger(arguments: &ReplayArgs) -> Option<&'static str> {
    arguments.ignore_ledger.then_some("ignore")
}

/// Names the replay of an order that has failed: the hub may have taken it.
fn failed(arguments: &ReplayArgs, name: Option<&str>) -> u8 {
    if let Some(name) = name.filter(|_| !arguments.dry_run) {
        complain(format_args!(
            "the order has the name {name}: where the hub has taken it, `ojs-sidecar replays {name}` shows it, and the same command with `--name {name}` \
             repeats it without a second new job"
        ));
    }
    FAILED
}

/// Shows the last replays or one with its jobs, or ends it; exit code 1 where the hub refuses.
pub(super) fn replays(arguments: &ReplaysArgs) -> u8 {
    let hub = To::Hub(&arguments.hub);
    let Some(id) = &arguments.id else {
        let Some(document) = order(hub, Method::GET, "/api/replays", |it| it["replays"].is_array()) else {
            return FAILED;
        };
        match list(&document["replays"]) {
            _ if arguments.json => say(format_args!("{document:#}")),
            [] => say("the hub has no replays"),
            replays => replays.iter().for_each(say_replay),
        }
        return DONE;
    };
    let path = format!("/api/replays/{}", path_segment(id));
    if !arguments.stop {
        return jobs(arguments, &path);
    }
    let Some(document) = order(hub, Method::DELETE, &path, is_replay) else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
    } else {
        say_replay(&document["replay"]);
    }
    DONE
}

/// Shows one replay and its jobs, page by page; as JSON the first page.
fn jobs(arguments: &ReplaysArgs, path: &str) -> u8 {
    let step = arguments.step.as_ref().map(|step| format!("&step={}", path_segment(step))).unwrap_or_default();
    let (mut cursor, mut rows) = (String::new(), Vec::new());
    loop {
        let page = format!("{path}?{}", [step.as_str(), &cursor].concat().trim_start_matches('&'));
        let Some(document) = order(To::Hub(&arguments.hub), Method::GET, &page, is_replay) else { return FAILED };
        if arguments.json {
            say(format_args!("{document:#}"));
            return DONE;
        }
        let keys = ["job_id", "region", "step", "new_id", "why", "note"];
        rows.extend(list(&document["jobs"]).iter().map(|it| keys.map(|key| cell(&it[key]))));
        let Some(next) = document["next_cursor"].as_str() else {
            say_replay(&document["replay"]);
            table(["JOB", "REGION", "STEP", "NEW JOB", "WHY", "NOTE"], rows);
            return DONE;
        };
        cursor = format!("&cursor={}", path_segment(next));
    }
}

fn read_ids(file: &Path) -> Result<Vec<String>, String> {
    let named = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(IDS_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).map_err(named)?.take(IDS_BYTES_MAX + 1).read_to_string(&mut text)
    };
    let length = read.map_err(named)?;
    if length as u64 > IDS_BYTES_MAX {
        return Err(format!("{}: expected at most {IDS_BYTES_MAX} bytes; send several orders", file.display()));
    }
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

fn query(region: Option<&RegionId>) -> String {
    region.map(|region| format!("?region={region}")).unwrap_or_default()
}

/// A body without the members that are not set.
fn bytes(body: &Value) -> Bytes {
    let set = body.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let set: serde_json::Map<_, _> = set.map(|(key, value)| (key.clone(), value.clone())).collect();
    Bytes::from(Value::Object(set).to_string())
}

fn is_replay(document: &Value) -> bool {
    document["replay"]["id"].is_string()
}

fn say_replay(it: &Value) {
    let [id, jobs, rate, at, reason, ticket, author] =
        ["id", "jobs", "per_second", "ordered_at", "reason", "ticket", "author"].map(|key| cell(&it[key]));
    let is = |key: &str, word: &'static str| if it[key] == true { word } else { "" };
    let words = [is("dry_run", ", a dry run"), is("stopped", ", stopped"), is("done", ", done")].concat();
    let rate = if it["bulk"] == true { format!(" at {rate} a second") } else { String::new() };
    say(format_args!("{id}: {jobs} jobs{rate} from {at}{words}: {reason} ({ticket}, {author})"));
    if let Some(filter) = it["filter"].as_str() {
        say(format_args!("  all with {filter}"));
    }
    let counts = |of: &Value| {
        let counts = of.as_object().into_iter().flatten();
        counts.map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    };
    let (steps, refused) = (counts(&it["steps"]), counts(&it["refused"]));
    say(format_args!("  jobs: {}", if steps.is_empty() { "none" } else { &steps }));
    if !refused.is_empty() {
        say(format_args!("  not run again: {refused}"));
    }
    if let Some(trouble) = it["trouble"].as_str() {
        say(format_args!("  it does not go on: {trouble}"));
    }
}
