//! Bytes put in place of others, without touching the rest.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::ojs::segments::Segments;

/// Edits: start, end, and the text that replaces the bytes between. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct Edits(SmallVec<[(usize, usize, String); 4]>);

impl Edits {
    pub(super) fn replace(&mut self, (start, end): (usize, usize), text: impl Into<String>) {
        self.0.push((start, end, text.into()));
    }

    /// The body in pieces; the client's own are not copied.
    pub(super) fn apply(mut self, body: &Bytes) -> Segments {
        self.0.sort_unstable_by_key(|edit| edit.0);
        let mut segments = Segments::new();
        let mut from = 0;
        for (start, end, text) in self.0 {
            if start > from {
                segments.push(body.slice(from..start));
            }
            if !text.is_empty() {
                segments.push(Bytes::from(text));
            }
            from = end;
        }
        if from < body.len() {
            segments.push(body.slice(from..));
        }
        segments
    }
}
