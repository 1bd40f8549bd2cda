//! A TCP socket that sends and receives without the C library.
//!
//! In a process with several threads, libc makes each `send` and `recv` a cancellation point, which no thread of ours
//! uses: it costs a hundredth of a request.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::{Errno, writev};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use super::at_once::at_once;
use super::evidence::Evidence;
use super::send_queue::{self, Line};

/// The socket. Writes go through the send queue of the thread.
#[derive(Debug)]
pub(super) struct RawTcp {
    reading: OwnedReadHalf,
    line: Arc<Line>,
}

impl RawTcp {
    /// `evidence` gets the bytes that were written and that the kernel then did not take.
    pub(super) fn new(tcp: TcpStream, evidence: Option<Arc<Evidence>>) -> Self {
        let (reading, writing) = tcp.into_split();
        Self { reading, line: Arc::new(Line::new(writing, evidence)) }
    }

    /// For all that is asked of it otherwise.
    pub(super) fn tcp(&self) -> &TcpStream {
        self.reading.as_ref()
    }

    /// Ready when nothing that was written waits here: the system has it all.
    fn poll_sent(&self, cx: &Context<'_>) -> Poll<()> {
        send_queue::send_all();
        // Where sending has failed nothing waits.
        self.line.poll_clear(cx).map(drop)
    }
}

impl Drop for RawTcp {
    fn drop(&mut self) {
        self.line.peer_closed();
    }
}

impl AsyncRead for RawTcp {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buf.initialized().len() < buf.capacity() {
            // To fill the rest with zeros, which are then overwritten, would cost more.
            return Pin::new(&mut this.reading).poll_read(cx, buf);
        }
        let tcp = this.tcp();
        loop {
            ready!(tcp.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            let max = room.len();
            if let Some(bytes) = at_once(tcp, Interest::READABLE, max, || recv(tcp, room, RecvFlags::empty())) {
                buf.advance(bytes?);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for RawTcp {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { line, .. } = &*self;
        ready!(line.poll_clear(cx))?;
        if send_queue::put(line, std::iter::once(buf)) {
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(line.poll_clear(cx))?;
        let tcp = self.tcp();
        loop {
            ready!(tcp.poll_write_ready(cx))?;
            if let Some(bytes) = at_once(tcp, Interest::WRITABLE, buf.len(), || send(tcp, buf, SendFlags::NOSIGNAL)) {
                return Poll::Ready(bytes);
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { line, .. } = &*self;
        ready!(line.poll_clear(cx))?;
        let length = bufs.iter().map(|buf| buf.len()).sum();
        if send_queue::put(line, bufs.iter().map(|buf| &**buf)) {
            return Poll::Ready(Ok(length));
        }
        ready!(line.poll_clear(cx))?;
        let tcp = self.tcp();
        loop {
            ready!(tcp.poll_write_ready(cx))?;
            if let Some(bytes) = at_once(tcp, Interest::WRITABLE, length, || writev(tcp, bufs)) {
                return Poll::Ready(bytes);
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Ready when all was taken, by the system or to be sent soon.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.poll_clear(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(cx));
        match shutdown(self.tcp(), Shutdown::Write) {
            // It has ended already.
            Ok(()) | Err(Errno::NOTCONN) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (RawTcp, RawTcp) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (RawTcp::new(socket, None), RawTcp::new(listener.accept().await.unwrap().0, None))
    }

    #[tokio::test]
    async fn everything_arrives_in_order_however_slowly_it_is_read() {
        let (mut socket, mut peer) = pair().await;
        // More than the system takes at once.
        let sent: Vec<u8> = (0..8_u32 << 20).map(|place| place.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
        let expected = sent.clone();
        tokio::spawn(async move { socket.write_all(&sent).await });
        let mut received = Vec::new();
        let mut part = [0; 5000];
        loop {
            let bytes = peer.read(&mut part).await.unwrap();
            if bytes == 0 {
                break;
            }
            received.extend_from_slice(&part[..bytes]);
        }
        assert!(received == expected, "{} of {} bytes", received.len(), expected.len());
    }

    #[tokio::test]
    async fn what_comes_right_behind_a_part_is_heard() {
        let (mut socket, mut peer) = pair().await;
        let mut part = [0; 64];
        for word in ["one", "two", "three"] {
            peer.write_all(word.as_bytes()).await.unwrap();
            let bytes = socket.read(&mut part).await.unwrap();
            assert_eq!(&part[..bytes], word.as_bytes());
        }
    }

    #[tokio::test]
    async fn writing_to_a_closed_peer_is_an_error_and_no_signal() {
        let (mut socket, peer) = pair().await;
        socket.write_all(b"never read").await.unwrap();
        // Closed with bytes unread, it resets the connection.
        drop(peer);
        let error = loop {
            match socket.write(b"into the void").await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
    }
}
