//! The operator's settings: read from layers, checked as a whole, then never changed.
//!
//! Files, variables and flags are merged by figment ([`load`]), compared with one table of known keys ([`keys()`]), read into a
//! raw mirror and checked into [`Config`]. Every problem of every stage is collected and reported at once, with its key,
//! its origin and the rule, and never with the value: a value in the wrong place is often a secret.

mod check;
mod checked;
mod document;
mod effective;
mod files;
mod key;
mod keys;
mod kind;
mod layer;
mod names;
mod place;
mod problem;
mod put_pools;
mod raw;
mod restart;
mod schema;
mod section;
mod sections;
mod sources;
mod types;
mod url;
mod walk;
mod yaml;

use std::path::Path;

use check::Checked;
pub use check::{LOG_LEVEL_EXPECTED, REGIONS_MAX, is_log_level};
pub use checked::Config;
pub use effective::{effective, effective_json};
pub use files::FitCheck;
pub use key::Key;
pub use keys::keys;
pub use kind::Kind;
pub use problem::{Problem, Problems};
pub use put_pools::{PUT_POOL_BYTES_MAX, PUT_POOLS_MAX, PoolProblem, PutPool, misfit, put_configs};
pub use restart::live;
pub use schema::schema;
pub use sections::{
    Batch, CircuitBreaker, Compat, Decisions, Failover, HealthCheck, Idempotency, Journal, Limits, Lists, Load, Log,
    MetricsConfig, Queues, Readiness, Residency, RetryBudget, Routing, Shutdown, Spool, Workers,
};
pub use sources::Sources;
pub use types::*;
pub(crate) use url::{is_loopback, parse_url};

/// A configuration that has passed every rule.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Settings that are accepted and not honoured, and combinations that are allowed and unwise.
    pub warnings: Vec<Problem>,
}

/// Reads, merges and checks the configuration, but not the files that it names.
///
/// Errors: every problem of every source at once.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    read(sources).loaded()
}

/// Reads, merges and checks the configuration, and the files that it names: those of sections whose keys could be read, also when other
/// sections have problems. `misfit` finds out why the files of a region do not belong together.
///
/// Errors: every problem of every source and of every file at once.
pub fn load_with_files(sources: &Sources, misfit: FitCheck) -> Result<Loaded, Problems> {
    let mut read = read(sources);
    let of_files = files::problems(&read.regions, misfit);
    read.problems.extend(of_files);
    read.loaded()
}

/// Reads and checks some sections of a file with further ones, such as that of a hub: `text` is its content, `path` its name, against
/// whose folder relative paths are resolved. All other keys have their defaults.
///
/// Errors: every problem of these sections at once.
pub fn load_sections(text: &str, path: &Path, sections: &[&str]) -> Result<Loaded, Problems> {
    let mut problems = Vec::new();
    let document = document::parse(text, &path.display().to_string(), &mut problems);
    let layers = document.map(|mut document| {
        document.settings.retain(|section, _| sections.contains(&section.as_str()));
        layer::Layers::of(path, document, &mut problems)
    });
    checked(layers, problems).loaded()
}

fn read(sources: &Sources) -> Checked {
    let mut problems = Vec::new();
    let layers = layer::Layers::read(sources, &mut problems);
    checked(layers, problems)
}

fn checked(layers: Option<layer::Layers>, mut problems: Vec<Problem>) -> Checked {
    let Some(layers) = layers else { return Checked { problems, ..Checked::default() } };
    let mut checked = check::check(walk::walk(&layers));
    problems.append(&mut checked.problems);
    Checked { problems, ..checked }
}

impl Checked {
    fn loaded(self) -> Result<Loaded, Problems> {
        let Self { config, regions: _, problems, warnings } = self;
        match config {
            Some(config) if problems.is_empty() => Ok(Loaded { config, warnings }),
            _ => Err(Problems { problems, warnings }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
