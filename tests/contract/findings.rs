//! `docs/findings.md`: every finding is listed once, and every test and decision record that the table names exists.

use std::collections::BTreeMap;

use crate::files::{path, read};
use crate::pitfalls::sources;

/// How many findings each group of the register has; their ids count from 1.
const GROUPS: [(&str, u32); 11] = [
    ("SEC", 21),
    ("CLI", 20),
    ("OUT", 18),
    ("AVA", 8),
    ("CFG", 8),
    ("OPS", 17),
    ("PKG", 12),
    ("SPC", 17),
    ("DEM", 11),
    ("DOC", 8),
    ("PRF", 6),
];

#[test]
fn every_finding_names_tests_or_records_that_exist() {
    let tests = sources(&path("src")) + &sources(&path("crates")) + &sources(&path("tests"));
    let document = read("docs/findings.md");
    let mut rows = BTreeMap::new();
    for line in document.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (id, shown_by) = (cells[1].to_owned(), cells[3]);
        let proofs: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(
            !proofs.is_empty() || shown_by == "later",
            "{id}: names neither a test nor a record, and is not `later`"
        );
        for proof in proofs {
            let exists = match proof.strip_prefix("adr/") {
                Some(record) => path("docs/adr").join(record).exists(),
                None => tests.contains(&format!("fn {proof}(")),
            };
            assert!(exists, "{id}: {proof} does not exist");
        }
        assert!(rows.insert(id.clone(), ()).is_none(), "{id} is there twice");
    }
    let expected: BTreeMap<String, ()> = GROUPS
        .iter()
        .flat_map(|(group, count)| (1..=*count).map(move |number| (format!("{group}-{number}"), ())))
        .collect();
    assert_eq!(rows, expected);
}
