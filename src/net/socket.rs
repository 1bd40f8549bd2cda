//! One accepted connection, TCP or Unix.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use super::raw_tcp::RawTcp;

/// Pieces up to this size are sent as one to a Unix socket: to copy a small answer's head and body is less work than the system has with
/// two pieces.
const JOINED_BYTES_MAX: usize = 1024;

/// Not an array, which would be filled with zeros for each answer.
type Room = SmallVec<[u8; JOINED_BYTES_MAX]>;

/// A client's socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(RawTcp),
    Unix(UnixStream),
}

impl Socket {
    /// Resolves when there is something to read, or the client has closed its side.
    ///
    /// Cancel: nothing is lost, as nothing is read.
    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.tcp().readable().await,
            Self::Unix(unix) => unix.readable().await,
        }
    }

    /// Makes the coming close a reset, so that a cut answer cannot be taken for a complete one.
    pub(super) fn reset_on_close(&self) {
        if let Self::Tcp(tcp) = self {
            // The kernel refuses only on a dead socket, whose peer gets nothing anyway.
            let _ = tcp.tcp().set_zero_linger();
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

/// The bytes to send as one piece, where they are few; `room` is the buffer for them, and empty.
fn joined<'b>(bufs: &[IoSlice<'_>], room: &'b mut Room) -> Option<&'b [u8]> {
    for buf in bufs {
        if buf.len() > JOINED_BYTES_MAX - room.len() {
            return None;
        }
        room.extend_from_slice(buf);
    }
    Some(room)
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
        if let [whole] = bufs {
            return self.poll_write(cx, whole);
        }
        match self.get_mut() {
            // Small pieces come together in the outbox.
            Self::Tcp(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::Unix(unix) => {
                let mut room = Room::new();
                match joined(bufs, &mut room) {
                    Some(bytes) => Pin::new(unix).poll_write(cx, bytes),
                    None => Pin::new(unix).poll_write_vectored(cx, bufs),
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_sent_as_one_and_large_ones_as_they_are() {
        let (head, body, large) = (b"head".as_slice(), b"body".as_slice(), [b'x'; JOINED_BYTES_MAX]);
        let check = |pieces: &[&[u8]], expected: Option<&[u8]>| {
            let pieces: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            assert_eq!(joined(&pieces, &mut Room::new()), expected);
        };
        check(&[], Some(b""));
        check(&[head], Some(head));
        check(&[head, b"", body], Some(b"headbody"));
        check(&[&large], Some(&large));
        check(&[&large[1..], b"y"], Some(&[&large[1..], b"y"].concat()));
        check(&[&large[1..], b"yz"], None);
        check(&[head, &large], None);
        check(&[&large, head], None);
    }
}
