//! The cases as they lie in their folder.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Names another folder with the cases.
const VARIABLE: &str = "OJS_CONFORMANCE_SUITES";

/// The parts that are run: folder, and how its cases are written.
const PARTS: [(&str, Form); 6] = [
    ("level-0-core", Form::Steps),
    ("level-1-reliable", Form::Steps),
    ("level-2-scheduled", Form::Steps),
    ("level-3-workflows", Form::Steps),
    ("level-4-advanced", Form::Steps),
    ("ext-federation", Form::Federation),
];

/// How a case is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Steps,
    Federation,
}

/// One case.
#[derive(Debug)]
pub struct Case {
    /// Its path below the folder, without the ending.
    pub name: String,
    pub form: Form,
    pub document: Value,
}

/// The most queues that a sidecar keeps in shards.
const QUEUES_MAX: usize = 8;

impl Case {
    /// The names of queues that it uses, and `default`, as far as a sidecar can keep them in shards.
    pub fn queues(&self) -> Vec<String> {
        let mut names = BTreeSet::from(["default".to_owned()]);
        gather(&self.document, "", &mut names);
        let is_end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        names.retain(|name| {
            name.bytes().all(|byte| is_end(byte) || b"-.".contains(&byte)) && name.bytes().next().is_some_and(is_end)
        });
        assert!(names.len() <= QUEUES_MAX, "{}: {names:?}", self.name);
        names.into_iter().collect()
    }
}

/// Collects the names of queues: the values of `queue`, the elements of `queues`, and the segment of a path behind `queues`.
fn gather(value: &Value, key: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::String(name) if matches!(key, "queue" | "queues") => drop(names.insert(name.clone())),
        Value::String(path) if key == "path" => {
            let rest = path.split_once("/queues/").map(|(_, rest)| rest);
            names.extend(rest.and_then(|rest| rest.split(['/', '?']).next()).map(str::to_owned));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, key, names)),
        Value::Object(members) => members.iter().for_each(|(key, member)| gather(member, key, names)),
        _ => {}
    }
}

fn folder() -> PathBuf {
    match std::env::var_os(VARIABLE) {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance"),
    }
}

/// All cases in order, or nothing when their folder is not there.
pub fn load() -> Option<Vec<Case>> {
    let folder = folder();
    if !folder.is_dir() {
        return None;
    }
    let mut cases = Vec::new();
    for (part, form) in PARTS {
        let mut files = Vec::new();
        collect(&folder.join(part), &mut files);
        files.sort();
        assert!(!files.is_empty(), "{} has no cases below {part}", folder.display());
        for file in files {
            let name = file.strip_prefix(&folder).unwrap().with_extension("").to_str().unwrap().to_owned();
            let document = serde_json::from_slice(&std::fs::read(&file).unwrap());
            cases.push(Case { document: document.unwrap_or_else(|error| panic!("{name}: {error}")), name, form });
        }
    }
    Some(cases)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "json") {
            files.push(path);
        }
    }
}

/// Says that nothing was tested, past the test harness, which would keep it to itself.
pub fn say_skipped() {
    let folder = folder();
    let line = format!("SKIPPED: no conformance cases in {}; set {VARIABLE} to their folder", folder.display());
    writeln!(std::io::stderr().lock(), "\n{line}\n").unwrap();
}
