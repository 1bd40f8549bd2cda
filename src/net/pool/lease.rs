//! The body of a region's answer, which holds the connection until it was read to its end.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::connection::Http1;
use super::shared::Shared;
use crate::net::{IncomingBody, Violation};

/// The body of a region's answer.
///
/// Cancel: dropped before its end, it closes an HTTP/1.1 connection, because the rest of the answer is still on the way; not so where
/// the answer came whole.
#[derive(Debug)]
pub struct RegionBody {
    incoming: IncomingBody,
    lease: Option<Lease>,
    is_over_http2: bool,
    /// When its end was read, and the connection given back.
    ended: Option<Instant>,
}

/// A connection with a request on it, which counts as busy for as long.
#[derive(Debug)]
pub(super) struct Lease {
    /// Present until it is given back.
    http1: Option<Http1>,
    pool: Rc<Shared>,
}

impl Lease {
    pub(super) fn begin(http1: Http1, pool: Rc<Shared>) -> Self {
        pool.meters.busy.inc();
        Self { http1: Some(http1), pool }
    }

    pub(super) const fn connection(&mut self) -> Option<&mut Http1> {
        self.http1.as_mut()
    }

    fn has_surplus(&self) -> bool {
        self.http1.as_ref().is_some_and(Http1::has_surplus)
    }

    fn give_back(mut self, now: Instant) {
        if let Some(http1) = self.http1.take() {
            self.pool.give_back(http1, now);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.meters.busy.dec();
    }
}

impl RegionBody {
    pub(super) fn leased(incoming: IncomingBody, lease: Lease) -> Self {
        let mut body = Self { incoming, lease: Some(lease), is_over_http2: false, ended: None };
        // A body that came whole is no longer on the connection.
        if body.incoming.is_end_stream() || matches!(body.incoming, IncomingBody::Whole(_)) {
            body.finish();
        }
        body
    }

    pub(super) fn shared(incoming: Incoming) -> Self {
        Self { incoming: incoming.into(), lease: None, is_over_http2: true, ended: None }
    }

    fn finish(&mut self) {
        if let Some(lease) = self.lease.take() {
            let now = Instant::now();
            lease.give_back(now);
            self.ended = Some(now);
        }
    }

    /// Takes the body if it came whole with its head.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        self.incoming.take_whole()
    }

    /// Whether more than so many bytes of it are to come, or an unknown number.
    #[must_use]
    pub fn is_longer_than(&self, bytes: u64) -> bool {
        let is_coming = matches!(self.incoming, IncomingBody::Coming(_)) && !self.incoming.is_end_stream();
        is_coming && self.incoming.size_hint().upper().is_none_or(|upper| upper > bytes)
    }

    /// When the end of the answer was read, where that has given an HTTP/1.1 connection back.
    #[must_use]
    pub const fn ended(&self) -> Option<Instant> {
        self.ended
    }
}

/// Why the rest of a region's answer does not come.
#[derive(Debug, thiserror::Error)]
pub enum Cut {
    /// The connection broke, or the bytes are not HTTP.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The region reset the HTTP/2 stream before its end, with a reason by which it means no harm.
    #[error("the region reset the stream before the end of its answer")]
    Reset,
    /// It can be read in two ways, or more bytes came than it has.
    #[error(transparent)]
    Broken(Violation),
}

impl Body for RegionBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let frame = std::task::ready!(Pin::new(&mut this.incoming).poll_frame(cx));
        match &frame {
            Some(Err(_)) => drop(this.lease.take()),
            Some(Ok(_)) if !this.incoming.is_end_stream() => {}
            // hyper passes a stream that was reset with NO_ERROR or CANCEL for one that has ended.
            None if this.is_over_http2 && !this.incoming.is_end_stream() => {
                return Poll::Ready(Some(Err(Cut::Reset)));
            }
            // The last piece is withheld, too: with it the client would see an answer that looks whole.
            Some(Ok(_)) | None if this.lease.as_ref().is_some_and(Lease::has_surplus) => {
                drop(this.lease.take());
                return Poll::Ready(Some(Err(Cut::Broken(Violation::Surplus))));
            }
            Some(Ok(_)) | None => this.finish(),
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
