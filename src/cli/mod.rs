//! The command line: `run`, `check`, `schema`, `regions`, `outcomes`, `spool`, `scheduling`, `pools`, `incidents`, `quotas`, `uwer`, `why`, `route`, `healthcheck`, `await`, `log-level`,
//! `drain` and the other switches, `hub`, `fleet`, `audit`, and, with the feature `demo`, `region` and `demo`.
//!
//! Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 78 the configuration is wrong.

mod arguments;
mod audit;
mod check;
mod client;
#[cfg(feature = "demo")]
mod demo;
mod drill;
mod exit;
mod fleet;
mod healthcheck;
mod hub;
mod incidents;
mod job;
mod ledger;
mod load;
mod log_level;
mod modes;
mod order;
mod out;
mod pools;
mod promote;
mod query;
mod quotas;
#[cfg(feature = "demo")]
mod region;
mod regions;
mod replay;
mod run;
mod runtime;
mod scheduling;
mod settle;
mod signals;
mod spool;
mod supervisor;
mod switches;
mod uwer;
mod version;
mod wait;
mod why;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use arguments::{
    AwaitArgs, ConfigArgs, DrainArgs, FleetArgs, HealthcheckArgs, HubRunArgs, JobArgs, LogLevelArgs, MaintenanceArgs,
    OutcomesArgs, OutcomesCommand, PauseArgs, QueryArgs, ResumeArgs, SpoolArgs, SwitchesArgs, ThrottleArgs,
    UndrainArgs, UnthrottleArgs,
};
use audit::AuditCommand;
#[cfg(feature = "demo")]
use demo::{DemoArgs, RegionArgs};
use drill::{DrillArgs, DrillsArgs};
use exit::{DONE, FAILED};
use incidents::IncidentsArgs;
use ledger::LedgerArgs;
use pools::PoolsArgs;
use promote::{PromoteArgs, PromotionsArgs};
use quotas::QuotasArgs;
use regions::RegionsArgs;
use replay::{CancelArgs, ReplayArgs, ReplaysArgs};
use scheduling::SchedulingArgs;
use uwer::UwerArgs;

const EXIT_CODES: &str = "\
Examples:
  ojs-sidecar check --config config.yaml --ask --strict
  ojs-sidecar run --config config.yaml
  ojs-sidecar regions --address 127.0.0.1:8080

Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 78 the configuration is wrong, 130 interrupted";
const LAYERS: &str =
    "Files come first, then variables such as OJSF_LOG__LEVEL=debug (`__` stands between levels), then these options.";

