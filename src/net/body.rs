//! The bodies that we send to regions, as one type, so that a connection can carry any of them.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// Why a body that we relay ended early.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A request body on its way to a region.
#[derive(Debug)]
pub enum Outgoing {
    /// Nothing.
    Empty,
    /// Pieces in order, of a known total length.
    Pieces {
        /// The pieces; those before `next` are given away.
        pieces: Vec<Bytes>,
        /// The first piece that is left.
        next: usize,
        /// Bytes left.
        bytes: u64,
    },
    /// A client's body, passed on as it comes, never buffered.
    Stream(Incoming),
}

impl Outgoing {
    /// A body of pieces in memory.
    #[must_use]
    pub fn pieces(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces: Vec<Bytes> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self::Pieces { pieces, next: 0, bytes }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Pieces { pieces, next, bytes } => {
                let Some(piece) = pieces.get_mut(*next).map(std::mem::take) else { return Poll::Ready(None) };
                *next += 1;
                *bytes = bytes.saturating_sub(piece.len() as u64);
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Self::Stream(incoming) => match Pin::new(incoming).poll_frame(cx) {
                // Trailers are not passed on: the guard refuses them from clients, and hop by hop they mean nothing.
                Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => Poll::Ready(None),
                Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Pieces { pieces, next, .. } => *next >= pieces.len(),
            Self::Stream(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Pieces { bytes, .. } => SizeHint::with_exact(*bytes),
            Self::Stream(incoming) => incoming.size_hint(),
        }
    }
}
