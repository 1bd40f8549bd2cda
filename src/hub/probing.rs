//! The sections of a hub's configuration that are those of a sidecar: the regions that it probes, and how.

use std::path::Path;

use crate::config::{Config, load_sections};

/// The sections, which have the keys and the defaults of a sidecar's.
const SECTIONS: [&str; 4] = ["regions", "health_check", "load", "insecure_dev"];

/// Reads the sections from the text of the file at `path`, against whose folder relative paths are resolved.
///
/// Errors: each mistake, with its key.
pub(super) fn probing(text: &str, path: &Path) -> Result<Config, Vec<String>> {
    let problems = match load_sections(text, path, &SECTIONS) {
        Ok(loaded) => return Ok(loaded.config),
        Err(problems) => problems.problems,
    };
    let shown = problems.iter().map(|problem| match problem.key.as_str() {
        "health_check.source" => "health_check.source: expected own: a hub probes by itself".to_owned(),
        _ => problem.to_string(),
    });
    Err(shown.collect())
}
