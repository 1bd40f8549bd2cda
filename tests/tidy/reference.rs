//! Pages of `docs/reference` that are generated from other files, or compared with the names in the sources.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ojs_sidecar::config::keys;
use serde_json::Value;

use crate::{files, read};

/// The text literals that follow a mark in a source, in order.
fn literals<'s>(source: &'s str, mark: &str) -> Vec<&'s str> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.split(mark).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// The keys that are read from a file, with their defaults and meanings.
pub(crate) fn configuration() -> String {
    let mut table = String::from("| Key | Default | Takes | Meaning |\n|---|---|---|---|\n");
    for key in keys().iter().filter(|key| key.honoured) {
        let default = match key.default {
            None => String::new(),
            Some("") => "none".to_owned(),
            Some(text) => format!("`{text}`"),
        };
        let unit = match key.unit {
            "" | "duration" | "bytes" => String::new(),
            unit => format!(" ({unit})"),
        };
        let _ = writeln!(table, "| `{}` | {default} | {}{unit} | {} |", key.path, key.kind.expected(), key.doc);
    }
    assert!(table.lines().all(|row| row.matches('|').count() == 5), "a cell has a bar: {table}");
    table
}

/// The keys whose change waits for a restart: those that the code compares one by one, and the entries that say so.
pub(crate) fn restart_keys() -> String {
    let source = read("src/config/restart.rs");
    let mut keys: Vec<String> = literals(&source, "push(\"").into_iter().map(|key| format!("`{key}`")).collect();
    let (mut section, mut name) = (String::new(), String::new());
    for line in read("src/config/sections.rs").lines().map(str::trim) {
        if let [found, ..] = literals(line, " at \"")[..] {
            found.clone_into(&mut section);
        }
        if let Some((found, _)) = line.split_once(": ").filter(|(_, rest)| rest.contains(" = ")) {
            found.clone_into(&mut name);
        }
        if line.ends_with(", restart;") {
            keys.push(format!("`{section}.{name}`"));
        }
    }
    let lines: Vec<String> = keys.chunks(5).map(|keys| keys.join(", ")).collect();
    lines.join(",\n") + "\n"
}

/// The endpoints that the sidecar answers itself, as the description of the API has them.
pub(crate) fn own_endpoints() -> String {
    let text = read("docs/openapi.yaml");
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    let item = |path: &str| -> &Value {
        let item = &document["paths"][path];
        let reference = item["$ref"].as_str().and_then(|it| it.strip_prefix('#'));
        reference.map_or(item, |pointer| document.pointer(pointer).unwrap())
    };
    // In the order of the file, which the parsed document does not keep.
    let paths = text.lines().filter_map(|line| line.strip_prefix("  /")?.split(':').next());
    let mut table = String::from("| listener | method | path | question or effect |\n|---|---|---|---|\n");
    for path in paths.map(|path| format!("/{path}")) {
        let listener = if item(&path)["servers"].is_array() { "admin" } else { "clients" };
        for method in ["get", "post", "put", "delete"] {
            let Some(summary) = item(&path)[method]["summary"].as_str() else { continue };
            let _ = writeln!(table, "| {listener} | {} | `{path}` | {summary} |", method.to_uppercase());
        }
    }
    table
}

/// The decision records, as the table of contents has them.
pub(crate) fn records() -> String {
    let is_record = |name: &str| name.trim_start_matches("docs/adr/").starts_with(|c: char| c.is_ascii_digit());
    let records = files(&["docs/adr"]).into_iter().filter(|(name, _)| is_record(name));
    let line = |(name, text): (String, String)| {
        let title = text.lines().next().unwrap_or_default().trim_start_matches("# ");
        format!("  - [{title}]({})\n", name.trim_start_matches("docs/"))
    };
    records.map(line).collect()
}

/// The names in the first cells of the tables below a heading, in lower case.
fn names(document: &str, headings: &[&str]) -> BTreeSet<String> {
    let text = read(document);
    let sections = text.split("\n## ").filter(|section| headings.contains(&section.lines().next().unwrap_or_default()));
    let rows = sections.flat_map(str::lines).filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    rows.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`').to_lowercase()).collect()
}

#[test]
fn the_reference_has_every_federation_key_of_the_code_and_no_other() {
    let source = read("src/ojs/attributes/name.rs");
    let known: BTreeSet<String> = literals(&source, "=> \"").into_iter().map(str::to_owned).collect();
    assert!(known.len() > 5, "the names are not where they were: {known:?}");
    assert_eq!(names("docs/reference/meta.md", &["Meta keys"]), known);
}

#[test]
fn the_reference_has_every_header_of_the_code() {
    let source = read("src/ojs/header.rs");
    let mut known: BTreeSet<String> = literals(&source, "from_static(\"").into_iter().map(str::to_owned).collect();
    assert!(known.len() > 10, "the names are not where they were: {known:?}");
    // HTTP's own, which needs no name in the code.
    known.insert("retry-after".to_owned());
    let headings = ["Headers of requests", "Headers of answers", "Headers that regions send"];
    assert_eq!(names("docs/reference/meta.md", &headings), known);
}
