//! The bodies that we send to regions, as one type, so that a connection can carry any of them.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::framing::Violation;
use super::lane::Turns;

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
    Stream(Incoming, Rc<Upload>),
}

/// How far a client's body has come; whoever sends it keeps a second handle, to know whose fault a failure is.
#[derive(Debug)]
pub struct Upload {
    moved_at: Cell<Instant>,
    side: Cell<Side>,
    turns: RefCell<Turns>,
}

/// Which side a body waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The region takes its time, with the body or with its answer to it.
    Region,
    /// The client has not sent the next piece.
    Client,
    /// The client's connection ended or failed inside the body, or its framing was wrong.
    Broken(Option<Violation>),
}

impl Upload {
    /// A body of which nothing was asked for yet.
    #[must_use]
    pub fn begin() -> Rc<Self> {
        Rc::new(Self { moved_at: Cell::new(Instant::now()), side: Cell::new(Side::Region), turns: RefCell::default() })
    }

    /// When the last piece was passed on.
    #[must_use]
    pub fn moved_at(&self) -> Instant {
        self.moved_at.get()
    }

    /// Which side it waits for.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side.get()
    }

    fn polled(&self, frame: &Poll<Option<Result<Frame<Bytes>, hyper::Error>>>) {
        let side = match frame {
            Poll::Pending => Side::Client,
            Poll::Ready(Some(Err(error))) => Side::Broken(Violation::in_causes_of(error)),
            Poll::Ready(Some(Ok(_)) | None) => {
                self.moved_at.set(Instant::now());
                Side::Region
            }
        };
        self.side.set(side);
    }
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
            Self::Stream(incoming, upload) => {
                let polled = upload.turns.borrow_mut().poll_frame(cx, |cx| {
                    let polled = Pin::new(&mut *incoming).poll_frame(cx);
                    upload.polled(&polled);
                    polled
                });
                match polled {
                    // Trailers are not passed on: the guard refuses them from clients, and hop by hop they mean nothing.
                    Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => Poll::Ready(None),
                    Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Pieces { pieces, next, .. } => *next >= pieces.len(),
            Self::Stream(incoming, upload) => upload.turns.borrow().left() == 0 && incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Pieces { bytes, .. } => SizeHint::with_exact(*bytes),
            Self::Stream(incoming, upload) => upload.turns.borrow().with_left(incoming.size_hint()),
        }
    }
}
