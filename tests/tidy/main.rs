//! Style as a test: what reviewers would otherwise have to say again and again.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its own project has failed")]

mod circles;
mod clauses;
mod imports;
mod records;
mod reference;
mod rooms;
mod strategies;
mod tokens;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ojs_sidecar::base::{Code, Reason};
use ojs_sidecar::telemetry::metrics;

const CONFIGURATION: &str = "docs/reference/configuration.md";

/// The parts of documents that come from the code: the document, the markers around the part, and what makes it.
const PARTS: &[(&str, &str, &str, Part)] = &[
    (CONFIGURATION, "<!-- config-table -->", "<!-- /config-table -->", reference::configuration),
    (CONFIGURATION, "<!-- restart-keys -->", "<!-- /restart-keys -->", reference::restart_keys),
    ("docs/reference/errors.md", "<!-- errors-table -->", "<!-- /errors-table -->", Reason::table_markdown),
    ("docs/reference/metrics.md", "<!-- metrics-table -->", "<!-- /metrics-table -->", metrics::table_markdown),
    ("docs/reference/api.md", "<!-- api-table -->", "<!-- /api-table -->", reference::own_endpoints),
    ("docs/openapi.yaml", "            # codes", "            # /codes", codes),
    ("docs/openapi.yaml", "        # reasons", "        # /reasons", reasons),
];

type Part = fn() -> String;

/// The codes of errors, as the description of the API lists them.
fn codes() -> String {
    Code::ALL.iter().map(|code| format!("            - {}\n", code.as_str())).collect()
}

/// The reasons of errors, each word once.
fn reasons() -> String {
    let words: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    words.into_iter().map(|word| format!("        - {word}\n")).collect()
}

const LINES_MAX: usize = 400;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All text files of the project: path from its folder, and content.
fn files(below: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = below.iter().map(|name| root().join(name)).filter(|path| path.exists()).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), ".git" | "target") && !name.ends_with("/target") {
                    folders.push(path);
                }
            } else if name == ".git" {
                // A file in a linked work tree: it points into the machine and is not part of the project.
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((name, text));
            }
        }
    }
    found.sort();
    found
}

/// The folders of the packages; the program's own is the project's.
const PACKAGES: [&str; 3] = ["", "crates/handles/", "crates/testbed/"];

/// The sources of a package, by their paths within it.
fn package_files(package: &str) -> Vec<(String, String)> {
    let found = files(&[&format!("{package}src")]).into_iter();
    found.map(|(path, text)| (path.strip_prefix(package).unwrap_or(&path).to_owned(), text)).collect()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[derive(Debug, PartialEq)]
struct Floor {
    number: u32,
    /// Folders of the same floor that may be imported all the same.
    also: Vec<String>,
}

/// The rows `| floor | folder | imports |`.
fn floors(architecture: &str) -> BTreeMap<String, Floor> {
    let rows = architecture.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [number, folder, imports] = cells.as_slice() else { return None };
        let also = imports.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Some((folder.trim_matches('`').to_owned(), Floor { number: number.parse().ok()?, also }))
    });
    rows.collect()
}

