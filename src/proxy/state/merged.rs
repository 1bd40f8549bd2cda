//! The event streams of several names of a queue, as one.

use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};

use crate::net::body::BodyError;
use crate::ojs::shards::WholeEvents;

/// Event streams as one: each event is whole, and they come in the order in which they arrive. It ends with the first one that ends.
///
/// Shape: at most the names of a queue with shards; each holds one event that has not ended.
#[derive(Debug)]
pub struct Merged<B> {
    streams: Vec<(B, WholeEvents)>,
    /// The stream that is looked at first, so that a busy one does not keep the others back.
    next: usize,
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Merged<B> {
    /// One stream. All that it says is passed on, of others their events only.
    #[must_use]
    pub fn of(first: B) -> Self {
        Self { streams: vec![(first, WholeEvents::default())], next: 0 }
    }

    /// Adds a stream.
    pub fn add(&mut self, stream: B) {
        self.streams.push((stream, WholeEvents::default()));
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let count = self.streams.len();
        for at in (self.next..count).chain(0..self.next) {
            let (stream, events) = &mut self.streams[at];
            let mut out = Vec::new();
            while let Poll::Ready(frame) = std::pin::Pin::new(&mut *stream).poll_frame(cx) {
                let data = match frame {
                    None => return Poll::Ready(None),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                };
                if events.push(&data, at == 0, &mut out).is_err() {
                    return Poll::Ready(Some(Err("an event of the region is longer than 64 KiB".into())));
                }
                if !out.is_empty() {
                    self.next = (at + 1) % count;
                    return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                }
            }
        }
        Poll::Pending
    }
}
