//! The body of a message, as it comes from a client or from a region.
//!
//! Most bodies are short, and are read at once with their head. hyper would pass such a body through a channel, which
//! costs more than the body: some thirty locked operations, and polls of both ends. So a body that came whole is taken
//! out of the bytes that hyper reads, and hyper sees a head that announces none. The body waits beside hyper until the
//! head is read.

use std::error::Error as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::io::ReadBuf;

use super::framing::{Alone, whole_answer};
use super::wake_filter::QuietBody;

/// A longer body is left where it was read: to copy it would cost more than the channel. Units: bytes.
const COPIED_BYTES_MAX: usize = 8 * 1024;

/// A body that came whole, or that is yet to come.
#[derive(Debug)]
pub enum IncomingBody {
    /// All of it, in a buffer of its own, until it is taken.
    Whole(Bytes),
    /// Piece by piece.
    Coming(QuietBody),
    /// Piece by piece, of which the first was looked at. In a place of its own: few bodies are, and each call has room for the largest.
    Begun(Box<(Bytes, QuietBody)>),
}

impl IncomingBody {
    /// The body of a message with these headers, which hyper has read; `whole` was taken out before. The headers have
    /// no length of such a body: it is written when the body leaves.
    pub(super) fn of(headers: &mut HeaderMap, incoming: Incoming, whole: Option<Bytes>) -> Self {
        let Some(whole) = whole else { return incoming.into() };
        headers.remove(CONTENT_LENGTH);
        Self::Whole(whole)
    }

    /// Waits for the first piece of the body, which stays; an empty one for an empty body.
    ///
    /// Errors: as of the body. Cancel: safe.
    pub fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<Result<&[u8], hyper::Error>> {
        if let Self::Coming(body) = self {
            let first = match ready!(Pin::new(&mut *body).poll_frame(cx)).transpose()? {
                // Trailers end the body, and are not passed on.
                Some(frame) => frame.into_data().ok(),
                None => None,
            };
            let coming = std::mem::replace(self, Self::Whole(Bytes::new()));
            if let (Some(first), Self::Coming(body)) = (first, coming) {
                *self = Self::Begun(Box::new((first, body)));
            }
        }
        Poll::Ready(Ok(match self {
            Self::Whole(first) => first,
            Self::Begun(begun) => &begun.0,
            Self::Coming(_) => &[],
        }))
    }

    /// Whether it came whole, so that the headers have no length of it.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self, Self::Whole(_))
    }

    /// Takes the body if it came whole.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        match self {
            Self::Whole(whole) => Some(std::mem::take(whole)),
            Self::Coming(_) | Self::Begun(_) => None,
        }
    }
}

impl From<Incoming> for IncomingBody {
    fn from(incoming: Incoming) -> Self {
        Self::Coming(QuietBody(incoming))
    }
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Begun(begun) if !begun.0.is_empty() => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut begun.0)))))
            }
            Self::Begun(begun) => Pin::new(&mut begun.1).poll_frame(cx),
            Self::Coming(body) => Pin::new(body).poll_frame(cx),
            Self::Whole(whole) if whole.is_empty() => Poll::Ready(None),
            Self::Whole(whole) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(whole))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_empty(),
            Self::Coming(body) => body.is_end_stream(),
            Self::Begun(begun) => begun.0.is_empty() && begun.1.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => SizeHint::with_exact(whole.len() as u64),
            Self::Coming(body) => body.size_hint(),
            Self::Begun(begun) => {
                let (first, rest) = (begun.0.len() as u64, begun.1.size_hint());
                let mut both = SizeHint::new();
                both.set_lower(first.saturating_add(rest.lower()));
                if let Some(upper) = rest.upper() {
                    both.set_upper(first.saturating_add(upper));
                }
                both
            }
        }
    }
}

/// The body of a client's request that waits for its head to be read: one at a time, with the number of its message.
#[derive(Debug, Default)]
pub(super) struct Beside(Mutex<Option<(u64, Bytes)>>);

impl Beside {
    /// Takes the body out of the bytes that were read from `from` on, which are exactly this message, if no request is
    /// open. While another one still waits, it stays.
    pub(super) fn put(&self, buf: &mut ReadBuf<'_>, from: usize, alone: Alone, is_idle: bool) {
        let mut beside = self.0.lock();
        if is_idle && beside.is_none() {
            *beside = take_out(buf, from, alone).map(|body| (alone.number, body));
        }
    }

    /// The body of the message of this number, where it was taken out.
    pub(super) fn take(&self, number: u64) -> Option<Bytes> {
        self.0.lock().take_if(|(waits, _)| *waits == number).map(|(_, body)| body)
    }

    /// Forgets waiting bodies: the numbers begin anew.
    pub(super) fn clear(&self) {
        *self.0.lock() = None;
    }
}

/// The answer that a connection to a region waits for: one at a time.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Whether the next byte that comes is the first one of the answer, and its head speaks of a body that follows.
    begins: AtomicBool,
    body: Mutex<Option<Bytes>>,
    /// Whether more bytes came than the last answer has.
    surplus: AtomicBool,
}

impl Awaited {
    /// A request is about to be sent.
    pub(super) fn begin(&self, method: &Method) {
        self.begins.store(*method != Method::HEAD, Relaxed);
    }

    /// Bytes arrived. Takes the body out of the bytes from `from` on, if they are the whole answer.
    pub(super) fn came(&self, buf: &mut ReadBuf<'_>, from: usize) {
        if !self.begins.load(Relaxed) || buf.filled().len() == from {
            return;
        }
        self.begins.store(false, Relaxed);
        let alone = buf.filled().get(from..).and_then(whole_answer);
        if let Some(body) = alone.and_then(|alone| take_out(buf, from, alone)) {
            *self.body.lock() = Some(body);
        }
    }

    /// The connection has ended with this error.
    pub(super) fn ended(&self, error: &hyper::Error) {
        // The library has no question for it: the one error without a cause that is not the end of the stream.
        let has_another_cause = error.source().is_some() || error.is_incomplete_message() || error.is_canceled();
        self.surplus.store(!has_another_cause, Relaxed);
    }

    /// Whether bytes came behind the last answer, so that where it ends is in doubt. The connection has ended then.
    pub(super) fn has_surplus(&self) -> bool {
        self.surplus.load(Relaxed)
    }

    /// The body of the answer whose head was read, where it was taken out.
    pub(super) fn take(&self) -> Option<Bytes> {
        self.body.lock().take()
    }
}

/// Takes the body out of a message that begins at `from` and ends with the buffer. Its head stays, and announces none.
fn take_out(buf: &mut ReadBuf<'_>, from: usize, alone: Alone) -> Option<Bytes> {
    let message = buf.filled_mut().get_mut(from..)?;
    let (head, body) = message.split_at_mut_checked(alone.head)?;
    if body.len() > COPIED_BYTES_MAX {
        return None;
    }
    let body = Bytes::copy_from_slice(body);
    let line = head.get_mut(..alone.length_ends)?;
    // As many digits as before, so that the count of the head's bytes stays right.
    let digits =
        line.iter_mut().rev().skip_while(|byte| !byte.is_ascii_digit()).take_while(|byte| byte.is_ascii_digit());
    digits.for_each(|digit| *digit = b'0');
    buf.set_filled(from + alone.head);
    Some(body)
}

#[cfg(test)]
mod tests;
