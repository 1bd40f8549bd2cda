//! A socket that counts the bytes that were written to the kernel, or are queued to be written before the thread next waits for events.
//!
//! The count is the evidence for `not_sent`. The socket counts below TLS, and subtracts queued bytes that the
//! kernel then refuses. If the count did not move since a request was given to the connection, no byte
//! of that request can have reached the region; if it moved, one may have.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::body_scheduler::Turns;
use super::evidence::Evidence;
use super::raw_tcp::RawTcp;
use super::waiting::Waiting;

/// A TCP socket with its count.
#[derive(Debug)]
pub struct CountingStream {
    socket: RawTcp,
    waiting: Waiting,
    evidence: Arc<Evidence>,
    /// Bounds the bytes that are read in one poll, so that a region that sends without a pause does not keep other connections waiting.
    turns: Turns,
}

impl CountingStream {
    pub(super) fn new(socket: TcpStream) -> Self {
        let evidence = Arc::<Evidence>::default();
        let socket = RawTcp::new(socket, Some(Arc::clone(&evidence)));
        Self { socket, waiting: Waiting::default(), evidence, turns: Turns::default() }
    }

    pub(super) const fn evidence(&self) -> &Arc<Evidence> {
        &self.evidence
    }

    /// Whether the socket has no bytes to read and holds the waker of this task already, so that another read can be left out.
    pub(super) fn is_waiting(&self, cx: &Context<'_>) -> bool {
        self.waiting.is_still(&self.socket, cx)
    }

    /// Counts the written bytes. An error that means that the peer has closed is reported as success: the reader finds the end of the stream.
    ///
    /// The peer's last message (an answer to half a request, an alert) may still wait to be read, and says more than
    /// the failed write. The reader finds the end of the stream after that message, so that no task waits for ever. Bytes that
    /// the kernel did not take are not counted.
    fn count_written(&self, poll: Poll<io::Result<usize>>, offered: usize) -> Poll<io::Result<usize>> {
        match poll {
            Poll::Ready(Ok(bytes)) => {
                self.evidence.wrote(bytes);
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) if is_peer_closed(&error) => Poll::Ready(Ok(offered)),
            poll => poll,
        }
    }
}

/// Whether the error means that the peer has closed, which a reader finds as well.
fn is_peer_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

impl AsyncRead for CountingStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.turns.poll(cx));
        let before = buf.filled().len();
        let poll = this.waiting.poll_read(&mut this.socket, cx, buf);
        if poll.is_pending() {
            this.turns = Turns::default();
        } else {
            this.turns.moved(buf.filled().len() - before);
        }
        poll
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.socket).poll_write(cx, buf);
        this.count_written(poll, buf.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // Usually one record of TLS: for a single buffer `write` costs the kernel less than `writev`.
        let poll = match bufs {
            [whole] => Pin::new(&mut this.socket).poll_write(cx, whole),
            _ => Pin::new(&mut this.socket).poll_write_vectored(cx, bufs),
        };
        this.count_written(poll, bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match Pin::new(&mut this.socket).poll_flush(cx) {
            Poll::Ready(Err(error)) if is_peer_closed(&error) => Poll::Ready(Ok(())),
            flushed => flushed,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_peer_that_sends_without_a_pause_leaves_others_their_turn() {
        tokio::task::LocalSet::new().run_until(leaves_others_their_turn()).await;
    }

    async fn leaves_others_their_turn() {
        /// A little more than is read before others have their turn.
        const TURN_BYTES: usize = 68 * 1024;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut socket = CountingStream::new(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        let (mut peer, _) = listener.accept().await.unwrap();
        tokio::spawn(async move { while peer.write_all(&[b'x'; 4096]).await.is_ok() {} });
        let mut turns = 0;
        let mut read = 0;
        while read < 64 * TURN_BYTES {
            // A reader that reads as long as there are bytes.
            let turn = std::future::poll_fn(|cx| {
                let (mut part, mut bytes) = ([0; 4096], 0);
                let mut part = ReadBuf::new(&mut part);
                while Pin::new(&mut socket).poll_read(cx, &mut part).is_ready() {
                    bytes += part.filled().len();
                    part.clear();
                }
                Poll::Ready(bytes)
            });
            let bytes = turn.await;
            assert!(bytes <= TURN_BYTES + 4096, "{bytes} at once");
            (turns, read) = (turns + 1, read + bytes);
            tokio::task::yield_now().await;
        }
        assert!(turns >= 60);
    }

    #[tokio::test]
    async fn the_last_words_of_a_peer_that_hung_up_are_read_even_after_a_failed_write() {
        last_words_are_read().await;
    }

    #[tokio::test]
    async fn the_last_words_of_a_peer_are_read_also_when_writes_go_through_the_send_queue() {
        let local = tokio::task::LocalSet::new();
        drop(local.spawn_local(crate::net::keep_sending()));
        local.run_until(last_words_are_read()).await;
    }

    async fn last_words_are_read() {
        tokio::task::yield_now().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut socket = CountingStream::new(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        let (mut peer, _) = listener.accept().await.unwrap();
        socket.write_all(b"never read").await.unwrap();
        tokio::task::yield_now().await;
        peer.write_all(b"bye").await.unwrap();
        // Closed with bytes unread, it resets the connection.
        drop(peer);
        for _ in 0..3 {
            socket.write_all(b"into the void").await.unwrap();
            assert!(socket.evidence().written() >= 10, "what may yet be written counts");
            tokio::task::yield_now().await;
        }
        assert_eq!(socket.evidence().written(), 10, "what the system refused was not written");
        let mut said = Vec::new();
        let _ = socket.read_to_end(&mut said).await;
        assert_eq!(said, b"bye");
    }
}
