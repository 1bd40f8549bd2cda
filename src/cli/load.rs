//! From the command line to a checked configuration.

use super::arguments::ConfigArgs;
use super::out::complain;
use crate::config::{Loaded, Problem, Problems, Sources, load_with_files};
use crate::region::Region;

/// Loads the sources, and checks every file that they name: whether it is usable, and whether a region's files fit
/// together.
pub(super) fn loaded(sources: &Sources) -> Result<Loaded, Problems> {
    load_with_files(sources, |place, region| Region::load(place, region).err().map(Problem::from))
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
}
