//! `docs/pitfalls.md`: every row is shown by tests that exist, or names a decision record.

use std::fs;
use std::path::Path;

use crate::files::{path, read};

/// All Rust text below a folder.
pub fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
    text
}

#[test]
fn every_pitfall_is_shown_by_tests_that_exist_or_has_its_decision() {
    let all = sources(&path("src")) + &sources(&path("crates")) + &sources(&path("tests"));
    let document = read("docs/pitfalls.md");
    let rows: Vec<Vec<&str>> =
        document.lines().filter(|line| line.starts_with('|')).skip(2).map(|line| line.split('|').collect()).collect();
    assert_eq!(rows.len(), 18, "the rows of the register");
    for row in rows {
        let (pitfall, held, shown) = (row[1].trim(), row[2], row[3]);
        let tests: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        let records: Vec<&str> = held.split('`').filter(|word| word.starts_with("adr/")).collect();
        assert!(!tests.is_empty() || !records.is_empty(), "{pitfall}: neither a test nor a decision");
        for record in records {
            assert!(path("docs").join(record).exists(), "{pitfall}: there is no record {record}");
        }
        for test in tests {
            assert!(all.contains(&format!("fn {test}(")), "{pitfall}: there is no test called {test}");
        }
    }
}
