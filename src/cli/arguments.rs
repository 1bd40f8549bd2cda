//! The options of the commands.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};

use crate::base::RegionId;
use crate::base::text::parse_duration;
use crate::outcome::State;

/// Where the configuration comes from: files, then `OJSF_` variables, then these flags.
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    /// A YAML or JSON file; later files win over earlier ones
    #[arg(short, long = "config", value_name = "FILE")]
    pub(super) config: Vec<PathBuf>,
    /// One key, such as --set log.level=debug; wins over files and variables
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// The region that this pod runs in; short for --set local_region=ID
    #[arg(long, value_name = "ID")]
    pub(super) local_region: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct QueryArgs {
    /// Where the sidecar's clients reach it: host:port, or unix:/path
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub(super) address: String,
    /// Print the sidecar's JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct OutcomesArgs {
    #[command(subcommand)]
    pub(super) command: Option<OutcomesCommand>,
    /// Only those in this state
    #[arg(long, value_name = "STATE", value_parser = State::ALL.map(State::as_str))]
    pub(super) state: Option<String>,
    /// Only those of a job with this id
    #[arg(long, value_name = "ID")]
    pub(super) job_id: Option<String>,
    /// Only those of a job with this tracking id
    #[arg(long, value_name = "ID")]
    pub(super) federation_id: Option<String>,
    /// Only those that were sent to this region
    #[arg(long, value_name = "REGION", value_parser = RegionId::parse)]
    pub(super) region: Option<RegionId>,
    #[command(flatten)]
    pub(super) query: QueryArgs,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("named").required(true).args(["federation_id", "job_id"]))]
pub(super) struct JobArgs {
    /// The job's OJS-Federation-Id
    pub(super) federation_id: Option<String>,
    /// The job's id, in place of its OJS-Federation-Id
    #[arg(long, value_name = "ID")]
    pub(super) job_id: Option<String>,
    #[command(flatten)]
    pub(super) query: QueryArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum OutcomesCommand {
    /// Decide the outcome of a job that no region reports; over its admin listener on loopback, or --socket
    Settle(SettleArgs),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("decision").required(true).args(["absent", "stored"]))]
pub(super) struct SettleArgs {
    /// What `outcomes` shows: the number of the row, the job's id or its tracking id
    pub(super) id: String,
    /// It is not there and will not come: a repetition of the call is sent again
    #[arg(long)]
    pub(super) absent: bool,
    /// It is there: a repetition of the call is answered with it
    #[arg(long)]
    pub(super) stored: bool,
    /// The evidence, for the record: the source of the evidence, and the operator's name
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: String,
    /// Only the copy in this region
    #[arg(long, value_name = "REGION", value_parser = RegionId::parse)]
    pub(super) region: Option<RegionId>,
    #[command(flatten)]
    pub(super) at: AtArgs,
}

#[derive(Debug, Args)]
pub(super) struct SpoolArgs {
    #[command(subcommand)]
    pub(super) command: Option<SpoolCommand>,
    /// Print the sidecar's JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) at: AtArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum SpoolCommand {
    /// Show its state and the jobs that are set aside, as without a command
    List,
    /// Let a job that is set aside wait for a region again; its age counts anew
    Retry(SpoolOrderArgs),
    /// Set a job that waits aside, such as one that holds up its queue; where it was sent stays recorded
    Aside(SpoolOrderArgs),
    /// Delete a job that is set aside: it is never sent
    Discard(SpoolOrderArgs),
}

#[derive(Debug, Args)]
pub(super) struct SpoolOrderArgs {
    /// The number of the row, as `spool` shows it, or the job's id
    pub(super) id: String,
    /// Why, for the log: the evidence, and the operator's name
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: String,
    #[command(flatten)]
    pub(super) at: AtArgs,
}

