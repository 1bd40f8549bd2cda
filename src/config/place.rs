//! Where settings stand in their source.

use std::collections::BTreeMap;

/// Where a setting stands in its source.
#[derive(Clone)]
pub(super) struct Place {
    /// The line in a file.
    pub(super) line: Option<u64>,
    /// The key as it was written, where that is an alias.
    pub(super) written: Option<&'static str>,
}

/// Canonical path to place.
pub(super) type Places = BTreeMap<String, Place>;
