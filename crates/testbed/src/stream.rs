//! Bodies that are made while they are sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::answer::{Body, BoxError, typed};
use super::faults::Gate;
use super::query::parameter;
use super::record::Record;
use super::wire::Wire;

/// Size of the parts of a made-up body.
const PART_BYTES: usize = 16 * 1024;

/// A request body that is recorded while it is read.
#[derive(Debug)]
pub(super) struct Arriving {
    inner: Incoming,
    record: Record,
    order: u64,
}

impl Arriving {
    pub(super) fn new(inner: Incoming, record: Record, order: u64) -> Self {
        if inner.is_end_stream() {
            record.body_ended(order);
        }
        Self { inner, record, order }
    }
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    this.record.body_part(this.order, bytes);
                }
                if this.inner.is_end_stream() {
                    this.record.body_ended(this.order);
                }
            }
            Poll::Ready(None) => this.record.body_ended(this.order),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The same byte over and over: a given number of times, or without end.
#[derive(Debug)]
struct Repeated {
    part: Bytes,
    left: Option<u64>,
    exact: bool,
}

impl http_body::Body for Repeated {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(left) = &mut this.left else { return Poll::Ready(Some(Ok(Frame::data(this.part.clone())))) };
        if *left == 0 {
            return Poll::Ready(None);
        }
        let length = usize::try_from(*left).unwrap_or(usize::MAX).min(this.part.len());
        *left = left.saturating_sub(u64::try_from(length).unwrap_or(u64::MAX));
        Poll::Ready(Some(Ok(Frame::data(this.part.slice(..length)))))
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            Some(left) if self.exact => SizeHint::with_exact(left),
            _ => SizeHint::default(),
        }
    }
}

/// A body of white space that never ends.
pub(super) fn endless() -> Body {
    Repeated { part: Bytes::from(vec![b' '; PART_BYTES]), left: None, exact: false }.boxed_unsync()
}

/// `debug/stream?bytes=N[&chunked=true]`: N bytes, with their length announced unless `chunked` asks otherwise.
pub(super) fn made_up(head: &Parts) -> Response<Body> {
    let left = parameter(&head.uri, "bytes").and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let exact = parameter(&head.uri, "chunked").as_deref() != Some("true");
    let body = Repeated { part: Bytes::from(vec![b'x'; PART_BYTES]), left: Some(left), exact };
    typed(StatusCode::OK, "application/octet-stream", body.boxed_unsync())
}

/// `debug/echo`: the body comes back while it arrives.
pub(super) fn echo(body: Arriving) -> Response<Body> {
    typed(StatusCode::OK, "application/octet-stream", body.map_err(BoxError::from).boxed_unsync())
}

/// The first part of an answer, after which the connection is cut.
#[derive(Debug)]
struct CutShort {
    first: Option<Bytes>,
    announced: SizeHint,
    wire: Arc<Wire>,
}

impl http_body::Body for CutShort {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Task<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        match this.first.take().filter(|first| !first.is_empty()) {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => {
                this.wire.end_with(Bytes::new(), false);
                Poll::Pending
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.announced
    }
}

/// Cuts the connection after `after_bytes` of the body, or one byte before its end.
pub(super) async fn cut_short(response: Response<Body>, after_bytes: usize, wire: Arc<Wire>) -> Response<Body> {
    let (head, body) = response.into_parts();
    let whole = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let kept = whole.len().saturating_sub(1).min(after_bytes);
    let announced = SizeHint::with_exact(u64::try_from(whole.len()).unwrap_or(u64::MAX));
    let body = CutShort { first: Some(whole.slice(..kept)), announced, wire };
    Response::from_parts(head, body.boxed_unsync())
}

/// The first part of an answer, after which the stream is reset.
struct Cancelled {
    first: Option<Bytes>,
    then: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl http_body::Body for Cancelled {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Task<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        std::task::ready!(self.then.as_mut().poll(cx));
        Poll::Ready(Some(Err(h2::Error::from(h2::Reason::CANCEL).into())))
    }
}

/// Resets the HTTP/2 stream after `after_bytes` of the body, or one byte before its end, once the gate opens.
pub(super) async fn cancelled(response: Response<Body>, after_bytes: usize, gate: Gate) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let whole = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let kept = whole.len().saturating_sub(1).min(after_bytes);
    let then = Box::pin(async move { gate.passed().await });
    Response::from_parts(head, Cancelled { first: Some(whole.slice(..kept)), then }.boxed_unsync())
}
