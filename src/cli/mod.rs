//! The command line: `run`, `check`, `schema`, `regions`, `outcomes`, `why`, `route`, `healthcheck`, `await`, `log-level`,
//! `region`, `demo`.
//!
//! Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 78 the configuration is wrong.

mod arguments;
mod check;
mod client;
mod demo;
mod exit;
mod healthcheck;
mod load;
mod log_level;
mod modes;
mod out;
mod query;
mod region;
mod run;
mod runtime;
mod settle;
mod signals;
mod supervisor;
mod version;
mod wait;
mod why;

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use crate::base::text::parse_duration;
use arguments::{
    AwaitArgs, ConfigArgs, HealthcheckArgs, LogLevelArgs, OutcomesArgs, OutcomesCommand, QueryArgs, RegionArgs,
};
use exit::{DONE, FAILED};

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
    /// Show the regions of a running sidecar
    Regions(QueryArgs),
    /// Show the enqueues of a running sidecar that ended unknown, and what became of them; or decide it
    #[command(args_conflicts_with_subcommands = true)]
    Outcomes(OutcomesArgs),
    /// Ask a running sidecar how a job was routed, and why
    Why {
        /// The job's id, its OJS-Federation-Id or the X-Request-Id of its enqueue
        id: String,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Ask a running sidecar where a job would go, and why
    Route {
        /// A file with the job as JSON; - for standard input
        file: PathBuf,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Serve one OJS region in memory over plain HTTP, to try a federation on one machine
    Region(RegionArgs),
    /// Ask a running sidecar whether it lives; exit code 0 if so, else 1
    Healthcheck(HealthcheckArgs),
    /// Wait until regions of a running sidecar are healthy; exit code 0 once they are, 1 when the time is over
    Await(AwaitArgs),
    /// Show the log level of a running sidecar, or change it for a while; its admin listener must be on loopback
    LogLevel(LogLevelArgs),
    /// Start three regions in memory and a sidecar before them, and show what federation does
    Demo(DemoArgs),
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// The sidecar's port for clients on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 8080, value_parser = port)]
    port: u16,
    /// The sidecar's port for metrics and probes on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 9464, value_parser = port)]
    admin_port: u16,
    /// End after the tour: exit code 0 if all of it went as told, else 1
    #[arg(long)]
    tour_only: bool,
    /// No tour: enqueue for so long while everything fails, then check every job; exit code 0 if every promise was kept, else 1
    #[arg(long, value_name = "SECONDS", value_parser = |text: &str| whole(text, 1..=86_400))]
    chaos: Option<u64>,
    /// How many jobs are enqueued in that time
    #[arg(long, value_name = "N", requires = "chaos", value_parser = |text: &str| whole(text, 1..=10_000_000))]
    chaos_enqueues: Option<u64>,
    /// How often the sidecar is killed and started again, beside once for each way to break its journal
    #[arg(long, value_name = "N", requires = "chaos", default_value_t = 8, value_parser = |text: &str| whole(text, 0..=10_000))]
    chaos_kills: u64,
    /// The seed of the plan; without one a new one, which is printed
    #[arg(long, value_name = "N", requires = "chaos", value_parser = |text: &str| whole(text, 0..=u64::MAX))]
    chaos_seed: Option<u64>,
    /// What the regions do with an id that is taken; mixed: each another
    #[arg(long, value_name = "WHAT", requires = "chaos", default_value = "refuse", value_parser = demo::CHAOS_REGIONS)]
    chaos_regions: String,
    /// Some writes come so long after the end of their call, at most
    #[arg(long, value_name = "DURATION", requires = "chaos", value_parser = parse_duration)]
    chaos_late_writes: Option<Duration>,
    /// Every region speaks HTTP/2; without it one speaks HTTP/1.1 only
    #[arg(long, requires = "chaos")]
    chaos_http2: bool,
    /// The sidecar's own timings; without it short ones
    #[arg(long, requires = "chaos")]
    chaos_default_timings: bool,
    /// Regions lie and lag, clients use ids twice and have credentials, and the process is ended in more ways
    #[arg(long, requires = "chaos")]
    chaos_hostile: bool,
}

/// A whole number within bounds.
///
/// Errors: what was expected.
fn whole(text: &str, bounds: RangeInclusive<u64>) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| bounds.contains(number));
    number.ok_or_else(|| format!("expected a whole number from {} to {}", bounds.start(), bounds.end()))
}

fn port(text: &str) -> Result<u16, String> {
    let port = whole(text, 0..=u16::MAX.into())?;
    u16::try_from(port).map_err(|error| error.to_string())
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
        Command::Regions(query) => query::regions(&query),
        Command::Outcomes(OutcomesArgs { command: Some(OutcomesCommand::Settle(settle)), .. }) => {
            settle::settle(&settle)
        }
        Command::Outcomes(arguments) => query::outcomes(&arguments),
        Command::Why { id, query } => why::why(&id, &query),
        Command::Route { file, query } => query::route(&file, &query),
        Command::Region(region) => region::region(&region),
        Command::LogLevel(arguments) => log_level::log_level(&arguments),
        Command::Demo(demo) => demo::demo(&demo),
    })
}
