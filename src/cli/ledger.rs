//! `ojs-sidecar ledger`: the jobs of a hub's ledger, and the end of a tenant in it.

use clap::{ArgGroup, Args, Subcommand};
use http::Method;
use serde_json::Value;

use super::arguments::HubArgs;
use super::exit::{DONE, FAILED};
use super::order::{OrderedBy, To, order};
use super::out::say;
use super::query::{cell, list, table};
use crate::ojs::path_segment;

#[derive(Debug, Args)]
pub(super) struct LedgerArgs {
    #[command(subcommand)]
    command: LedgerCommand,
}

#[derive(Debug, Subcommand)]
enum LedgerCommand {
    /// Show the jobs of the ledger, the newest first
    Jobs(JobsArgs),
    /// Show one job with its leases and each step
    Job(JobArgs),
    /// Erase a tenant: its jobs and the content of their records; the signed heads hold
    Forget(ForgetArgs),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
struct JobsArgs {
    /// Only those with this status, such as dead_lettered
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only those of this tenant
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Only those of this type
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Only those in this region
    #[arg(long, value_name = "REGION")]
    region: Option<String>,
    /// Only those that were enqueued from this time on, such as 2026-03-15T10:30:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only those that were enqueued before this time
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// How many, from 1 to 500
    #[arg(long, value_name = "JOBS", default_value_t = 50)]
    limit: u16,
    /// Go on with the cursor that the last part has printed
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Print the hub's JSON instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hub: HubArgs,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
struct JobArgs {
    /// The job's id
    #[arg(value_name = "JOB")]
    id: String,
    /// Print the hub's JSON instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hub: HubArgs,
}

#[derive(Debug, Args)]
struct ForgetArgs {
    /// The tenant
    #[arg(long, value_name = "TENANT")]
    tenant: String,
    #[command(flatten)]
    by: OrderedBy,
}

/// Carries out one of the three; exit code 1 where the hub refuses.
pub(super) fn ledger(arguments: &LedgerArgs) -> u8 {
    match &arguments.command {
        LedgerCommand::Jobs(jobs) => self::jobs(jobs),
        LedgerCommand::Job(job) => self::job(job),
        LedgerCommand::Forget(forget) => self::forget(forget),
    }
}

fn jobs(arguments: &JobsArgs) -> u8 {
    let JobsArgs { status, tenant, job_type, region, from, to, limit, cursor, .. } = arguments;
    let mut path = format!("/api/jobs?limit={limit}");
    for (name, value) in [
        ("status", status),
        ("tenant", tenant),
        ("jobType", job_type),
        ("region", region),
        ("from", from),
        ("to", to),
        ("cursor", cursor),
    ] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", path_segment(value)));
        }
    }
    let answer = order(To::Hub(&arguments.hub), Method::GET, &path, |it| it["jobs"].is_array());
    let Some(document) = answer else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    let row = |it: &Value| {
        ["jobId", "region", "status", "jobType", "tenant", "attempts", "worker", "enqueuedAt", "changedAt"]
            .map(|member| cell(&it[member]))
    };
    match list(&document["jobs"]) {
        [] => say("the ledger has no such job in this part"),
        jobs => table(
            ["JOB", "REGION", "STATUS", "TYPE", "TENANT", "ATTEMPTS", "WORKER", "ENQUEUED", "CHANGED"],
            jobs.iter().map(row).collect(),
        ),
    }
    if let Some(next) = document["next"].as_str() {
        say(format_args!("there may be more: --cursor {next}"));
    }
    DONE
}

fn job(arguments: &JobArgs) -> u8 {
    let path = format!("/api/jobs/{}", path_segment(&arguments.id));
    let answer = order(To::Hub(&arguments.hub), Method::GET, &path, |it| it["copies"].is_array());
    let Some(document) = answer else { return FAILED };
    if arguments.json {
        say(format_args!("{document:#}"));
        return DONE;
    }
    for copy in list(&document["copies"]) {
        let text = |member: &str| cell(&copy[member]);
        say(format_args!("{} in {}: {}", text("jobId"), text("region"), text("status")));
        for (name, member) in [
            ("type", "jobType"),
            ("queue", "queue"),
            ("tenant", "tenant"),
            ("arguments", "payloadDigest"),
            ("repeats", "replayOf"),
        ] {
            say(format_args!("  {name}: {}", text(member)));
        }
        let row = |it: &Value| {
            let record = &it["record"];
            let step = ["at", "event", "leaseId", "worker", "reportedBy"].map(|member| cell(&record[member]));
            let [at, event, lease, worker, by] = step;
            [at, event, lease, worker, by, cell(&it["digest"])]
        };
        let history = list(&copy["history"]).iter().map(row).collect();
        table(["AT", "STEP", "LEASE", "WORKER", "SIDECAR", "DIGEST"], history);
    }
    DONE
}

fn forget(arguments: &ForgetArgs) -> u8 {
    let ForgetArgs { tenant, by } = arguments;
    let path = format!("/api/ledger/tenants/{}?{}", path_segment(tenant), by.query());
    let answer = order(To::Hub(&by.hub), Method::DELETE, &path, |it| it["records"].is_u64());
    let Some(document) = answer else { return FAILED };
    say(format_args!("erased: {} jobs of {tenant}, the content of {} records", document["jobs"], document["records"]));
    if document["more"] == true {
        say("there are more: repeat the order");
    }
    DONE
}
