//! A body that was read whole.

use bytes::{Bytes, BytesMut};

use super::buffered::Share;

/// Up to so many bytes are copied out of the connection's buffer, of 8 kB, which else stays as long as the body does.
pub(crate) const SHORT_BYTES_MAX: usize = 2 * 1024;
/// A body that was read whole, and counts for as long as this is there.
#[derive(Debug)]
pub(crate) struct Collected {
    bytes: Bytes,
    share: Share,
    /// Whether it is in the buffer that its connection reads into.
    of_connection: bool,
}

impl Collected {
    /// A body as its connection gave it, in one piece.
    pub(crate) const fn of_connection(bytes: Bytes, share: Share) -> Self {
        Self { bytes, share, of_connection: true }
    }

    /// A body in a buffer of its own.
    pub(crate) const fn own(bytes: Bytes, share: Share) -> Self {
        Self { bytes, share, of_connection: false }
    }

    /// A body that was joined.
    pub(crate) fn joined(bytes: BytesMut, share: Share) -> Self {
        Self::own(bytes.freeze(), share)
    }

    pub(crate) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn into_share(self) -> Share {
        self.share
    }

    /// The body, counted until its last piece is dropped. A short one does not keep its connection's buffer.
    pub(crate) fn hold(self) -> Bytes {
        if self.bytes.len() <= SHORT_BYTES_MAX { self.hold_apart() } else { self.share.hold(self.bytes) }
    }

    /// As [`Self::hold`], and no connection's buffer is kept however long the body is.
    pub(crate) fn hold_apart(self) -> Bytes {
        self.share.hold(if self.of_connection { Bytes::copy_from_slice(&self.bytes) } else { self.bytes })
    }
}