/// The names that follow `crate::` in code that is not a test, groups in braces included.
fn imports(source: &str) -> Vec<String> {
    let code: String = source
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        let Some(group) = after.strip_prefix('{') else {
            found.push(name(after));
            continue;
        };
        let mut depth = 0_u32;
        let mut at_name = true;
        for (place, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => at_name = true,
                _ if at_name && !c.is_whitespace() => {
                    found.push(name(&group[place..]));
                    at_name = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn folders_import_only_from_lower_floors() {
    let floors = floors(&read("ARCHITECTURE.md"));
    assert!(floors.len() >= 13, "the floor table is not readable: {floors:?}");
    let mut problems = Vec::new();
    for (path, text) in files(&["src"]) {
        let Some((folder, rest)) = path.strip_prefix("src/").and_then(|path| path.split_once('/')) else { continue };
        let Some(own) = floors.get(folder) else {
            problems.push(format!("{path}: src/{folder} is not in the floor table of ARCHITECTURE.md"));
            continue;
        };
        // Tests of a folder may use what stands above it, such as the demo regions.
        if rest.ends_with("tests.rs") || rest.contains("tests/") {
            continue;
        }
        for name in imports(&text) {
            let Some(other) = floors.get(&name) else { continue };
            if name != folder && other.number >= own.number && !own.also.contains(&name) {
                problems
                    .push(format!("{path}: {folder} (floor {}) imports {name} (floor {})", own.number, other.number));
            }
        }
    }
    assert_none(&problems);
}

/// The packages of this workspace that a manifest depends on.
fn own_dependencies(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().filter(|line| line.starts_with("ojs-") && line.contains('='));
    lines.map(|line| line.split([' ', '=', '.']).next().unwrap_or(line)).collect()
}

#[test]
fn the_testbed_has_nothing_of_the_program() {
    assert_eq!(own_dependencies(&read("crates/testbed/Cargo.toml")), ["ojs-handles"]);
    assert!(own_dependencies(&read("crates/handles/Cargo.toml")).is_empty());
    assert_eq!(own_dependencies("[dependencies]\nojs-sidecar = { path = \"../..\" }\n"), ["ojs-sidecar"]);
}

#[test]
fn the_import_reader_sees_groups_and_paths_and_skips_tests_and_comments() {
    let source = "//! [`crate::cli`]\nuse crate::base::{Clock, Draw};\nuse crate::{net::Pool, policy::{View, route},\n    store};\n\
                  fn f() { crate::app::build() }\n#[cfg(test)]\nmod tests {\n    use crate::demo::Region;\n}\n";
    assert_eq!(imports(source), ["base", "net", "policy", "store", "app"]);
    let table = floors("| floor | folder | imports |\n|---|---|---|\n| 1 | `telemetry` | floor 0, and `config` |\n");
    let expected = Floor { number: 1, also: vec!["config".to_owned()] };
    assert_eq!(table, BTreeMap::from([("telemetry".to_owned(), expected)]));
}

/// What the pure machine of outcomes must not reach for: a runtime, sockets, files, clocks, what carries its actions out.
const OUTSIDE: &[&str] = &[
    "tokio",
    "hyper",
    "http::",
    "crate::net",
    "crate::journal",
    "std::net",
    "std::fs",
    "Instant",
    "SystemTime",
    "async fn",
];
/// How a string is compared with another one.
const EQUALITIES: &[&str] = &["== \"", "!= \"", "\" =>", "\" | \"", "\" if ", "as_str() ==", "as_str() !="];
/// How it is looked through.
const SEARCHES: &[&str] = &["starts_with(", "ends_with(", "contains(\"", "eq_ignore_ascii_case("];
/// Where words from outside become enums or bits: a region's word for a job's state, the API's for a placement's, and what clients
/// write in a head.
const READERS: &[(&str, &str)] = &[
    ("src/outcome/word.rs", "\""),
    ("src/outcome/placement.rs", "state.as_str() == word"),
    ("src/proxy/call/header_flags.rs", "\" => Self::"),
    ("src/proxy/call/exchange.rs", "lower == \"localhost\""),
    ("src/proxy/stream/local.rs", "length != \"0\""),
];

/// The lines of code that compare text in one of these ways; comments, readers and a file's own tests are left out.
fn comparisons(path: &str, text: &str, ways: &[&str]) -> Vec<String> {
    let is_reader = |line: &str| READERS.iter().any(|(file, mark)| *file == path && line.contains(mark));
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = (1..).zip(code.lines()).filter(|(_, line)| !line.trim_start().starts_with("//") && !is_reader(line));
    let found = lines.filter_map(|(number, line)| Some((number, ways.iter().find(|word| line.contains(**word))?)));
    found.map(|(number, word)| format!("{path}:{number}: {word}: no text decides; match an enum")).collect()
}

/// What the code of the machine has that it must not have.
fn impure(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//")) {
        let outside = OUTSIDE.iter().filter(|word| line.contains(**word));
        problems.extend(outside.map(|word| format!("{path}:{number}: {word}: time and answers are arguments here")));
    }
    problems.extend(comparisons(path, text, &[EQUALITIES, SEARCHES].concat()));
    problems
}

#[test]
fn the_machine_of_outcomes_reaches_for_nothing_and_compares_no_text() {
    let code = files(&["src/outcome"]).into_iter().filter(|(path, _)| !path.contains("/tests/"));
    let code: Vec<_> = code.collect();
    assert!(code.len() > 5, "src/outcome is not where it was");
    assert_none(&code.iter().flat_map(|(path, text)| impure(path, text)).collect::<Vec<_>>());
}

#[test]
fn no_text_decides_what_is_done_with_a_call() {
    let code = files(&["src/proxy", "src/app"]).into_iter();
    let code: Vec<_> = code.filter(|(path, _)| !path.contains("/tests/") && !path.ends_with("tests.rs")).collect();
    assert!(code.len() > 50, "src/proxy and src/app are not where they were");
    assert_none(&code.iter().flat_map(|(path, text)| comparisons(path, text, EQUALITIES)).collect::<Vec<_>>());
    // What makes it impossible for the errors of our own: a reason compares with reasons only.
    let reasons = read("src/base/reason.rs") + &read("src/base/words.rs");
    assert!(!reasons.contains("PartialEq<") && !reasons.contains("Deref"), "a reason is compared with a text");
}

#[test]
fn a_decision_by_text_is_seen() {
    let code = "// == \"a\"\nif document.reason.as_str() == \"retry_budget\" {}\nmatch word {\n    \"a\" => 1,\n    A => \"a\",\n}\n\
                #[cfg(test)]\nmod tests {\n    it == \"a\"\n}\n";
    assert_eq!(comparisons("src/proxy/a.rs", code, EQUALITIES).len(), 2);
    assert!(comparisons("src/proxy/stream/local.rs", "if length != \"0\" {", EQUALITIES).is_empty());
}

#[test]
fn an_impure_machine_is_seen() {
    let code =
        "//! tokio\nuse tokio::time::Instant;\nmatch word {\n    \"open\" => 1,\n    State::Open => \"open\",\n}\n";
    assert_eq!(impure("src/outcome/a.rs", code).len(), 3);
    let reader = "\"completed\" | \"discarded\" => Self::Ended,";
    assert!(impure("src/outcome/word.rs", reader).is_empty());
    assert_eq!(impure("src/outcome/call.rs", reader).len(), 1);
}

/// `text` with `part` between the lines `open` and `close`.
fn with_part(text: &str, open: &str, close: &str, part: &str) -> String {
    let (before, rest) = text.split_once(&format!("{open}\n")).unwrap_or_else(|| panic!("{open} is not there"));
    let (_, after) = rest.split_once(close).unwrap_or_else(|| panic!("{close} is not there"));
    format!("{before}{open}\n{part}{close}{after}")
}

#[test]
fn the_tables_of_documents_are_those_of_the_code() {
    let lists = strategies::LISTS.iter().map(|(name, ..)| name);
    for name in PARTS.iter().map(|(name, ..)| name).chain(lists).collect::<BTreeSet<_>>() {
        let document = read(name);
        let parts = PARTS.iter().filter(|(document, ..)| document == name);
        let expected =
            parts.fold(document.clone(), |text, (_, open, close, part)| with_part(&text, open, close, &part()));
        let lists = strategies::LISTS.iter().filter(|(document, ..)| document == name);
        let expected = lists.fold(expected, |text, list| strategies::with_list(&text, list));
        if std::env::var_os("DOCS_UPDATE").is_some() {
            fs::write(root().join(name), &expected).unwrap();
        } else {
            assert!(document == expected, "{name} is out of date; run: DOCS_UPDATE=1 cargo test --test tidy");
        }
    }
}

#[test]
fn files_can_be_read_in_one_go() {
    let mut problems = Vec::new();
    for (path, text) in files(&["src", "crates"]) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            problems.push(format!("{path} has {lines} lines; split it (at most {LINES_MAX})"));
        }
    }
    let lines = read("ARCHITECTURE.md").lines().count();
    if lines > 150 {
        problems.push(format!("ARCHITECTURE.md has {lines} lines; it is to be read in one go (at most 150)"));
    }
    assert_none(&problems);
}