#[derive(Debug, Args)]
pub(super) struct LogLevelArgs {
    /// The level, such as debug, or a filter such as info,ojs_federation=debug; none only shows what is in force
    pub(super) level: Option<String>,
    /// How long it lasts, from 1s to 1h; then the configured level is in force again
    #[arg(long = "for", value_name = "TIME", default_value = "10m", requires = "level")]
    pub(super) lasts: String,
    /// End a level that was set here
    #[arg(long, conflicts_with = "level")]
    pub(super) reset: bool,
    #[command(flatten)]
    pub(super) at: AtArgs,
}

/// The sidecar that gets an order.
#[derive(Debug, Args)]
pub(super) struct AtArgs {
    /// The admin listener
    #[arg(long, default_value = "127.0.0.1:9464", value_name = "ADDRESS")]
    address: String,
    /// The control socket of the sidecar (`control.socket`), in place of the admin listener
    #[arg(long, value_name = "PATH", conflicts_with = "address")]
    socket: Option<PathBuf>,
}

impl AtArgs {
    /// As [`super::client::ask`] takes it.
    pub(super) fn address(&self) -> Cow<'_, str> {
        let socket = self.socket.as_ref().map(|path| Cow::Owned(format!("unix:{}", path.display())));
        socket.unwrap_or(Cow::Borrowed(&self.address))
    }
}

/// A hub, and the operator's credentials there.
#[derive(Debug, Args)]
pub(super) struct HubArgs {
    /// Ask the hub at this URL, such as https://hub.example.com:8443, and not one sidecar
    #[arg(long, value_name = "URL")]
    pub(super) hub: Option<String>,
    /// PEM trust roots for the hub; those of the operating system without it
    #[arg(long, value_name = "FILE", requires = "hub")]
    pub(super) hub_ca: Option<PathBuf>,
    /// PEM client certificate of the operator
    #[arg(long, value_name = "FILE", requires = "hub", requires = "hub_key")]
    pub(super) hub_cert: Option<PathBuf>,
    /// PEM private key of the certificate
    #[arg(long, value_name = "FILE", requires = "hub", requires = "hub_cert")]
    pub(super) hub_key: Option<PathBuf>,
    /// A file with the operator's bearer token, in place of a certificate
    #[arg(long, value_name = "FILE", requires = "hub", conflicts_with = "hub_cert")]
    pub(super) token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct HubRunArgs {
    /// The hub's YAML file
    #[arg(short, long = "config", value_name = "FILE")]
    pub(super) config: PathBuf,
    /// Only say what is wrong with the file, or with the TLS files that it names
    #[arg(long)]
    pub(super) check: bool,
    /// Only make the tables of the record, or bring them to this version
    #[arg(long, conflicts_with = "check")]
    pub(super) migrate: bool,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
pub(super) struct FleetArgs {
    /// Print the outcomes that any sidecar has reported, in place of the sidecars
    #[arg(long)]
    pub(super) outcomes: bool,
    /// Print the limits of calls and the sidecars that hold them, in place of the sidecars
    #[arg(long, conflicts_with = "outcomes")]
    pub(super) limits: bool,
    /// Only outcomes in this state
    #[arg(long, value_name = "STATE", value_parser = State::ALL.map(State::as_str), requires = "outcomes")]
    pub(super) state: Option<String>,
    /// Print the hub's JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) hub: HubArgs,
}

/// The author of a change of a switch, and the reasons.
#[derive(Debug, Args)]
pub(super) struct SwitchedBy {
    /// Why, for the log and the list of switches
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: String,
    /// The ticket of the change
    #[arg(long, value_name = "TICKET")]
    pub(super) ticket: String,
    /// The name of the operator; a token names its own, whatever this says
    #[arg(long, value_name = "NAME", required_unless_present = "token_file")]
    pub(super) author: Option<String>,
    #[command(flatten)]
    pub(super) at: AtArgs,
    #[command(flatten)]
    pub(super) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    /// The region
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    pub(super) region: RegionId,
    /// Refuse jobs that are pinned to the region, too
    #[arg(long)]
    pub(super) evacuate: bool,
    /// As --evacuate, and give workers no job from the region either
    #[arg(long, conflicts_with = "evacuate")]
    pub(super) isolate: bool,
    /// Only forbid failover into the region: jobs that are meant for it go there
    #[arg(long, conflicts_with_all = ["evacuate", "isolate"])]
    pub(super) forbid: bool,
    /// How long it lasts, from 1s to 7d
    #[arg(long = "for", value_name = "TIME")]
    pub(super) lasts: String,
    /// Drain it even where no other region is left for some flexible jobs
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) by: SwitchedBy,
}

#[derive(Debug, Args)]
pub(super) struct UndrainArgs {
    /// The region
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    pub(super) region: RegionId,
    #[command(flatten)]
    pub(super) by: SwitchedBy,
}

#[derive(Debug, Args)]
pub(super) struct ThrottleArgs {
    /// The region
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    pub(super) region: RegionId,
    /// The most calls at once of each sidecar to the region; FETCH and calls about leased jobs do not count
    #[arg(long, value_name = "NUMBER")]
    pub(super) calls: u64,
    /// How long it lasts, from 1s to 7d
    #[arg(long = "for", value_name = "TIME")]
    pub(super) lasts: String,
    /// Set it also for a region that no sidecar of the hub knows
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) by: SwitchedBy,
}

