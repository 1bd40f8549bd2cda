//! Strategies: the documents that list them, and the files that name one.

use ojs_sidecar::base::{Needs, Strategy};

use crate::{assert_none, files, reference};

/// A list within a document, of strategies for the most part: the document, the text before and after the list, and its generator.
pub(crate) type List = (&'static str, &'static str, &'static str, fn() -> String);

pub(crate) const LISTS: &[List] = &[
    ("docs/reference/meta.md", "| `ojs.federation.region_affinity` | client | the strategy: ", " |", quoted),
    ("docs/glossary.md", "| strategy | how a region is chosen: ", " |", quoted),
    (
        "config/example.yaml",
        "  # For jobs that name no strategy and match no rule. One of:\n  # ",
        "\n",
        Strategy::list,
    ),
    ("docs/SUMMARY.md", "- [Decision records](adr/README.md)\n", "- [Decisions](decisions.md)", reference::records),
    ("docs/openapi.yaml", "ojs.federation.region_affinity: { enum: [", ", null]", named_by_jobs),
    ("docs/openapi.yaml", "    Strategy:\n      type: string\n      enum: [", "]", Strategy::list),
];

/// Names in code quotes, for Markdown.
fn quoted() -> String {
    Strategy::ALL.map(|strategy| format!("`{strategy}`")).join(", ")
}

/// The names that a job may have in its meta without a region beside them.
fn named_by_jobs() -> String {
    let all = Strategy::ALL.into_iter().map(Strategy::as_str).chain(Strategy::ALIASES.iter().copied());
    let free = |name: &&str| Strategy::parse(name).is_ok_and(|strategy| strategy.needs() != Needs::Region);
    all.filter(free).collect::<Vec<_>>().join(", ")
}

/// `text` with the list between `before` and `after`.
pub(crate) fn with_list(text: &str, &(name, before, after, list): &List) -> String {
    let (head, rest) = text.split_once(before).unwrap_or_else(|| panic!("{name}: {before} is not there"));
    let (_, tail) = rest.split_once(after).unwrap_or_else(|| panic!("{name}: {after} is not there"));
    format!("{head}{before}{}{after}{tail}", list())
}

/// The files that may name a single strategy: the table, and the match from a strategy to its rules.
const NAMERS: &[&str] = &["src/base/strategy.rs", "src/policy/route/strategy/mod.rs"];

/// The lines of code that name a variant; comments and a file's own tests are left out.
fn variants(path: &str, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = (1..).zip(code.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"));
    let is_variant = |after: &str| {
        let name = after.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.contains(|c: char| c.is_ascii_lowercase())
    };
    let found = lines.filter(|(_, line)| line.split("Strategy::").skip(1).any(is_variant));
    found.map(|(number, line)| format!("{path}:{number}: {}: ask its rules instead", line.trim())).collect()
}

#[test]
fn only_the_table_and_the_match_name_a_strategy() {
    // Tests, and the settings that only tests use.
    let is_test = |path: &str| path.ends_with("tests.rs") || path.contains("/tests/") || path.ends_with("/testing.rs");
    let code = files(&["src"]).into_iter().filter(|(path, _)| path.ends_with(".rs") && !is_test(path));
    let named: Vec<_> = code.map(|(path, text)| (variants(&path, &text), path)).collect();
    for namer in NAMERS {
        let is_needed = named.iter().any(|(lines, path)| path == namer && !lines.is_empty());
        assert!(is_needed || *namer == "src/base/strategy.rs", "{namer} names none; take it off the list");
    }
    let others = named.into_iter().filter(|(_, path)| !NAMERS.contains(&path.as_str()));
    assert_none(&others.flat_map(|(lines, _)| lines).collect::<Vec<_>>());
}

#[test]
fn a_file_that_names_a_strategy_is_seen() {
    let code = "/// [`Strategy::Overflow`]\nlet it = Strategy::DEFAULT;\nlet all = Strategy::ALL.map(Strategy::as_str);\n\
                if it == Strategy::Overflow {}\nuse RawStrategy;\n#[cfg(test)]\nmod tests {\n    Strategy::Affinity\n}\n";
    assert_eq!(variants("src/a.rs", code).len(), 1);
}
