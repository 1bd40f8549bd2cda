//! The documents say what the program does.

mod blocks;
mod book;
mod commands;
mod guide;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ojs_sidecar::config::{Sources, keys, load};
use ojs_sidecar::telemetry::metrics::FAMILIES;

use crate::support::command;

/// Documents beside the pages of [`FOLDERS`].
const DOCUMENTS: [&str; 12] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/README.md",
    "docs/README.md",
    "docs/decisions.md",
    "docs/failure.md",
    "docs/limits.md",
    "docs/outcomes.md",
    "docs/runbook.md",
];
const FOLDERS: [&str; 2] = ["docs/guide", "docs/reference"];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The Markdown pages that lie in a folder, in order.
fn pages_of(folder: &str) -> Vec<String> {
    let names = std::fs::read_dir(file(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}"));
    pages.collect::<BTreeSet<_>>().into_iter().collect()
}

fn documents() -> Vec<String> {
    DOCUMENTS.into_iter().map(str::to_owned).chain(FOLDERS.into_iter().flat_map(pages_of)).collect()
}

/// What stands between backticks, outside blocks of code.
fn quoted(text: &str) -> Vec<String> {
    let prose: Vec<&str> = text.split("```").step_by(2).collect();
    prose.iter().flat_map(|prose| prose.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

#[test]
fn metrics_named_anywhere_exist() {
    let names: BTreeSet<String> = FAMILIES.iter().map(|family| family.full_name()).collect();
    for name in documents().iter().map(String::as_str).chain(["src/cli/demo/stage.rs"]) {
        let text = read(name);
        for (at, _) in ["ojs_federation_", "ojs_scheduling_"].iter().flat_map(|prefix| text.match_indices(prefix)) {
            let word: String = text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            assert!(names.contains(&word), "{name} names {word}");
        }
    }
}

/// Names that look like settings: events of the specification of fair scheduling, and the type and the meta of tasks of UWER.
const OTHERS: [&str; 8] = [
    "scheduling.queue_starved",
    "scheduling.pool_overloaded",
    "scheduling.rebalanced",
    "uwer.task",
    "uwer.origin_service",
    "uwer.workflow_id",
    "uwer.idempotency_key",
    "uwer.priority",
];

#[test]
fn settings_named_anywhere_exist() {
    let known: BTreeSet<&str> = keys().iter().map(|key| key.path).collect();
    let sections: BTreeSet<&str> = known.iter().filter_map(|path| path.split(['.', '[']).next()).collect();
    for name in documents() {
        for word in quoted(&read(&name)) {
            let word = word.split(':').next().unwrap().trim_end_matches("[]").to_owned();
            let is_key = word.split_once('.').is_some_and(|(section, _)| sections.contains(section));
            let is_key = is_key && !word.ends_with(".md") && !word.ends_with(".rs");
            let within = |path: &str| path.strip_prefix(&word).is_some_and(|rest| rest.starts_with(['[', '.']));
            let is_known = known.iter().any(|path| *path == word || within(path));
            assert!(!is_key || is_known || OTHERS.contains(&word.as_str()), "{name} names the setting {word}");
        }
    }
}

#[test]
fn the_configurations_that_deploy_brings_load_without_a_warning() {
    for file in ["deploy/kubernetes/sidecar/config.yaml", "deploy/compose/config.yaml"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let sources = Sources { files: vec![path], ..Sources::default() };
        let loaded = load(&sources).unwrap_or_else(|problems| panic!("{file}: {problems}"));
        assert!(!loaded.config.regions.is_empty() && loaded.warnings.is_empty(), "{file}: {:?}", loaded.warnings);
    }
}

#[test]
fn what_readme_tells_to_run_is_what_the_checks_run() {
    let (readme, checks) = (read("README.md"), read(".ci/run"));
    for (told, run) in [
        ("\ncargo test --locked\n", "\nstep cargo test --locked\n"),
        ("\ncargo run --release -- demo\n", "cargo run --release --locked -- demo"),
    ] {
        assert!(readme.contains(told) && checks.contains(run), "{told}");
    }
}
