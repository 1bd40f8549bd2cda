//! The documents say what the program does.

use std::collections::BTreeSet;
use std::path::Path;

use ojs_sidecar::config::{Sources, keys, load};
use ojs_sidecar::telemetry::metrics::FAMILIES;

use crate::support::command;

const DOCUMENTS: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/decisions.md", "deploy/README.md"];

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// What stands between backticks, outside blocks of code.
fn quoted(text: &str) -> Vec<String> {
    let prose: Vec<&str> = text.split("```").step_by(2).collect();
    prose.iter().flat_map(|prose| prose.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The cells of every table row.
fn rows(text: &str) -> Vec<Vec<String>> {
    let row = |line: &str| {
        let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
        Some(inner.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect())
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn links_lead_to_files_that_exist() {
    for name in DOCUMENTS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        for link in read(name).split("](").skip(1).map(|rest| rest.split(')').next().unwrap().to_owned()) {
            assert!(folder.with_file_name(&link).exists() || link.starts_with("http"), "{name} links to {link}");
        }
    }
}

#[test]
fn metrics_named_anywhere_exist() {
    let names: BTreeSet<String> = FAMILIES.iter().map(|family| family.full_name()).collect();
    for name in DOCUMENTS.into_iter().chain(["src/cli/demo/stage.rs"]) {
        for rest in read(name).split("ojs_federation_").skip(1) {
            let word: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            assert!(names.contains(&format!("ojs_federation_{word}")), "{name} names ojs_federation_{word}");
        }
    }
}

#[test]
fn settings_named_anywhere_exist() {
    let known: BTreeSet<&str> = keys().iter().map(|key| key.path).collect();
    let sections: BTreeSet<&str> = known.iter().filter_map(|path| path.split(['.', '[']).next()).collect();
    for name in DOCUMENTS {
        for word in quoted(&read(name)) {
            let word = word.split(':').next().unwrap().to_owned();
            let is_key = word.split_once('.').is_some_and(|(section, _)| sections.contains(section));
            let is_known = known.iter().any(|path| *path == word || path.starts_with(&format!("{word}[")));
            assert!(!is_key || is_known, "{name} names the setting {word}");
        }
    }
}

#[test]
fn readme_lists_every_command_and_its_commands_are_known() {
    let help = command(&["--help"], &[], "").stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: BTreeSet<&str> =
        listed.filter_map(|line| line.split_whitespace().next()).filter(|it| *it != "help").collect();
    let readme = read("README.md");
    let table: BTreeSet<String> =
        rows(&readme).iter().filter_map(|row| row[0].split(' ').next().map(str::to_owned)).collect();
    for name in &commands {
        assert!(table.contains(*name), "README does not list {name}");
    }
    for line in readme.lines().filter_map(|line| line.strip_prefix("ojs-sidecar ")) {
        assert!(commands.contains(line.split(' ').next().unwrap()), "README runs ojs-sidecar {line}");
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
        ("\ncargo test\n", "\nstep cargo test\n"),
        ("\ncargo run --release -- demo\n", "cargo run --release --locked -- demo"),
    ] {
        assert!(readme.contains(told) && checks.contains(run), "{told}");
    }
}
