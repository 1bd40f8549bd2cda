//! The body of an answer to a client: our own bytes, or a region's answer as it streams in.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::merged::Merged;
use crate::net::Room;
use crate::net::body::BodyError;
use crate::net::pool::RegionBody;
use crate::ojs::shards::{Renamer, Shards};
use crate::policy::CallPermit;

/// The body of an answer to a client.
#[derive(Debug)]
pub enum Reply {
    /// Nothing more to say.
    Empty,
    /// Bytes in memory, given once.
    Full(Bytes),
    /// A region's answer, passed on as it comes. Dropped with the client's connection, which ends the region's side too.
    Stream(Box<Streamed>),
    /// Event streams of a region, as one.
    Merged(Box<Merged<Self>>),
}

/// A region's answer with an idle timeout.
#[derive(Debug)]
pub struct Streamed {
    body: RegionBody,
    idle_timeout: Duration,
    /// Made when the region is first waited for.
    idle: Option<Pin<Box<Sleep>>>,
    /// Whether it runs: the time that a slow client takes to read is not the region's.
    waiting: bool,
    /// Its place among the calls that are under way, free again when this is dropped.
    _permit: Option<CallPermit>,
    /// The memory that it may hold.
    _room: Option<Room>,
    /// The renamer that puts queues' own names in place of those of their shards; none where no queue has any.
    renaming: Option<Box<Renaming>>,
}

/// The renaming of a region's answer on its way.
#[derive(Debug)]
struct Renaming {
    shards: Arc<Shards>,
    /// The state of the answer.
    renamer: Renamer,
    /// Whether the end was given out.
    has_ended: bool,
}

impl Reply {
    /// A body in memory.
    #[must_use]
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() { Self::Empty } else { Self::Full(bytes) }
    }

    /// A region's answer that is cut when nothing came for `idle_timeout`, and holds its place and its room until it has ended.
    #[must_use]
    pub fn stream(body: RegionBody, idle_timeout: Duration, permit: Option<CallPermit>, room: Option<Room>) -> Self {
        if body.is_end_stream() {
            return Self::Empty;
        }
        let streamed =
            Streamed { body, idle_timeout, idle: None, waiting: false, _permit: permit, _room: room, renaming: None };
        Self::Stream(Box::new(streamed))
    }

    /// Event streams as one.
    #[must_use]
    pub fn merged(streams: Merged<Self>) -> Self {
        Self::Merged(Box::new(streams))
    }

    /// The same with the queues' own names.
    #[must_use]
    pub fn renamed(mut self, shards: &Arc<Shards>) -> Self {
        if let Self::Stream(streamed) = &mut self {
            let shards = Arc::clone(shards);
            streamed.renaming = Some(Box::new(Renaming { shards, renamer: Renamer::default(), has_ended: false }));
        }
        self
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Self::Stream(streamed) => streamed.poll_renamed(cx),
            Self::Merged(streams) => streams.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Full(bytes) => bytes.is_empty(),
            Self::Stream(streamed) => streamed.renaming.is_none() && streamed.body.is_end_stream(),
            Self::Merged(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(streamed) if streamed.renaming.is_some() => SizeHint::default(),
            Self::Merged(_) => SizeHint::default(),
            Self::Stream(streamed) => streamed.body.size_hint(),
        }
    }
}

impl Streamed {
    fn poll_renamed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let frame = ready!(self.poll(cx));
            let Some(renaming) = &mut self.renaming else { return Poll::Ready(frame) };
            let shards = &*renaming.shards;
            let mut out = Vec::new();
            match frame {
                None if renaming.has_ended => return Poll::Ready(None),
                None => {
                    renaming.has_ended = true;
                    renaming.renamer.end(shards, &mut out, &mut |_, _| {});
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => {
                    let data = frame.into_data().unwrap_or_default();
                    renaming.renamer.push(shards, &data, &mut out, &mut |_, _| {});
                }
            }
            // A piece may be held back as a whole.
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
            if renaming.has_ended {
                return Poll::Ready(None);
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            // Trailers describe the region's connection to us; the formats of OJS have none.
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => Poll::Ready(None),
            Poll::Ready(frame) => {
                self.waiting = false;
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                let idle = self.idle.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.idle_timeout)));
                if !std::mem::replace(&mut self.waiting, true) {
                    idle.as_mut().reset(Instant::now() + self.idle_timeout);
                }
                std::task::ready!(idle.as_mut().poll(cx));
                Poll::Ready(Some(Err("the region sent nothing for limits.stream_idle_timeout".into())))
            }
        }
    }
}
