//! A connected stream to a region, with TLS or, on loopback in development, without.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::counting_stream::CountingStream;
use super::evidence::Evidence;
use super::tls::not_after;

/// A connected stream.
#[derive(Debug)]
pub enum Stream {
    /// Without TLS: loopback in development only.
    Plain(CountingStream),
    /// With TLS.
    Tls(Tls),
}

/// A stream with TLS.
#[derive(Debug)]
pub struct Tls {
    /// Boxed, because its state is more than a kilobyte.
    stream: Box<TlsStream<CountingStream>>,
    /// Whether TLS had nothing left to show when it was last asked.
    is_drained: bool,
}

impl Tls {
    pub(super) fn new(stream: TlsStream<CountingStream>) -> Self {
        Self { stream: Box::new(stream), is_drained: false }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_drained && self.stream.get_ref().0.is_waiting(cx) {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let poll = Pin::new(self.stream.as_mut()).poll_read(cx, buf);
        let evidence = self.stream.get_ref().0.evidence();
        match &poll {
            Poll::Ready(Ok(())) if buf.filled().len() > before => evidence.heard(),
            Poll::Ready(Err(error)) => evidence.failed(error),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        self.is_drained = poll.is_pending();
        poll
    }
}

impl Stream {
    /// Whether ALPN chose HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    /// When the certificate that the server showed ends, in seconds since the Unix epoch.
    pub(super) fn server_expiry(&self) -> Option<i64> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.stream.get_ref().1.peer_certificates()?.first().and_then(not_after),
        }
    }

    pub(super) fn evidence(&self) -> &Arc<Evidence> {
        match self {
            Self::Plain(metered) => metered.evidence(),
            Self::Tls(tls) => tls.stream.get_ref().0.evidence(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let poll = match this {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(tls) => tls.poll_read(cx, buf),
        };
        this.evidence().answer.came(buf, before);
        poll
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(tls.stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(tls) => Pin::new(tls.stream.as_mut()).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(tls) => tls.stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls.stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls.stream.as_mut()).poll_shutdown(cx),
        }
    }
}
