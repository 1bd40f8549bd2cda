//! `ojs-sidecar audit export` and `audit verify`: the audit trail of a hub.

mod bundle;
mod derived;
mod files;
mod history;
mod lines;
mod replays;
mod rows;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Subcommand};

use super::arguments::HubArgs;
use super::exit::{DONE, FAILED};
use super::out::{complain, say};
use crate::hub::{Verified, read_day, verify};
use history::Window;
use rows::read_rows;

#[derive(Debug, Subcommand)]
pub(super) enum AuditCommand {
    /// Print the audit trail of a hub, one JSON row a line, and its end on standard error
    #[command(group = ArgGroup::new("at").required(true).args(["hub"]))]
    Export {
        /// Only the rows behind this number
        #[arg(long, value_name = "N", default_value_t = 0)]
        after: u64,
        /// Write a bundle into this new folder instead: all rows, and a signed head over them
        #[arg(long, value_name = "DIR", conflicts_with = "after")]
        bundle: Option<PathBuf>,
        /// Add the records of the ledger from this day on, in UTC, such as 2026-03-15
        #[arg(long, value_name = "DAY", requires = "bundle", requires = "to", value_parser = day)]
        from: Option<String>,
        /// The last of these days
        #[arg(long, value_name = "DAY", requires = "from", value_parser = day)]
        to: Option<String>,
        /// Only the digests of the records of other tenants
        #[arg(long, value_name = "TENANT", requires = "from")]
        tenant: Option<String>,
        #[command(flatten)]
        hub: HubArgs,
    },
    /// Check an exported trail or a bundle; exit code 1 if a row was changed, is missing or is no row
    Verify {
        /// The exported file, - for standard input, or the folder of a bundle
        file: PathBuf,
        /// A public key in PEM that may have signed the bundle; several for keys that were replaced
        #[arg(long, value_name = "FILE", conflicts_with_all = ["start", "end"])]
        key: Vec<PathBuf>,
        /// A head that was signed before, of an earlier bundle or of the hub's log: its rows must be the first ones of this bundle
        #[arg(long, value_name = "FILE", requires = "key")]
        head: Vec<PathBuf>,
        /// The hash of the row before the first one, where the file does not begin at row 1
        #[arg(long, value_name = "HASH")]
        start: Option<String>,
        /// A hash that some row must have, as an earlier export has printed it: the file has that export's last row
        #[arg(long, value_name = "HASH")]
        end: Option<String>,
    },
}

fn day(text: &str) -> Result<String, String> {
    let day = read_day(text).map(|_| text.to_owned());
    day.ok_or_else(|| "expected a day in UTC, such as 2026-03-15".to_owned())
}

/// Carries out one of the two.
pub(super) fn audit(command: &AuditCommand) -> u8 {
    match command {
        AuditCommand::Export { bundle: Some(folder), from, to, tenant, hub, .. } => {
            let days = from.clone().zip(to.clone());
            let window = days.map(|(from, to)| Window { from, to, tenant: tenant.clone() });
            bundle::export(folder, window.as_ref(), hub)
        }
        AuditCommand::Export { after, hub, bundle: None, .. } => export(*after, hub),
        AuditCommand::Verify { file, key, head, .. } if file.is_dir() => bundle::check(file, key, head),
        AuditCommand::Verify { file, key, .. } if !key.is_empty() => {
            complain(format_args!("{}: expected the folder of a bundle, where a key is given", file.display()));
            FAILED
        }
        AuditCommand::Verify { file, start, end, .. } => check(file, start.as_deref(), end.as_deref()),
    }
}

/// Prints every row behind a number; exit code 1 where the hub does not answer.
fn export(after: u64, hub: &HubArgs) -> u8 {
    let mut end = None;
    let read = read_rows(hub, after, |row| {
        say(row.line().map_err(|error| error.to_string())?);
        end = Some((row.number, row.hash));
        Ok(true)
    });
    if read.is_none() {
        return FAILED;
    }
    match end {
        Some((row, hash)) => complain(format_args!("row {row} is the last one; its hash is {hash}")),
        None if after > 0 => complain(format_args!("the trail has no rows behind row {after}")),
        None => complain("the trail has no rows yet"),
    }
    DONE
}

/// Checks a file; exit code 1 for the first mistake in it.
fn check(file: &Path, start: Option<&str>, end: Option<&str>) -> u8 {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            complain(format_args!("{}: {error}", file.display()));
            return FAILED;
        }
    };
    match verify(text.lines(), start, end) {
        Ok(trail) => {
            say(shown(&trail));
            DONE
        }
        Err(error) => {
            complain(error);
            FAILED
        }
    }
}

/// The result, for the operator.
fn shown(trail: &Verified) -> String {
    let Verified { first, last, hash, end } = trail;
    let mut text = match last - first + 1 {
        1 => format!("row {first} is as it was written, and the only one; its hash is {hash}"),
        rows => format!(
            "{rows} rows are as they were written, row {first} to row {last}; the hash of the last one is {hash}"
        ),
    };
    if let Some(row) = end {
        text.push_str(&format!("\nthe hash of --end is that of row {row}"));
    }
    text
}
