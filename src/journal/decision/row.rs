//! Notes as the file has them.

use serde_json::Value;

/// The most that one question is answered with.
pub(super) const FOUND_MAX: usize = 16;

/// A note on its way to the file.
#[derive(Debug)]
pub(crate) struct Row {
    pub(super) number: u64,
    pub(super) document: Value,
}
