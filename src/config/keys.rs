//! The one table of keys, with their kinds and defaults.
//!
//! Reading, the defaults, the check of kinds and ranges, the suggestions for misspelt keys and the table of
//! `docs/reference/configuration.md` all come from it, so that they cannot differ.

mod rows;

use super::key::Key;
pub(super) use rows::{ALIASES, Alias};

/// The entry at a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Standing {
    /// A key of the table.
    Key(&'static Key),
    /// A section with keys of its own.
    Section,
    /// A list of sections.
    List,
    /// Nothing.
    Unknown,
}

/// Every key, in the order of `config/example.yaml`.
#[must_use]
pub fn keys() -> &'static [Key] {
    &rows::KEYS
}

/// The entry at `path`, whose indices may be numbers or empty.
pub(super) fn standing(path: &str) -> Standing {
    let path = generic(path);
    if let Some(key) = keys().iter().find(|key| key.path == path) {
        return Standing::Key(key);
    }
    let below =
        |mark: &str| keys().iter().any(|key| key.path.strip_prefix(&path).is_some_and(|rest| rest.starts_with(mark)));
    match (below("."), below("[]")) {
        (true, _) => Standing::Section,
        (_, true) => Standing::List,
        _ => Standing::Unknown,
    }
}

/// The path with every index taken out: `regions[1].id` becomes `regions[].id`.
pub(super) fn generic(path: &str) -> String {
    let mut inside = false;
    path.chars()
        .filter(|&char| {
            inside = (inside || char == '[') && char != ']';
            !inside || char == '['
        })
        .collect()
}

/// The path of a member of a section.
pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// A sentence for a key that does not exist: the nearest key that does.
pub(super) fn unknown_rule(path: &str) -> String {
    let path = generic(path);
    if path == "regions[].bearer_token" {
        return "there is no such key, for a secret does not belong here: write it to a file and name that file as \
                bearer_token_file"
            .to_owned();
    }
    match suggestion(&path) {
        Some(near) => format!("there is no such key; did you mean {near}?"),
        None => "there is no such key; config/example.yaml shows every key".to_owned(),
    }
}

fn suggestion(path: &str) -> Option<String> {
    const NEAR: f64 = 0.84;
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    let known = || keys().iter().map(|key| key.path).chain(ALIASES.iter().map(|alias| alias.written));
    let siblings = known().filter_map(|known| {
        let rest = if section.is_empty() { known } else { known.strip_prefix(section)?.strip_prefix('.')? };
        rest.split(['.', '[']).next()
    });
    if let Some(near) = nearest(name, siblings.map(|name| (name, name)), NEAR) {
        return Some(near.to_owned());
    }
    // A key that was put into the wrong section.
    nearest(name, known().map(|known| (known.rsplit('.').next().unwrap_or(known), known)), 0.95).map(str::to_owned)
}

/// The second half of the pair with the first half most like `name`.
fn nearest<'a>(name: &str, known: impl Iterator<Item = (&'a str, &'a str)>, least: f64) -> Option<&'a str> {
    let likeness = |(candidate, meant)| (strsim::jaro_winkler(name, candidate), meant);
    known.map(likeness).filter(|&(like, _)| like >= least).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, meant)| meant)
}

#[cfg(test)]
mod tests;
