//! One accepted connection, TCP or Unix.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A client's socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Resolves when there is something to read, or the client has closed its side.
    ///
    /// Cancel: nothing is lost, as nothing is read.
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.readable().await,
            Self::Unix(unix) => unix.readable().await,
        }
    }

    /// Makes the coming close a reset, so that a cut answer cannot be taken for a complete one.
    pub(super) fn reset_on_close(&self) {
        if let Self::Tcp(tcp) = self {
            // Refused only on a dead socket, where there is nobody to mislead.
            let _ = tcp.set_zero_linger();
        }
    }
}

macro_rules! on_either {
    ($socket:expr, $method:ident, $($argument:expr),*) => {
        match $socket.get_mut() {
            Socket::Tcp(socket) => Pin::new(socket).$method($($argument),*),
            Socket::Unix(socket) => Pin::new(socket).$method($($argument),*),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        on_either!(self, poll_read, cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        on_either!(self, poll_write, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_either!(self, poll_write_vectored, cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, poll_flush, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_either!(self, poll_shutdown, cx)
    }
}
