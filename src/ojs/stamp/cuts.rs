//! The way back from a stamped body to the one that the client sent.

use smallvec::SmallVec;

/// The places of a stamp in a body that was copied for it: the bytes around it are the client's, which need not be kept
/// a second time.
///
/// It holds on when one of the additions gives way to another of the same length.
#[derive(Debug, Clone, Default)]
pub struct Cuts(SmallVec<[Cut; 2]>);

#[derive(Debug, Clone, Copy)]
struct Cut {
    from: usize,
    to: usize,
    /// Whether a `null` of the client's was there.
    was_null: bool,
}

impl Cuts {
    /// An addition, behind those before it. Units: bytes of the stamped body.
    pub(super) fn push(&mut self, from: usize, to: usize, was_null: bool) {
        self.0.push(Cut { from, to, was_null });
    }

    /// The client's bytes, in pieces and in order; `stamped` is the body that was stamped.
    #[must_use]
    pub fn around<'s>(&self, stamped: &'s [u8]) -> Vec<&'s [u8]> {
        let mut pieces = Vec::with_capacity(2 * self.0.len() + 1);
        let mut at = 0;
        for cut in &self.0 {
            pieces.push(&stamped[at..cut.from]);
            if cut.was_null {
                pieces.push(b"null");
            }
            at = cut.to;
        }
        pieces.push(&stamped[at..]);
        pieces
    }
}
