//! From the command line to a checked configuration.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::arguments::ConfigArgs;
use super::out::complain;
use crate::config::{Loaded, Problem, Problems, Sources, load_with_files};
use crate::region::Region;

/// Loads the sources, and checks every file that they name: whether it is usable, and whether a region's files fit
/// together.
pub(super) fn loaded(sources: &Sources) -> Result<Loaded, Problems> {
    load_with_files(sources, |place, region| Region::load(place, region).err().map(Problem::from))
}

/// Keys of a hub's configuration that no sidecar has.
const OF_HUBS: [&str; 4] = ["access", "admin", "record", "tokens"];
/// A longer file is no configuration. Units: bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Whether a file has one of these keys at its top level; false where it cannot be read.
pub(super) fn has_key(file: &Path, keys: &[&str]) -> bool {
    let Ok(file) = File::open(file) else { return false };
    let mut text = String::new();
    let is_read = file.take(FILE_BYTES_MAX).read_to_string(&mut text).is_ok();
    let key = |line: &str| line.split_once(':').map(|(key, _)| key.trim_end().to_owned());
    is_read && text.lines().filter_map(key).any(|key| keys.contains(&key.as_str()))
}

/// Where the arguments say that the configuration comes from.
pub(super) fn sources(arguments: &ConfigArgs) -> Result<Sources, Problems> {
    let mut flags = Vec::new();
    for set in &arguments.set {
        let Some((key, value)) = set.split_once('=') else {
            let problem = Problem {
                key: "--set".to_owned(),
                origin: "command line".to_owned(),
                rule: "expected KEY=VALUE, such as --set log.level=debug".to_owned(),
            };
            return Err(Problems { problems: vec![problem], warnings: Vec::new() });
        };
        flags.push((key.to_owned(), value.to_owned()));
    }
    if let Some(region) = &arguments.local_region {
        flags.push(("local_region".to_owned(), region.clone()));
    }
    // Variables that are not UTF-8 cannot be ours: every key and every value of ours is text.
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Ok(Sources { files: arguments.config.clone(), env: env.collect(), flags })
}

/// Prints the warnings.
pub(super) fn warn_of(warnings: &[Problem]) {
    for warning in warnings {
        complain(format_args!("warning: {warning}"));
    }
}

/// Prints the problems, after the warnings.
pub(super) fn complain_of(arguments: &ConfigArgs, problems: &Problems) {
    warn_of(&problems.warnings);
    complain(problems);
    if arguments.config.is_empty() && problems.problems.iter().any(|problem| problem.key == "regions") {
        complain("hint: give a configuration with --config FILE; config/minimal.yaml shows the shortest one");
    }
    if arguments.config.iter().any(|file| has_key(file, &OF_HUBS)) {
        complain("hint: this looks like the configuration of a hub, which `ojs-sidecar hub --config FILE` takes");
    }
}