#[derive(Debug, Args)]
pub(super) struct UnthrottleArgs {
    /// The region
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    pub(super) region: RegionId,
    #[command(flatten)]
    pub(super) by: SwitchedBy,
}

#[derive(Debug, Args)]
pub(super) struct MaintenanceArgs {
    /// Whether workers get no jobs from now on
    #[arg(value_parser = ["on", "off"])]
    pub(super) state: String,
    /// How long it lasts, from 1s to 7d
    #[arg(long = "for", value_name = "TIME", required_if_eq("state", "on"))]
    pub(super) lasts: Option<String>,
    #[command(flatten)]
    pub(super) by: SwitchedBy,
}

/// The kind of a subject that can be paused.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum Pausable {
    /// Workers get no jobs of the queue; jobs are still put into it
    Queue,
    /// New jobs of the type are refused; those that exist go on
    Type,
    /// New jobs of the tenant are refused; those that exist go on
    Tenant,
}

#[derive(Debug, Args)]
pub(super) struct PauseArgs {
    /// A queue, a job type or a tenant
    #[arg(value_name = "KIND")]
    pub(super) what: Pausable,
    /// The exact name of the queue, the job type or the tenant
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// How long it lasts, from 1s to 7d
    #[arg(long = "for", value_name = "TIME")]
    pub(super) lasts: String,
    #[command(flatten)]
    pub(super) by: SwitchedBy,
}

#[derive(Debug, Args)]
pub(super) struct ResumeArgs {
    /// A queue, a job type or a tenant
    #[arg(value_name = "KIND")]
    pub(super) what: Pausable,
    /// The exact name of the queue, the job type or the tenant
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    #[command(flatten)]
    pub(super) by: SwitchedBy,
}

#[derive(Debug, Args)]
pub(super) struct SwitchesArgs {
    /// Print the sidecar's JSON instead of a table
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) at: AtArgs,
    #[command(flatten)]
    pub(super) hub: HubArgs,
}

#[derive(Debug, Args)]
pub(super) struct HealthcheckArgs {
    /// The sidecar's admin listener: host:port
    #[arg(long, default_value = "127.0.0.1:9464", value_name = "ADDRESS")]
    pub(super) address: String,
    /// Ask whether it is ready instead of whether it lives
    #[arg(long)]
    pub(super) ready: bool,
}

#[derive(Debug, Args)]
pub(super) struct AwaitArgs {
    /// The regions to wait for; without any, one of those that the sidecar knows
    #[arg(value_name = "REGION", value_parser = RegionId::parse)]
    pub(super) regions: Vec<RegionId>,
    /// Where the sidecar's clients reach it: host:port, or unix:/path. It may still be starting
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    pub(super) address: String,
    /// How long, such as 90s or 5min
    #[arg(long, default_value = "60s", value_name = "DURATION", value_parser = parse_duration)]
    pub(super) timeout: Duration,
}
