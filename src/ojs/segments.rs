//! Bodies in pieces.

use bytes::Bytes;
use smallvec::SmallVec;

/// A body in pieces: one for a small body, else slices of the client's bytes without a copy, with the additions between them.
pub type Segments = SmallVec<[Bytes; 1]>;

/// The length of a body in pieces, in bytes.
#[must_use]
pub fn segments_len(segments: &Segments) -> usize {
    segments.iter().map(Bytes::len).sum()
}
