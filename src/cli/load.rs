//! From the command line to a checked configuration.

use super::ConfigArgs;
use super::out::complain;
use crate::config::{Config, Loaded, Problem, Problems, Sources, check_files, load};
use crate::region::Region;

/// Loads what the arguments, the environment and the files say.
pub(super) fn loaded(arguments: &ConfigArgs) -> Result<Loaded, Problems> {
    load(&sources(arguments)?)
}

/// Where the arguments say that the configuration comes from.
pub(super) fn sources(arguments: &ConfigArgs) -> Result<Sources, Problems> {
    let mut flags = Vec::new();
    for set in &arguments.set {
        let Some((key, value)) = set.split_once('=') else {
            return Err(Problems(vec![Problem {
                key: "--set".to_owned(),
                origin: "command line".to_owned(),
                rule: "expected KEY=VALUE, such as --set log.level=debug".to_owned(),
            }]));
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

/// Whether the files that a configuration names can be used.
///
/// Errors: every file that is missing or holds something else; else every region whose files do not fit together.
pub(super) fn usable_files(config: &Config) -> Result<(), Problems> {
    let mut problems = check_files(config);
    if problems.is_empty() {
        let loaded = config.regions.iter().enumerate().map(|(place, region)| Region::load(place, region));
        problems = loaded.filter_map(|region| region.err().map(Problem::from)).collect();
    }
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

/// Says what is wrong.
pub(super) fn complain_of(problems: &Problems) {
    complain(problems);
    if problems.0.iter().any(|problem| problem.key == "regions") {
        complain("hint: give a configuration with --config FILE; config/minimal.yaml shows the shortest one");
    }
}
