//! The federation specification, clause by clause, in `docs/conformance.md`: the form of its rows, and the tests that they name.

use std::collections::BTreeSet;

use crate::records::{CODE, functions};
use crate::{assert_none, files, read};

const HEADING: &str = "## The federation specification, clause by clause";
/// The verdicts, each with whether it says why.
const VERDICTS: [(&str, bool); 4] = [("done", false), ("done otherwise", true), ("partly", true), ("not there", true)];
/// The longest text of a clause. Units: words.
const WORDS_MAX: usize = 20;

/// Clause, text, verdict, place and tests of each row.
fn rows(table: &str) -> Vec<Vec<&str>> {
    let lines = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| clause |"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

fn problems(table: &str, is_test: &dyn Fn(&str) -> bool) -> Vec<String> {
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    for row in rows(table) {
        let [clause, text, verdict, place, tests] = row.as_slice() else {
            problems.push(format!("{row:?}: five cells are expected"));
            continue;
        };
        let mut wrong = |problem: String| problems.push(format!("{clause}: {problem}"));
        if !["spec §", "RFC §", "FS-", "SO §", "UWER §"].iter().any(|of| clause.starts_with(of)) {
            wrong("a clause begins with `spec §`, `RFC §`, `SO §`, `UWER §` or `FS-`".to_owned());
        }
        if !seen.insert(*clause) {
            wrong("is there twice".to_owned());
        }
        if !(1..=WORDS_MAX).contains(&text.split_whitespace().count()) || place.is_empty() {
            wrong(format!("expected a text of 1 to {WORDS_MAX} words, and a place"));
        }
        let (word, why) = verdict.split_once(": ").unwrap_or((verdict, ""));
        if !VERDICTS.contains(&(word, !why.is_empty())) {
            wrong(format!(
                "`{verdict}`: expected `done`, or `done otherwise`, `partly` or `not there` with a colon and the reason"
            ));
        }
        let tests: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() && word.starts_with("done") {
            wrong("is done, and names no test".to_owned());
        }
        tests.into_iter().filter(|it| !is_test(it)).for_each(|it| wrong(format!("no test called {it}")));
    }
    problems
}

#[test]
fn every_clause_has_a_verdict_and_names_tests_that_exist() {
    let (code, document) = (files(CODE), read("docs/conformance.md"));
    let names = functions(&code);
    let (_, table) = document.split_once(HEADING).unwrap();
    assert!(rows(table).len() > 100, "the clauses are not where they were");
    assert_none(&problems(table, &|name| names.contains(name)));
}

#[test]
fn a_row_without_its_form_is_seen() {
    let found = |row: &str| {
        problems(&format!("| clause | text | verdict | where | test |\n|---|---|---|---|---|\n{row}\n"), &|it| {
            it == "a"
        })
    };
    let row = "| RFC §1, 1 | text | done | `x` | `a` |";
    assert_eq!(found(row), [""; 0]);
    assert_eq!(found("| RFC §1, 1 | text | not there: why | `x` | |"), [""; 0]);
    for wrong in [
        format!("{row}\n{row}"),
        row.replace("RFC ", ""),
        row.replace("done", "done: why"),
        row.replace("done", "partly"),
        row.replace("done", "mostly: why"),
        row.replace("`a`", "`b`"),
        row.replace("`a`", ""),
        row.replace("text", &"text ".repeat(21)),
        row.replace(" `x` |", ""),
    ] {
        assert_eq!(found(&wrong).len(), 1, "{wrong}");
    }
}
