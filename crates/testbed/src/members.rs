//! The members of a JSON object in order, values as the raw bytes that they came as.
//!
//! Names are matched as the most lenient server in the field does: letter case folded and the last of several wins. A region that
//! reads strictly would hide what a lenient one lets through.

use std::fmt;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON value as bytes, not interpreted.
pub(super) type Raw = Box<RawValue>;

/// Why a body is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Invalid {
    /// Not JSON, or not an object.
    #[error("the body is no JSON object")]
    Payload,
    /// A member is missing, or has a value that it cannot have.
    #[error("`{0}` is missing or wrong: expected that it {1}")]
    Member(&'static str, &'static str),
    /// The same, in the retry policy.
    #[error("`{0}` {1}")]
    Policy(&'static str, &'static str),
}

/// The members of a JSON object, in order, duplicates included.
#[derive(Debug, Clone, Default)]
pub(super) struct Members(pub(super) Vec<(String, Raw)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Members {
    /// Reads an object.
    ///
    /// Errors: [`Invalid::Payload`], also for text that is not UTF-8.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Invalid> {
        let text = std::str::from_utf8(bytes).map_err(|_| Invalid::Payload)?;
        serde_json::from_str(text).map_err(|_| Invalid::Payload)
    }

    /// The value of a member, whatever case its name is written in.
    pub(super) fn raw(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(key, _)| same_name(key, name)).map(|(_, value)| &**value)
    }

    /// The value of a member as a type; `null` counts as absent.
    ///
    /// Errors: [`Invalid::Member`] with `rule` when the value is of another type.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        name: &'static str,
        rule: &'static str,
    ) -> Result<Option<T>, Invalid> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map_err(|_| Invalid::Member(name, rule))
    }
}

/// Whether a server that folds case takes `key` for `name` (which is in lower case).
pub(super) fn same_name(key: &str, name: &str) -> bool {
    let fold = |letter: char| match letter {
        // The two letters beyond ASCII that fold to one of it.
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars())
}
