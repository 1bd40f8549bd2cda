//! Holds the merged tree against the key table: unknown keys, wrong kinds and broken ranges, each with its origin.

use std::collections::BTreeMap;

use figment::value::{Dict, Empty, Value};

use super::key::Key;
use super::keys::{Standing, join, keys, standing, unknown_rule};
use super::kind::Kind;
use super::layer::{Layers, put};
use super::problem::Problem;

/// Where each setting was made: canonical path to origin and to the key as written.
#[derive(Default)]
pub(super) struct Origins(BTreeMap<String, (String, String)>);

impl Origins {
    /// A problem at `path`. A key that is not set has the origin of the section it is missing from.
    pub(super) fn problem(&self, path: &str, rule: &str) -> Problem {
        let (origin, key) = match self.0.get(path) {
            Some((origin, key)) => (origin.clone(), key.clone()),
            None => (self.of_section(path).unwrap_or("default").to_owned(), path.to_owned()),
        };
        Problem { key, origin, rule: rule.to_owned() }
    }

    /// Whether a source sets the key.
    pub(super) fn is_set(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    fn of_section(&self, path: &str) -> Option<&str> {
        if matches!(standing(path), Standing::Key(key) if key.default.is_some() && !path.contains('[')) {
            return None;
        }
        let (section, _) = path.rsplit_once(['.', '['])?;
        self.0.get(section).map(|(origin, _)| origin.as_str()).or_else(|| self.of_section(section))
    }
}

/// The result of the walk.
pub(super) struct Walked {
    /// The tree with every bad entry taken out, every default filled in and every value in the form of the raw mirror.
    pub(super) tree: Value,
    pub(super) origins: Origins,
    /// Canonical path and problem.
    pub(super) problems: BTreeMap<String, Problem>,
}

/// Walks the merged tree.
pub(super) fn walk(layers: &Layers) -> Walked {
    let mut walk = Walk { layers, origins: Origins::default(), problems: BTreeMap::new() };
    let mut tree = walk.section("", layers.tree());
    for Key { path, kind, default, .. } in keys().iter().filter(|key| !key.path.contains("[]")) {
        let value = default.and_then(|text| kind.settle(kind.read(text)).ok());
        if let Some(value) = value.filter(|_| !is_set(&tree, path)) {
            put(&mut tree, path, value);
        }
    }
    Walked { tree: Value::from(tree), origins: walk.origins, problems: walk.problems }
}

fn is_set(tree: &Dict, path: &str) -> bool {
    match path.split_once('.') {
        None => tree.contains_key(path),
        Some((section, rest)) => tree.get(section).and_then(Value::as_dict).is_some_and(|below| is_set(below, rest)),
    }
}

/// Whether the last name of a path begins with `x-`: such members are the operator's own, as in the public federation schema.
fn is_extension(path: &str) -> bool {
    path.rsplit('.').next().is_some_and(|name| name.starts_with("x-"))
}

struct Walk<'a> {
    layers: &'a Layers,
    origins: Origins,
    problems: BTreeMap<String, Problem>,
}

impl Walk<'_> {
    fn section(&mut self, path: &str, members: Dict) -> Dict {
        let members = members.into_iter();
        members.filter_map(|(name, value)| Some((name.clone(), self.value(&join(path, &name), value)?))).collect()
    }

    /// The value as the raw mirror reads it; `None` where it is absent or wrong.
    fn value(&mut self, path: &str, value: Value) -> Option<Value> {
        if is_extension(path) && matches!(standing(path), Standing::Unknown) {
            return None;
        }
        if matches!(value, Value::Empty(..)) && !matches!(standing(path), Standing::Unknown) {
            return None;
        }
        self.origins.0.insert(path.to_owned(), self.layers.origin(&value, path));
        let settled = match (standing(path), value) {
            (Standing::Key(Key { kind: Kind::TextMap, .. }), Value::Dict(_, members)) => Ok(self.table(path, members)),
            (Standing::Key(Key { kind: Kind::Path, .. }), value) => Kind::Path.settle(self.layers.resolved(value)),
            (Standing::Key(key), value) => key.kind.settle(value),
            (Standing::Section, Value::Dict(_, members)) => Ok(Value::from(self.section(path, members))),
            (Standing::Section, _) => Err("expected a section with keys of its own".to_owned()),
            (Standing::List, Value::Array(_, items)) => Ok(self.list(path, items)),
            (Standing::List, _) => Err("expected a list of sections, each beginning with a dash".to_owned()),
            (Standing::Unknown, _) => Err(unknown_rule(path)),
        };
        settled.map_err(|rule| self.refuse(path, &rule)).ok()
    }

    /// Keeps an empty place for a bad item, so that the indices of the others stay.
    fn list(&mut self, path: &str, items: Vec<Value>) -> Value {
        let items = items.into_iter().enumerate().map(|(at, item)| {
            let path = format!("{path}[{at}]");
            self.origins.0.insert(path.clone(), self.layers.origin(&item, &path));
            match item {
                Value::Dict(_, members) => Value::from(self.section(&path, members)),
                _ => {
                    self.refuse(&path, "expected a section with keys of its own");
                    Value::from(Empty::None)
                }
            }
        });
        Value::from(items.collect::<Vec<_>>())
    }

    fn table(&mut self, path: &str, members: Dict) -> Value {
        let mut table = Dict::new();
        for (name, value) in members {
            let path = join(path, &name);
            self.origins.0.insert(path.clone(), self.layers.origin(&value, &path));
            match Kind::Scalar.settle(value) {
                Ok(value) => drop(table.insert(name, value)),
                Err(rule) => self.refuse(&path, &rule),
            }
        }
        Value::from(table)
    }

    fn refuse(&mut self, path: &str, rule: &str) {
        self.problems.insert(path.to_owned(), self.origins.problem(path, rule));
    }
}
