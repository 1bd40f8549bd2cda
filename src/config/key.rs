//! One row of the key table.

use super::kind::Kind;

/// One key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its dotted path; `[]` stands for any place in a list: `regions[].tls.ca`.
    pub path: &'static str,
    /// Its kind of value.
    pub kind: Kind,
    /// The default as text; `None` where there is none, or where it depends on other keys.
    pub default: Option<&'static str>,
    /// The unit of a number or duration; empty where there is none.
    pub unit: &'static str,
    /// Its meaning, in one line.
    pub doc: &'static str,
    /// False for keys of the public federation schema that are accepted and only named in a warning.
    pub honoured: bool,
}
