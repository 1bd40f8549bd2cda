//! A response body that reports to its connection when the answer is complete.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::net::body_scheduler::FrameTurns;
use crate::net::drain::OpenRequest;
use crate::net::guard::{ClientSide, Phase};

/// How long a stream may pause once the client has closed its sending side: a client that only half-closed still gets
/// an answer that flows, and a silent stream is not kept open for a disconnected client.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The body of a response, as hyper writes it.
pub(super) struct Answer<B> {
    body: Pin<Box<B>>,
    open: Open,
    turns: FrameTurns,
    pause: Option<Pin<Box<Sleep>>>,
}

/// Marks the request as answered when the body is dropped, which hyper does when it has taken the last byte.
struct Open {
    client: ClientSide,
    _request: OpenRequest,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.client.0.enter(Phase::Answered);
    }
}

/// The client went away while its answer was a stream that paused.
#[derive(Debug, thiserror::Error)]
#[error("the client went away")]
struct ClientWentAway;

impl<B> Answer<B> {
    pub(super) fn new(body: B, client: ClientSide, request: OpenRequest) -> Self {
        Self {
            body: Box::pin(body),
            open: Open { client, _request: request },
            turns: FrameTurns::default(),
            pause: None,
        }
    }
}

impl<B> Body for Answer<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        // A body that waits for its turn waits for us: that is no pause of the stream.
        let mut waits = true;
        let body = this.body.as_mut();
        let polled = this.turns.poll_frame(cx, |cx| {
            waits = false;
            body.poll_frame(cx)
        });
        if polled.is_ready() || waits {
            this.pause = None;
            return polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)));
        }
        if this.open.client.poll_disconnected(cx).is_pending() {
            return Poll::Pending;
        }
        let pause = this.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE_MAX)));
        pause.as_mut().poll(cx).map(|()| Some(Err(ClientWentAway.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.turns.left() == 0 && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.turns.with_left(self.body.size_hint())
    }
}