#[derive(Debug, Parser)]
#[command(name = "ojs-sidecar", version, long_version = version::LONG, about = "Federates Open Job Spec traffic of one pod over regions", long_about = None, after_help = EXIT_CODES)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar until SIGTERM or Ctrl-C
    #[command(after_help = LAYERS)]
    Run(ConfigArgs),
    /// Say what is wrong with a configuration, or print the effective one with secrets left out
    #[command(after_help = LAYERS)]
    Check {
        #[command(flatten)]
        config: ConfigArgs,
        /// Ask each region's health once, too, and compare the clocks; exit code 1 if one does not answer well
        #[arg(long)]
        ask: bool,
        /// Exit code 1 for warnings, too
        #[arg(long)]
        strict: bool,
    },
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print a completion script for a shell, such as: ojs-sidecar completions bash > /etc/bash_completion.d/ojs-sidecar
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Show the regions of a running sidecar; or those that were put at a hub, put one there or delete it
    #[command(args_conflicts_with_subcommands = true)]
    Regions(RegionsArgs),
    /// Show the enqueues of a running sidecar that ended unknown, and what became of them; or decide it
    #[command(args_conflicts_with_subcommands = true)]
    Outcomes(OutcomesArgs),
    /// Show the outage spool of a running sidecar, or decide about jobs that are set aside in it; over its admin listener on loopback, or --socket
    Spool(SpoolArgs),
    /// Show the pools of workers of a running sidecar, and the shares of their queues
    Scheduling(SchedulingArgs),
    /// Put a pool of workers at a hub for all its sidecars, delete it, or show those that were put there
    Pools(PoolsArgs),
    /// Show the incidents of stopped job types at a hub, or close one
    Incidents(IncidentsArgs),
    /// Show or put the quotas of tenants and job types at a hub
    Quotas(QuotasArgs),
    /// Convert a task of the legacy orchestration UWER between XML, JSON and an OJS job, or show those that were refused
    Uwer(UwerArgs),
    /// Ask a running sidecar how a job was routed, and why
    Why {
        /// The job's id, its OJS-Federation-Id or the X-Request-Id of its enqueue
        id: String,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Ask a running sidecar what the index of its hub knows of a job: its copies in all regions, their states and histories
    Job(JobArgs),
    /// Ask a running sidecar where a job would go, and why
    Route {
        /// A file with the job as JSON; - for standard input
        file: PathBuf,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Serve one OJS region in memory, to try a federation on one machine
    #[cfg(feature = "demo")]
    Region(RegionArgs),
    /// Ask a running sidecar whether it lives; exit code 0 if so, else 1
    Healthcheck(HealthcheckArgs),
    /// Wait until regions of a running sidecar are healthy; exit code 0 once they are, 1 when the time is over
    Await(AwaitArgs),
    /// Keep flexible jobs of a running sidecar from a region for a while; over its admin listener on loopback, or --socket
    Drain(DrainArgs),
    /// End what `drain` has set for a region
    Undrain(UndrainArgs),
    /// Bound the calls at once of a running sidecar to a region for a while
    Throttle(ThrottleArgs),
    /// End the bound that `throttle` has set for a region
    Unthrottle(UnthrottleArgs),
    /// Give the workers of a running sidecar no jobs for a while; everything else goes on
    Maintenance(MaintenanceArgs),
    /// Hand out no jobs of a queue for a while, or accept no new jobs of a type or a tenant
    Pause(PauseArgs),
    /// End a pause that `pause` has set
    Resume(ResumeArgs),
    /// Show the switches of a running sidecar, which `drain`, `throttle`, `maintenance` and `pause` have set
    Switches(SwitchesArgs),
    /// Run a hub until SIGTERM or Ctrl-C: switches for many sidecars, their inventory, and an audit trail
    Hub(HubRunArgs),
    /// Show the sidecars that a hub knows
    Fleet(FleetArgs),
    /// Let another region take over the waiting jobs of a lost one, from their replicas; --dry-run shows the plan only
    Promote(PromoteArgs),
    /// Show the promotions of a hub and their jobs, or end one
    Promotions(PromotionsArgs),
    /// Let a share of a region's flexible jobs go to others for a time, as if the region were lost
    Drill(DrillArgs),
    /// Show the failover drills of a hub and their reports, or end one
    Drills(DrillsArgs),
    /// Show the jobs of a hub's ledger and their histories, or erase a tenant from it
    Ledger(LedgerArgs),
    /// Cancel a job in the region that has it, by the hub
    Cancel(CancelArgs),
    /// Run jobs again as new ones with the same arguments, each in the region that has it, by the hub
    Replay(ReplayArgs),
    /// Show the replays of a hub and their jobs, or end one
    Replays(ReplaysArgs),
    /// Export the audit trail of a hub, or check an exported one
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Show the log level of a running sidecar, or change it for a while; over its admin listener on loopback, or --socket
    LogLevel(LogLevelArgs),
    /// Start three regions in memory and a sidecar before them, and show what federation does
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
}

/// Runs the command that the arguments name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let line = match Line::try_parse_from(arguments) {
        Ok(line) => line,
        Err(asked) => {
            // Help and version are answers, the rest is a mistake; clap knows which stream each belongs on.
            let code = u8::try_from(asked.exit_code()).unwrap_or(FAILED);
            let _ = asked.print();
            return ExitCode::from(code);
        }
    };
    ExitCode::from(match line.command {
        Command::Run(config) => run::run(&config),
        Command::Check { config, ask, strict } => check::check(&config, check::How { ask, strict }),
        Command::Schema => {
            out::say(format_args!("{:#}", crate::config::schema()));
            DONE
        }
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Line::command(), "ojs-sidecar", &mut std::io::stdout());
            DONE
        }
        Command::Healthcheck(arguments) => healthcheck::healthcheck(&arguments),
        Command::Await(arguments) => wait::wait(&arguments),
        Command::Regions(arguments) => regions::regions(&arguments),
        Command::Pools(arguments) => pools::pools(&arguments),
        Command::Ledger(arguments) => ledger::ledger(&arguments),
        Command::Incidents(arguments) => incidents::incidents(&arguments),
        Command::Uwer(arguments) => uwer::uwer(&arguments),
        Command::Quotas(arguments) => quotas::quotas(&arguments),
        Command::Scheduling(arguments) => scheduling::scheduling(&arguments),
        Command::Outcomes(OutcomesArgs { command: Some(OutcomesCommand::Settle(settle)), .. }) => {
            settle::settle(&settle)
        }
        Command::Outcomes(arguments) => query::outcomes(&arguments),
        Command::Spool(arguments) => spool::spool(&arguments),
        Command::Why { id, query } => why::why(&id, &query),
        Command::Job(arguments) => job::job(&arguments),
        Command::Route { file, query } => query::route(&file, &query),
        #[cfg(feature = "demo")]
        Command::Region(region) => region::region(&region),
        Command::Drain(arguments) => switches::drain(&arguments),
        Command::Undrain(arguments) => switches::undrain(&arguments),
        Command::Throttle(arguments) => switches::throttle(&arguments),
        Command::Unthrottle(arguments) => switches::unthrottle(&arguments),
        Command::Maintenance(arguments) => switches::maintenance(&arguments),
        Command::Pause(arguments) => switches::pause(&arguments),
        Command::Resume(arguments) => switches::resume(&arguments),
        Command::Switches(arguments) => switches::switches(&arguments),
        Command::Hub(arguments) => hub::hub(&arguments),
        Command::Fleet(arguments) => fleet::fleet(&arguments),
        Command::Promote(arguments) => promote::promote(&arguments),
        Command::Promotions(arguments) => promote::promotions(&arguments),
        Command::Drill(arguments) => drill::drill(&arguments),
        Command::Drills(arguments) => drill::drills(&arguments),
        Command::Cancel(arguments) => replay::cancel(&arguments),
        Command::Replay(arguments) => replay::replay(&arguments),
        Command::Replays(arguments) => replay::replays(&arguments),
        Command::Audit(command) => audit::audit(&command),
        Command::LogLevel(arguments) => log_level::log_level(&arguments),
        #[cfg(feature = "demo")]
        Command::Demo(demo) => demo::demo(&demo),
    })
}
