//! Long documents that are judged in segments: the inside of a long string stays in the pieces that it came in.
//!
//! A job of a megabyte is mostly one text. Copying it into one piece, checking its encoding and scanning it would lead
//! each byte through the processor three times, long after it has left the caches. Of such a text a [`stretch`] is
//! checked once, as it arrives, and [`GAP_MARK`] stands for it in the document. The mark can stand in JSON within a
//! string only, so that a document with it is JSON only if the stretch is within a string, too, and breaks no escape.

use std::ops::Range;

use bytes::Bytes;

use super::scan::{ascii_run, plain_run};
use super::segments::Segments;

/// The byte that stands in a document for a segment that was cut out of it.
pub const GAP_MARK: u8 = b'~';

/// A part of a string that is kept apart from its document.
#[derive(Debug, Clone)]
pub struct Gap {
    /// Where its mark stands in the text. Units: bytes.
    pub at: usize,
    /// The client's bytes there.
    pub bytes: Bytes,
}

/// A document as it was received: a text, and the segments cut out of it, in order. Most are whole.
#[derive(Debug, Clone, Copy)]
pub struct Abridged<'d> {
    text: &'d Bytes,
    gaps: &'d [Gap],
}

impl<'d> Abridged<'d> {
    /// One of which nothing is kept apart.
    #[must_use]
    pub const fn whole(text: &'d Bytes) -> Self {
        Self { text, gaps: &[] }
    }

    /// A text that has a mark for each of `gaps`, in their order; each is a [`stretch`] of the received bytes.
    #[must_use]
    pub fn new(text: &'d Bytes, gaps: &'d [Gap]) -> Self {
        debug_assert!(gaps.iter().all(|gap| text.get(gap.at) == Some(&GAP_MARK)), "each has its mark");
        debug_assert!(gaps.is_sorted_by(|one, next| one.at < next.at), "in the order of the text");
        Self { text, gaps }
    }

    /// The text, with a mark for each gap.
    #[must_use]
    pub const fn text(self) -> &'d Bytes {
        self.text
    }

    /// The segments that were cut out.
    #[must_use]
    pub const fn gaps(self) -> &'d [Gap] {
        self.gaps
    }

    /// Its length as it was received, in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.text.len() + self.gaps.iter().map(|gap| gap.bytes.len()).sum::<usize>() - self.gaps.len()
    }

    /// Whether nothing was received.
    #[must_use]
    #[cfg_attr(not(feature = "internals"), expect(dead_code, reason = "for tests"))]
    pub const fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// The received bytes, in pieces and in order.
    #[must_use]
    pub fn pieces(self) -> Vec<&'d [u8]> {
        let mut pieces = Vec::with_capacity(2 * self.gaps.len() + 1);
        self.each_part(0..self.text.len(), |part| {
            pieces.push(match part {
                Part::Text(at) => &self.text[at],
                Part::Apart(bytes) => bytes,
            });
        });
        pieces
    }

    /// The received bytes, in pieces that share them.
    #[must_use]
    pub fn segments(self) -> Segments {
        let mut segments = Segments::new();
        self.add_to(&mut segments, 0..self.text.len());
        segments
    }

    /// Whether it has the same bytes as another document, in any pieces.
    #[must_use]
    pub fn equals(self, other: &Segments) -> bool {
        let mut theirs = other.iter().map(|piece| &**piece).filter(|piece| !piece.is_empty());
        let mut their: &[u8] = &[];
        for mut our in self.pieces() {
            while !our.is_empty() {
                if their.is_empty() {
                    their = theirs.next().unwrap_or_default();
                }
                let length = our.len().min(their.len());
                if length == 0 || our.get(..length) != their.get(..length) {
                    return false;
                }
                (our, their) = (&our[length..], &their[length..]);
            }
        }
        their.is_empty() && theirs.next().is_none()
    }

    /// Adds the received bytes of this stretch of the text, without a copy. No mark stands across one of its ends.
    pub(super) fn add_to(self, segments: &mut Segments, stretch: Range<usize>) {
        self.each_part(stretch, |part| {
            segments.push(match part {
                Part::Text(at) => self.text.slice(at),
                Part::Apart(bytes) => bytes.clone(),
            });
        });
    }

    fn each_part(self, stretch: Range<usize>, mut each: impl FnMut(Part<'d>)) {
        let mut from = stretch.start;
        for gap in self.gaps.iter().filter(|gap| stretch.contains(&gap.at)) {
            if gap.at > from {
                each(Part::Text(from..gap.at));
            }
            each(Part::Apart(&gap.bytes));
            from = gap.at + 1;
        }
        if from < stretch.end {
            each(Part::Text(from..stretch.end));
        }
    }
}

enum Part<'d> {
    Text(Range<usize>),
    Apart(&'d Bytes),
}

/// The part of some bytes that continues a string, if they come within one: text in UTF-8 and whole escapes, up to a
/// quote or to another byte that no string has. The end of a letter that began before is left out, and the beginning of
/// one that goes on behind. It ends early where escapes are dense, which take as long as reading the document.
#[must_use]
pub fn stretch(bytes: &[u8]) -> Range<usize> {
    const LETTER_BYTES_MAX: usize = 4;
    const ESCAPES_FREE: usize = 16;
    const ESCAPE_EACH: usize = 64;
    let goes_on = |byte: &&u8| **byte & 0xC0 == 0x80;
    let from = bytes.iter().take(LETTER_BYTES_MAX - 1).take_while(goes_on).count();
    let (mut to, mut is_ascii, mut escapes) = (from, true, 0);
    while escapes <= ESCAPES_FREE + to / ESCAPE_EACH {
        to += ascii_run(&bytes[to..]);
        let rest = &bytes[to..];
        let run = plain_run(rest);
        is_ascii &= rest.get(..run).is_some_and(<[u8]>::is_ascii);
        to += run;
        match bytes.get(to..).and_then(escape_len) {
            Some(length) => (to, escapes) = (to + length, escapes + 1),
            None => break,
        }
    }
    if is_ascii {
        return from..to;
    }
    match simdutf8::compat::from_utf8(&bytes[from..to]) {
        Ok(_) => from..to,
        Err(error) => from..from + error.valid_up_to(),
    }
}

/// Whether an escape goes on behind these bytes, should they end within a string.
#[must_use]
pub fn is_torn(bytes: &[u8]) -> bool {
    const ESCAPE_BYTES_MAX: usize = 6;
    let from = bytes.len().saturating_sub(ESCAPE_BYTES_MAX - 1);
    let end = &bytes[from..];
    let Some(last) = memchr::memrchr(b'\\', end).map(|at| from + at) else { return false };
    // Every second backslash is escaped itself.
    let begun = bytes[..=last].iter().rev().take_while(|byte| **byte == b'\\').count();
    begun % 2 == 1 && matches!(bytes.get(last + 1..), Some([] | [b'u', ..]))
}

/// The length of the whole escape that begins here.
fn escape_len(bytes: &[u8]) -> Option<usize> {
    let [b'\\', kind, rest @ ..] = bytes else { return None };
    match kind {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(2),
        b'u' => rest.get(..4).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit)).map(|_| 6),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
