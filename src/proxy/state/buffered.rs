//! How much of the memory is bodies: counted over all threads, so that many large ones together have a bound, too.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;

use crate::config::Limits;

/// The bytes of bodies that are held in memory now. Copies count into the same sum.
#[derive(Debug, Clone, Copy)]
pub struct Buffered(&'static AtomicUsize);

impl Default for Buffered {
    /// A counter that is never freed: a process makes one, for as long as it runs, so that a body needs no reference
    /// count.
    fn default() -> Self {
        Self(Box::leak(Box::default()))
    }
}

/// One body's part of the sum, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    all: Buffered,
    /// The sum that this body may not carry it over.
    sum_max: usize,
    /// The bytes that are counted and never refused.
    due: usize,
    bytes: usize,
}

/// Bytes that are counted for as long as any piece of them is in use.
struct Counted {
    bytes: Bytes,
    _share: Share,
}

impl Buffered {
    /// The counter itself, for others that share the memory.
    #[must_use]
    pub const fn counter(&self) -> &'static AtomicUsize {
        self.0
    }

    /// How many there are. Units: bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// The share of a request's body: no part of it is taken in once the sum would be over `sum_max`.
    pub(crate) fn request(&self, sum_max: usize) -> Share {
        Share { all: *self, sum_max, due: 0, bytes: 0 }
    }

    /// Whether a read may be sent. Reads get half of the memory, so that unread answers leave room for storing jobs.
    pub(crate) fn has_room_for_reads(&self, limits: &Limits) -> bool {
        self.bytes() < limits.buffered_bytes / 2
    }

    /// The share of a read's answer, which can be asked for again: refused where reads have taken their half. One whole answer, of
    /// `bytes_max`, fits beyond it.
    pub(crate) fn read(&self, limits: &Limits, bytes_max: usize) -> Share {
        self.request((limits.buffered_bytes / 2).saturating_add(bytes_max))
    }

    /// The share of a region's answer to anything else. The expected bytes, `due`, are counted and never refused,
    /// because a stored job would otherwise become an unknown outcome. Beyond that it is treated as the answer of a
    /// read: an endless answer leaves room for jobs of other regions.
    pub(crate) fn answer_to(&self, sum_max: usize, due: usize) -> Share {
        Share { all: *self, sum_max, due, bytes: 0 }
    }

    /// The share of an answer that is made here, or that is known to have an end: counted and never refused.
    pub(crate) fn answer(&self) -> Share {
        self.request(usize::MAX)
    }
}

impl Share {
    /// Takes in so many bytes more; false, and nothing is taken, when there is no room for them.
    #[must_use]
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let is_due = self.bytes.saturating_add(bytes) <= self.due;
        let fits = |sum: usize| sum.checked_add(bytes).filter(|sum| is_due || *sum <= self.sum_max);
        let grown = self.all.0.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if grown {
            self.bytes += bytes;
        }
        grown
    }

    /// A part of it, for a piece of the body that is kept apart.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { bytes, ..*self }
    }

    /// The whole body, which carries its share with it from now on.
    pub(crate) fn hold(self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() { bytes } else { Bytes::from_owner(Counted { bytes, _share: self }) }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.0.fetch_sub(self.bytes, Relaxed);
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_share_one_bound_and_answers_count_beyond_it() {
        let all = Buffered::default();
        let (mut first, mut second, mut answer) = (all.request(10), all.request(10), all.answer());
        assert!(first.grow(6) && second.grow(4));
        assert!(!second.grow(1));
        assert!(answer.grow(100));
        drop(first);
        assert!(!second.grow(1), "the answer takes the room");
        drop(answer);
        assert!(second.grow(6));
        assert!(!second.grow(usize::MAX), "no sum overflows");
        drop(second);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn what_is_due_of_an_answer_always_fits_and_what_is_more_as_long_as_there_is_room() {
        let all = Buffered::default();
        let (mut long, mut other) = (all.answer_to(10, 6), all.answer_to(10, 6));
        assert!(long.grow(6) && long.grow(4), "there is room");
        assert!(!long.grow(1) && all.bytes() == 10);
        assert!(other.grow(5) && other.grow(1), "this is due");
        assert!(!other.grow(1));
        drop(long);
        assert!(other.grow(4));
    }

    #[test]
    fn a_body_counts_until_its_last_piece_is_dropped() {
        let all = Buffered::default();
        let mut share = all.request(10);
        assert!(share.grow(6));
        let body = share.hold(Bytes::from_static(b"sixsix"));
        let piece = body.slice(2..4);
        drop(body);
        assert_eq!((&*piece, all.bytes()), (&b"xs"[..], 6));
        drop(piece);
        assert_eq!(all.bytes(), 0);
    }
}
