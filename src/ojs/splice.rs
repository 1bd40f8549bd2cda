//! Small changes to a JSON object of a region: a few bytes put in or exchanged, everything else as it came.

use std::ops::Range;

use super::fault::Fault;
use super::key::Text;
use super::member::DEPTH_MAX;
use super::scan::{ScanError, Scanner};

/// One member of an object.
pub(super) struct Member<'b> {
    pub(super) name: Text<'b>,
    /// The value as it stands.
    pub(super) value: &'b str,
    /// Where the value stands.
    pub(super) place: Range<usize>,
}

impl Member<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.decode() == name
    }
}

/// The members of the object that a body is, in order, duplicates included; `None` for anything else.
pub(super) fn members(body: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut members = Vec::new();
    let mut read = || -> Result<(), Fault> {
        let mut scanner = Scanner::new(body, DEPTH_MAX)?;
        let text = scanner.text();
        scanner.object(|scanner, name| {
            let (start, end) = scanner.skip()?;
            members.push(Member { name, value: &text[start..end], place: start..end });
            Ok::<(), ScanError>(())
        })?;
        Ok(scanner.end()?)
    };
    read().ok()?;
    Some(members)
}

/// The last member of a name, which is the one that readers take.
pub(super) fn last<'m, 'b>(members: &'m [Member<'b>], name: &str) -> Option<&'m Member<'b>> {
    members.iter().rev().find(|member| member.is(name))
}

/// The elements of an array that was scanned before, as they stand.
pub(super) fn elements(array: &str) -> Vec<&str> {
    let mut elements = Vec::new();
    let mut read = || -> Result<(), Fault> {
        let mut scanner = Scanner::new(array.as_bytes(), DEPTH_MAX)?;
        scanner.array(|scanner| {
            let (start, end) = scanner.skip()?;
            elements.push(&array[start..end]);
            Ok::<(), ScanError>(())
        })?;
        Ok(scanner.end()?)
    };
    // A value that is no array has no elements.
    if read().is_ok() { elements } else { Vec::new() }
}

/// The text between the quotes of a string that was scanned before, decoded; `None` for a value of another kind.
pub(super) fn string(value: &str) -> Option<std::borrow::Cow<'_, str>> {
    value.starts_with('"').then(|| Text::quoted(value, 0).decode())
}

/// Changes to a body, in any order; they may not overlap.
#[derive(Debug, Default)]
pub(super) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    /// Replaces the bytes at a place.
    pub(super) fn exchange(&mut self, place: Range<usize>, text: impl Into<String>) {
        self.0.push((place, text.into()));
    }

    /// Puts text before the closing mark of a container that ends at `end`, behind its other content.
    pub(super) fn append(&mut self, end: usize, is_empty: bool, text: &str) {
        let at = end.saturating_sub(1);
        self.0.push((at..at, format!("{}{text}", if is_empty { "" } else { "," })));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The changed body.
    pub(super) fn apply(mut self, body: &[u8]) -> Vec<u8> {
        self.0.sort_by_key(|(place, _)| place.start);
        let mut changed = Vec::with_capacity(body.len() + self.0.iter().map(|(_, text)| text.len()).sum::<usize>());
        let mut done = 0;
        for (place, text) in &self.0 {
            changed.extend_from_slice(&body[done..place.start]);
            changed.extend_from_slice(text.as_bytes());
            done = place.end;
        }
        changed.extend_from_slice(&body[done..]);
        changed
    }
}

/// Where the object that a body is ends, its brace included.
pub(super) fn end_of_object(body: &[u8]) -> usize {
    memchr::memrchr(b'}', body).map_or(body.len(), |brace| brace + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use crate::ojs::{federated_manifest, heartbeat_state};

    const NAMES: [&str; 7] =
        ["ojs_version", "specversion", "extensions", "official", "conformance_level", "state", "directive"];

    /// Values whose members have the names that matter, or any.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            prop::sample::select(vec!["quiet", "continue", "urn:ojs:spec:federation"]).prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            let name = prop_oneof![prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned), any::<String>()];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..5).prop_map(|map| Value::from(Map::from_iter(map))),
            ]
        })
    }

    fn without(value: &Value, names: &[&str]) -> Value {
        let members = value.as_object().into_iter().flatten();
        members
            .filter(|(name, _)| !names.contains(&name.as_str()))
            .map(|(name, of)| (name.clone(), of.clone()))
            .collect()
    }

    proptest! {
        #[test]
        fn what_is_changed_is_json_and_everything_else_is_as_it_was(before in value(), is_pretty: bool, level in 0_u64..5) {
            let text = if is_pretty { serde_json::to_vec_pretty(&before) } else { serde_json::to_vec(&before) }.unwrap();
            let manifest = federated_manifest(&text, Some(level));
            prop_assert_eq!(manifest.is_some(), before.is_object());
            if let Some(manifest) = manifest {
                let after: Value = serde_json::from_slice(&manifest).unwrap();
                prop_assert_eq!(without(&before, &NAMES[..5]), without(&after, &NAMES[..5]));
                prop_assert!(after["ojs_version"] == after["specversion"] || before.get("ojs_version").is_some());
                prop_assert!(after["extensions"].to_string().contains("urn:ojs:spec:federation"));
                if before.get("conformance_level").is_some() {
                    prop_assert_eq!(&after["conformance_level"], &json!(level));
                }
            }
            if let Some(beat) = heartbeat_state(&text) {
                let after: Value = serde_json::from_slice(&beat).unwrap();
                prop_assert_eq!(without(&before, &["state"]), without(&after, &["state"]));
                prop_assert_eq!(&after["state"], &before["directive"]);
            }
        }
    }
}
