//! Bytes put in place of others, without touching the rest.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::ojs::segments::Segments;

/// A body up to this length is one piece: its copy costs less than the sending of several. Units: bytes.
const COPIED_BYTES_MAX: usize = 4 * 1024;

/// Edits: start, end, and the text that replaces the bytes between. They do not overlap.
#[derive(Debug, Default)]
pub(super) struct Edits(SmallVec<[(usize, usize, String); 4]>);

impl Edits {
    pub(super) fn replace(&mut self, (start, end): (usize, usize), text: impl Into<String>) {
        self.0.push((start, end, text.into()));
    }

    /// The edited body: a small one as a copy, a longer one in pieces of which the client's own are not copied.
    pub(super) fn apply(mut self, body: &Bytes) -> Segments {
        self.0.sort_unstable_by_key(|edit| edit.0);
        let changed = |length: usize, (start, end, text): &(usize, usize, String)| length + text.len() - (end - start);
        let length = self.0.iter().fold(body.len(), changed);
        let mut segments = Segments::new();
        if self.0.is_empty() {
            segments.push(body.clone());
        } else if body.len().max(length) <= COPIED_BYTES_MAX {
            segments.push(self.copied(body, length).into());
        } else {
            self.cut(body, &mut segments);
        }
        segments
    }

    fn copied(&self, body: &Bytes, length: usize) -> Vec<u8> {
        let mut whole = Vec::with_capacity(length);
        let mut from = 0;
        for (start, end, text) in &self.0 {
            whole.extend_from_slice(&body[from..*start]);
            whole.extend_from_slice(text.as_bytes());
            from = *end;
        }
        whole.extend_from_slice(&body[from..]);
        whole
    }

    fn cut(self, body: &Bytes, segments: &mut Segments) {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_edited_alike_in_one_piece_and_in_several() {
        for length in [8, 100, COPIED_BYTES_MAX - 5, COPIED_BYTES_MAX - 4, 3 * COPIED_BYTES_MAX] {
            let body = Bytes::from(vec![b'x'; length]);
            let mut edits = Edits::default();
            edits.replace((6, 8), "longer");
            edits.replace((0, 1), "");
            edits.replace((3, 3), "in");
            let segments = edits.apply(&body);
            let expected = [b"xxinxxxlonger", &body[8..]].concat();
            assert_eq!(segments.concat(), expected, "{length}");
            assert_eq!(segments.len() == 1, expected.len() <= COPIED_BYTES_MAX, "{length}");
        }
    }

    #[test]
    fn a_body_without_edits_is_the_client_s_own() {
        let body = Bytes::from_static(b"{}");
        assert_eq!(Edits::default().apply(&body)[0].as_ptr(), body.as_ptr());
    }
}
