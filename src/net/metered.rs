//! A socket that counts the bytes it handed to the system.
//!
//! The count is the evidence for `not_sent`. It is taken below TLS, where bytes really leave: whatever error a connection
//! ends with, if the count did not move since a request was given to it, no byte of that request can have reached the
//! region; if it moved, one may have.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How many bytes a connection has given to the system so far.
///
/// Only one thread touches it; an upgraded connection must nevertheless be one that could move.
pub(super) type Written = Arc<AtomicU64>;

/// A TCP socket with its count.
#[derive(Debug)]
pub struct Metered {
    socket: TcpStream,
    written: Written,
}

impl Metered {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { socket, written: Written::default() }
    }

    pub(super) fn written(&self) -> Written {
        Arc::clone(&self.written)
    }

    fn count(&self, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &poll {
            self.written.fetch_add(u64::try_from(*bytes).unwrap_or(u64::MAX), Relaxed);
        }
        poll
    }
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.socket).poll_write(cx, buf);
        this.count(poll)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.socket).poll_write_vectored(cx, bufs);
        this.count(poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
