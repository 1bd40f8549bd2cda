//! Shared parts of the tests of this folder.

use crate::ojs::segments::Segments;

/// A body in pieces as one text.
pub(super) fn together(segments: Segments) -> String {
    String::from_utf8(segments.concat()).unwrap_or_default()
}

/// A body as a value.
pub(super) fn value(body: &str) -> serde_json::Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}
