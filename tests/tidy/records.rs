//! The decision records: their form, the paths, tests and settings that they name, and their index in `docs/decisions.md`.

use std::collections::BTreeSet;
use std::fs;

use crate::{assert_none, files, read, root};

const INDEX: &str = "docs/decisions.md";
const FOLDER: &str = "docs/adr/";
const LINES_MAX: usize = 25;
/// From this number on a record names its code and its tests.
const NAMES_CODE_FROM: u32 = 300;
const AREAS: [&str; 9] = ["protocol", "routing", "health", "net", "config", "telemetry", "journal", "build", "tests"];
const HEADINGS: [&str; 3] = ["## Context", "## Decision", "## Alternatives"];
/// Where the code of the project is.
pub(crate) const CODE: &[&str] = &["src", "crates", "tests", "benches", "fuzz"];
/// Folders of the project: a quoted word below one of them is a path that exists.
const FOLDERS: [&str; 8] = ["src/", "tests/", "crates/", "docs/", "benches/", "deploy/", "tools/", "fuzz/"];

/// One record: `docs/adr/NNNN-title.md`.
struct Record {
    /// The file's name in the folder.
    name: String,
    /// The first line without its mark: number and title.
    title: String,
    area: String,
    text: String,
}

impl Record {
    fn new(path: &str, text: String) -> Self {
        let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default().to_owned();
        let status = text.lines().find_map(|line| line.strip_prefix("Status: accepted. Area: "));
        let area = status.and_then(|rest| rest.strip_suffix('.')).unwrap_or_default().to_owned();
        Self { name: path[FOLDER.len()..].to_owned(), title, area, text }
    }

    fn number(&self) -> &str {
        self.name.split('-').next().unwrap()
    }

    /// The words in backticks of the lines that begin with `field`, up to the next empty line or field.
    fn listed(&self, field: &str) -> Vec<&str> {
        let lines = self.text.lines().skip_while(|line| !line.starts_with(field));
        let mut lines = lines.enumerate().take_while(|(at, line)| *at == 0 || line.starts_with('`'));
        let words = lines.by_ref().flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
        words.collect()
    }

    /// The words in backticks anywhere in the record.
    fn quoted(&self) -> Vec<&str> {
        self.text.split('`').skip(1).step_by(2).collect()
    }

    fn problems(&self, is_test: &dyn Fn(&str) -> bool) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.title.starts_with(&format!("{}. ", self.number())) {
            problems.push("the first line is `# NNNN. Title` with the number of the file".to_owned());
        }
        if !AREAS.contains(&self.area.as_str()) {
            problems.push(format!("the third line is `Status: accepted. Area: X.` with one of {AREAS:?}"));
        }
        let mut headings = self.text.lines().filter(|line| line.starts_with("## "));
        problems.extend(
            HEADINGS.iter().filter(|it| !headings.any(|line| line == **it)).map(|it| format!("{it} is missing")),
        );
        if self.text.lines().count() > LINES_MAX {
            problems.push(format!("more than {LINES_MAX} lines"));
        }
        if self.number().parse::<u32>().is_ok_and(|number| number >= NAMES_CODE_FROM) {
            let has = |field: &str| self.text.lines().any(|line| line.starts_with(field));
            if self.listed("Code: ").is_empty() || !has("Test: ") {
                problems.push("names no code, or no test (`Test: none.` where none can be)".to_owned());
            }
        }
        problems.extend(self.quoted().into_iter().filter(|word| is_missing(word)).map(|it| format!("no path {it}")));
        problems.extend(self.listed("Code: ").into_iter().filter(|it| !root().join(it).exists()).map(str::to_owned));
        problems.extend(
            self.listed("Test: ").into_iter().filter(|it| !is_test(it)).map(|it| format!("no test called {it}")),
        );
        problems.into_iter().map(|problem| format!("{FOLDER}{}: {problem}", self.name)).collect()
    }
}

/// The names of all functions of these files.
pub(crate) fn functions(code: &[(String, String)]) -> BTreeSet<&str> {
    let sources = code.iter().filter(|(path, _)| path.ends_with(".rs"));
    sources.flat_map(|(_, text)| text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next())).collect()
}

/// Whether a quoted word is a path of the project that does not exist.
fn is_missing(word: &str) -> bool {
    let is_path = FOLDERS.iter().any(|folder| word.starts_with(folder)) && !word.contains(['*', ' ', '<', '{']);
    is_path && !root().join(word).exists()
}

fn records() -> Vec<Record> {
    let found = files(&["docs/adr"]).into_iter().filter(|(path, _)| !path.ends_with("/README.md"));
    found.map(|(path, text)| Record::new(&path, text)).collect()
}

/// The lines of the index: each area with its records.
fn index(records: &[Record]) -> String {
    let section = |area: &str| {
        let lines = records.iter().filter(|it| it.area == area);
        let lines: String = lines.map(|it| format!("- [{}](adr/{})\n", it.title, it.name)).collect();
        format!("\n## {}{}\n\n{lines}", area[..1].to_uppercase(), &area[1..])
    };
    AREAS.iter().map(|area| section(area)).collect()
}

#[test]
fn every_record_has_its_form_and_names_what_exists() {
    let code = files(CODE);
    let names = functions(&code);
    let records = records();
    assert!(records.len() > 100, "docs/adr is not where it was");
    let mut problems: Vec<String> = records.iter().flat_map(|it| it.problems(&|name| names.contains(name))).collect();
    let numbers: BTreeSet<&str> = records.iter().map(Record::number).collect();
    if numbers.len() < records.len() {
        problems.push("two records have the same number".to_owned());
    }
    assert_none(&problems);
}

#[test]
fn settings_that_records_name_exist() {
    let known: BTreeSet<&str> = ojs_sidecar::config::keys().iter().map(|key| key.path).collect();
    let sections: BTreeSet<&str> = known.iter().filter_map(|path| path.split(['.', '[']).next()).collect();
    let mut problems = Vec::new();
    for record in records() {
        for word in record.quoted() {
            let word = word.split(':').next().unwrap_or_default();
            let is_file = word.rsplit_once('.').is_some_and(|(_, end)| ["rs", "md", "toml", "yaml"].contains(&end));
            let is_key = word.split_once('.').is_some_and(|(section, _)| sections.contains(section)) && !is_file;
            let is_below = |path: &str| path.strip_prefix(word).is_some_and(|rest| rest.starts_with(['[', '.']));
            let is_known = known.iter().any(|path| *path == word || is_below(path));
            if is_key && !is_known {
                problems.push(format!("{FOLDER}{} names the setting {word}", record.name));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn the_index_lists_every_record_by_area() {
    let (text, lines) = (read(INDEX), index(&records()));
    let head = text.split("\n## ").next().unwrap().trim_end();
    let expected = format!("{head}\n{lines}");
    if std::env::var_os("DOCS_UPDATE").is_some() {
        fs::write(root().join(INDEX), expected).unwrap();
    } else {
        assert!(text == expected, "{INDEX} is out of date; run: DOCS_UPDATE=1 cargo test --test tidy");
    }
}

#[test]
fn a_record_without_its_form_is_seen() {
    let text = "# 0999. Title\n\nStatus: accepted. Area: net.\nCode: `src/nowhere.rs`.\nTest: `no_such_test`.\n\n## Context\n\n## Decision\n";
    let record = Record::new("docs/adr/0999-title.md", text.to_owned());
    let found = record.problems(&|_| false);
    assert_eq!(found.len(), 4, "{found:?}");
}