/// The files of the reader's way through one enqueue.
fn way_of_an_enqueue(architecture: &str) -> Vec<String> {
    let paragraph = architecture.split("\n\n").find(|text| text.starts_with("A reader who follows one enqueue"));
    let quoted = paragraph.into_iter().flat_map(|text| text.split('`').skip(1).step_by(2));
    let mut files: Vec<String> =
        quoted.filter(|name| name.ends_with(".rs")).map(|name| format!("src/{name}")).collect();
    files.sort();
    files.dedup();
    files
}

#[test]
fn one_enqueue_is_followed_through_forty_files_that_exist() {
    let way = way_of_an_enqueue(&read("ARCHITECTURE.md"));
    assert!((20..=40).contains(&way.len()), "{} files", way.len());
    assert_none(&way.into_iter().filter(|path| !root().join(path).is_file()).collect::<Vec<_>>());
    assert_eq!(way_of_an_enqueue("x\n\nA reader who follows one enqueue: `a.rs`, `b`"), ["src/a.rs"]);
}

#[test]
fn nothing_is_left_unfinished_or_waited_for() {
    // Taken apart, so that this file does not hold the words itself.
    let words = [
        (concat!("TO", "DO"), "finish it or drop it"),
        (concat!("FIX", "ME"), "finish it or drop it"),
        (concat!("XX", "X"), "finish it or drop it"),
        (concat!("todo", "!("), "finish it or drop it"),
        (concat!("unimplemented", "!("), "finish it or drop it"),
        (concat!("dbg", "!("), "remove it"),
        (concat!("thread::", "sleep"), "steer base::Clock, or wait for the event"),
        (concat!("#[ig", "nore"), "a test runs or goes"),
    ];
    let mut problems = Vec::new();
    for (path, text) in files(&["src", "crates", "tests"]) {
        for (number, line) in (1..).zip(text.lines()) {
            for (word, advice) in words.iter().filter(|(word, _)| line.contains(word)) {
                problems.push(format!("{path}:{number}: {word}: {advice}"));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn no_file_holds_a_private_key_or_a_path_of_a_machine() {
    let key = concat!("PRIVATE ", "KEY-----");
    let paths = [concat!("/wo", "rk/"), concat!("/fa", "rm/"), concat!("/ro", "ot/")];
    let mut problems = Vec::new();
    for (path, text) in files(&["."]) {
        for (number, line) in (1..).zip(text.lines()) {
            if line.contains(key) && line.contains("BEGIN") {
                problems.push(format!("{path}:{number}: a private key; make it at run time"));
            }
            if let Some(found) = paths.iter().find(|found| line.contains(**found)) {
                problems.push(format!("{path}:{number}: a path of a machine: {found}"));
            }
        }
    }
    assert_none(&problems);
}
