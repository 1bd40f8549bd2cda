//! What an operator decides: read from layers, checked as a whole, then never changed.
//!
//! Files, variables and flags are merged by figment ([`load`]), held against one table of keys ([`keys()`]), read into a
//! raw mirror and checked into [`Config`]. Every problem of every stage is collected and reported at once, with its key,
//! its origin and the rule, and never with the value: a value in the wrong place is often a secret.

mod check;
mod document;
mod effective;
mod files;
mod keys;
mod layer;
mod names;
mod problem;
mod raw;
mod schema;
mod types;
mod url;
mod walk;

use std::path::PathBuf;

pub use effective::effective;
pub use files::check_files;
pub use keys::{Key, Kind, keys, table_markdown};
pub use problem::{Problem, Problems};
pub use schema::schema;
pub use types::*;

/// Where settings come from. Later sources win: files in their order, then variables, then flags.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Files in YAML or JSON. A list in a later file replaces the whole list of an earlier one.
    pub files: Vec<PathBuf>,
    /// Variables with their values; those without the prefix `OJSF_` are passed over. `__` stands between levels.
    pub env: Vec<(String, String)>,
    /// Dotted keys, such as `log.level`, with their values.
    pub flags: Vec<(String, String)>,
}

/// A configuration that has passed every rule.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Settings that are accepted and not honoured, and combinations that are allowed and unwise.
    pub warnings: Vec<Problem>,
}

/// Reads, merges and checks the configuration.
///
/// Errors: every problem of every source at once.
pub fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut problems = Vec::new();
    let Some(layers) = layer::Layers::read(sources, &mut problems) else { return Err(Problems(problems)) };
    let walked = walk::walk(&layers);
    let checked = check::check(walked);
    problems.extend(checked.problems);
    match checked.config {
        Some(config) if problems.is_empty() => Ok(Loaded { config, warnings: checked.warnings }),
        _ => Err(Problems(problems)),
    }
}

#[cfg(test)]
mod tests;
