//! The bodies that we send to regions, as one type, so that a connection can carry any of them.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::IncomingBody;
use super::body_scheduler::{FREE_BYTES, FrameTurns};
use super::framing::Violation;

/// The pieces of a body up to this size are copied into one: each piece passes hyper's queue and the TLS layer on its own, which
/// costs more than so many bytes.
const JOINED_BYTES_MAX: usize = 4096;

/// Why a body that we relay ended early.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A request body on its way to a region.
///
/// One pointer: hyper's queue of each connection to a region has room for 64 requests, which so fit two blocks of 8 kB and no
/// larger ones.
#[derive(Debug, Default)]
pub struct Outgoing(Option<Box<Content>>);

/// The content of a body that is not empty.
#[derive(Debug)]
enum Content {
    /// The whole body, short enough to need no turns; given once.
    Whole(Bytes),
    /// A longer body. Boxed, because most jobs need no room for it.
    Pieces(Box<Pieces>),
    /// A client's body, passed on as it comes, never buffered.
    Stream(IncomingBody, Rc<Upload>),
}

/// Pieces in order, of a known total length.
#[derive(Debug)]
struct Pieces {
    /// Those before `next` are given away.
    all: Vec<Bytes>,
    /// The first piece that is left.
    next: usize,
    /// Bytes left.
    bytes: u64,
    turns: FrameTurns,
}

impl Pieces {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self { all, next, bytes, turns } = self;
        let frame = ready!(turns.poll_frame(cx, |_| {
            let piece = all.get_mut(*next).map(std::mem::take);
            *next += 1;
            Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
        }));
        let sent = frame.as_ref().and_then(|frame| Some(frame.as_ref().ok()?.data_ref()?.len()));
        *bytes = bytes.saturating_sub(sent.unwrap_or_default() as u64);
        Poll::Ready(frame)
    }

    fn is_end(&self) -> bool {
        self.turns.left() == 0 && self.next >= self.all.len()
    }
}

/// The progress of a client's body. The sender keeps a second handle, which shows on whose side a failure is.
#[derive(Debug)]
pub struct Upload {
    moved_at: Cell<Instant>,
    side: Cell<Side>,
    turns: RefCell<FrameTurns>,
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
    /// Nothing.
    pub const EMPTY: Self = Self(None);

    /// A body of pieces in memory; a small one becomes one piece.
    #[must_use]
    pub fn pieces(pieces: &[Bytes]) -> Self {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        Self::of(match pieces {
            [] => return Self::EMPTY,
            [whole] if whole.len() <= FREE_BYTES => Content::Whole(whole.clone()),
            _ if bytes <= JOINED_BYTES_MAX => {
                let mut whole = Vec::with_capacity(bytes);
                pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
                Content::Whole(whole.into())
            }
            _ => {
                let all = pieces.iter().filter(|piece| !piece.is_empty()).cloned().collect();
                Content::Pieces(Box::new(Pieces { all, next: 0, bytes: bytes as u64, turns: FrameTurns::sent() }))
            }
        })
    }

    /// A client's body, passed on as it comes, never buffered.
    #[must_use]
    pub fn stream(body: IncomingBody, upload: Rc<Upload>) -> Self {
        Self::of(Content::Stream(body, upload))
    }

    /// Whether there was nothing to send from the start.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn of(content: Content) -> Self {
        Self(Some(Box::new(content)))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut().0.as_deref_mut() {
            None => Poll::Ready(None),
            Some(Content::Whole(bytes)) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Some(Content::Pieces(pieces)) => pieces.poll_frame(cx),
            Some(Content::Stream(incoming, upload)) => {
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
        match self.0.as_deref() {
            None => true,
            Some(Content::Whole(bytes)) => bytes.is_empty(),
            Some(Content::Pieces(pieces)) => pieces.is_end(),
            Some(Content::Stream(incoming, upload)) => upload.turns.borrow().left() == 0 && incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self.0.as_deref() {
            None => SizeHint::with_exact(0),
            Some(Content::Whole(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Some(Content::Pieces(pieces)) => SizeHint::with_exact(pieces.bytes),
            Some(Content::Stream(incoming, upload)) => upload.turns.borrow().with_left(incoming.size_hint()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn a_body_takes_one_pointer_of_each_place_in_a_connections_queue() {
        assert_eq!(size_of::<Outgoing>(), size_of::<usize>());
    }

    #[tokio::test]
    async fn a_long_body_tells_what_is_left_of_it_and_ends_with_its_last_byte() {
        let sent = [Bytes::from(vec![b'a'; 1000]), Bytes::from_static(b""), Bytes::from(vec![b'b'; 3 * FREE_BYTES])];
        let all = sent.concat();
        let took_turns = async {
            let mut body = Outgoing::pieces(&sent);
            let mut given = Vec::new();
            while given.len() < all.len() {
                assert!(!body.is_end_stream(), "{} of {}", given.len(), all.len());
                assert_eq!(body.size_hint().exact(), Some((all.len() - given.len()) as u64));
                let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().unwrap();
                given.extend_from_slice(&frame.into_data().unwrap());
            }
            assert!(given == all && body.is_end_stream());
            assert_eq!(body.size_hint().exact(), Some(0));
        };
        tokio::task::LocalSet::new().run_until(took_turns).await;
    }
}
