//! One connection's decrypted byte stream, tapped: arriving bytes are recorded, and faults act on it below HTTP.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, Bytes};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::record::Record;

/// The handle that a request has on the connection it came by.
#[derive(Debug)]
pub(super) struct Wire {
    /// The connection's number in the record.
    pub(super) number: u64,
    cut: watch::Sender<bool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last_words: Option<LastWords>,
    waker: Option<Waker>,
    upgraded: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct LastWords {
    bytes: Bytes,
    farewell: bool,
}

impl Wire {
    pub(super) fn new(number: u64) -> Arc<Self> {
        Arc::new(Self { number, cut: watch::Sender::new(false), state: Mutex::default() })
    }

    /// Ends the connection at once, without a closing message.
    pub(super) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Resolves once the connection is to be ended.
    pub(super) async fn cut_asked(&self) {
        let mut asked = self.cut.subscribe();
        // The sender lives in `self`, so that the wait cannot fail.
        let _ = asked.wait_for(|cut| *cut).await;
    }

    /// Ends the connection once everything written so far has left, and `bytes` after it.
    ///
    /// Shape: HTTP writes whole frames between two flushes, so the bytes always stand at a border. `farewell` closes TLS as a
    /// polite peer does; without it the stream just breaks off.
    pub(super) fn end_with(&self, bytes: Bytes, farewell: bool) {
        let mut state = self.state.lock();
        state.last_words.get_or_insert(LastWords { bytes, farewell });
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Keeps the task that took the connection over after an upgrade.
    pub(super) fn took_over(&self, task: JoinHandle<()>) {
        self.state.lock().upgraded = Some(task);
    }

    /// The task that took the connection over, if one did.
    pub(super) fn upgraded(&self) -> Option<JoinHandle<()>> {
        self.state.lock().upgraded.take()
    }
}

/// A byte stream that copies read bytes into the record.
#[derive(Debug)]
pub(super) struct Tap<S> {
    inner: S,
    record: Record,
    wire: Arc<Wire>,
}

impl<S> Tap<S> {
    pub(super) fn new(inner: S, record: Record, wire: Arc<Wire>) -> Self {
        Self { inner, record, wire }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let result = ready!(Pin::new(&mut this.inner).poll_read(cx, buf));
        this.record.arrived(this.wire.number, buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.inner).poll_flush(cx))?;
        let mut state = this.wire.state.lock();
        state.waker = Some(cx.waker().clone());
        let Some(words) = &mut state.last_words else { return Poll::Ready(Ok(())) };
        while words.bytes.has_remaining() {
            let written = ready!(Pin::new(&mut this.inner).poll_write(cx, &words.bytes))?;
            words.bytes.advance(written);
        }
        ready!(Pin::new(&mut this.inner).poll_flush(cx))?;
        if words.farewell {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
        }
        this.wire.cut();
        // HTTP must not get to write anything more before the connection's task sees the cut.
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
