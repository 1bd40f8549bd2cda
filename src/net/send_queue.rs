//! Batched sending: on each thread short messages wait until all ready tasks have run.
//!
//! Half of a call's cost is the kernel's sending, and the kernel sends a second message faster right after the first:
//! its code is still in the core's caches, and the receiver is awake. So a short message is queued where it is written,
//! and queued messages go out one after the other, behind the tasks that were ready by then. Where no other task is
//! ready, that is at once.
//!
//! `write` returns success once the message is queued, as the kernel does for bytes in its send buffer. Bytes that the
//! kernel then does not take are sent by a task of their own, and that connection takes no more until all of them have
//! gone; the next write returns an error.
//!
//! The queue belongs to the thread, and is open while [`keep_sending`] runs; elsewhere all is sent at once.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::at_once::at_once;
use super::evidence::Evidence;

/// A longer message is sent at once: most jobs and answers are shorter, and copying more would cost as much as batching
/// saves. Units: bytes.
const MESSAGE_BYTES_MAX: usize = 4096;
/// With so many messages or bytes the queue is sent: more than one round of socket events, and the size of a core's
/// caches.
const MESSAGES_MAX: usize = 64;
const BYTES_MAX: usize = 64 * 1024;

/// How long a client may take for the last that was written to it, once its connection has ended here.
const LAST_WORDS: Duration = Duration::from_secs(10);

thread_local! {
    static OUTBOX: RefCell<SendQueue> = const { RefCell::new(SendQueue::closed()) };
}

/// The sending side of a socket.
#[derive(Debug)]
pub(super) struct Line {
    /// Present until the line is dropped.
    half: Option<OwnedWriteHalf>,
    /// The count that gets the bytes which the kernel did not take.
    evidence: Option<Arc<Evidence>>,
    /// Whether no message can be sent now: the system has not taken all that came before, or never will.
    is_barred: AtomicBool,
    left: Mutex<Left>,
}

/// The bytes that the kernel did not take.
#[derive(Debug, Default)]
struct Left {
    bytes: Vec<u8>,
    /// The system's number of the error that sending ended with. Nothing is sent any more.
    failed: Option<i32>,
    /// Whether the writer has closed.
    is_gone: bool,
    /// The task that sends them.
    sender: Option<Sender>,
    /// The task that waits until they are sent.
    waiter: Option<Waker>,
}

/// The task that sends the rest.
#[derive(Debug)]
struct Sender {
    task: AbortHandle,
    /// Notified when the writer has closed.
    gone: Arc<Notify>,
}

struct SendQueue {
    is_open: bool,
    /// The task that sends the queue.
    sender: Option<Waker>,
    /// All messages, one behind the other.
    bytes: Vec<u8>,
    messages: Vec<(Arc<Line>, usize)>,
}

impl Line {
    pub(super) fn new(half: OwnedWriteHalf, evidence: Option<Arc<Evidence>>) -> Self {
        Self { half: Some(half), evidence, is_barred: AtomicBool::new(false), left: Mutex::default() }
    }

    /// Ready when nothing is left that was taken before and the system would not take.
    ///
    /// Errors: the one that sending has ended with.
    pub(super) fn poll_clear(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if self.is_barred.load(Relaxed) { self.poll_barred(cx) } else { Poll::Ready(Ok(())) }
    }

    #[cold]
    fn poll_barred(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut left = self.left.lock();
        match left.failed {
            Some(number) => Poll::Ready(Err(io::Error::from_raw_os_error(number))),
            None => {
                left.waiter = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The writer has closed. The queued bytes are sent, and a client that does not take them all has [`LAST_WORDS`]
    /// for the rest. No part of a request leaves this process later: the region cannot take the received part for all
    /// of it.
    pub(super) fn peer_closed(&self) {
        let mut left = self.left.lock();
        left.is_gone = true;
        let Some(sender) = &left.sender else { return };
        if self.evidence.is_some() {
            self.reset_on_close();
            sender.task.abort();
        } else {
            sender.gone.notify_one();
        }
    }

    fn tcp(&self) -> Option<&TcpStream> {
        self.half.as_ref().map(AsRef::as_ref)
    }

    fn reset_on_close(&self) {
        // The kernel refuses only on a dead socket, whose peer gets nothing anyway.
        let _ = self.tcp().map(TcpStream::set_zero_linger);
    }

    /// How much of a message the system takes now.
    fn send(&self, message: &[u8]) -> io::Result<usize> {
        let tcp = self.tcp().ok_or(io::ErrorKind::NotConnected)?;
        at_once(tcp, Interest::WRITABLE, message.len(), || send(tcp, message, SendFlags::NOSIGNAL)).unwrap_or(Ok(0))
    }

    /// Sends a message, or keeps the bytes that the kernel does not take, behind earlier such bytes.
    fn send_or_keep(self: &Arc<Self>, message: &[u8]) {
        if self.is_barred.load(Relaxed) {
            return self.keep_behind(message);
        }
        match self.send(message) {
            Ok(bytes) if bytes == message.len() => {}
            Ok(bytes) => self.keep(&message[bytes..]),
            Err(error) => {
                self.fail(&mut self.left.lock(), &error);
                self.take_back(message);
            }
        }
    }

    #[cold]
    fn keep_behind(&self, message: &[u8]) {
        let mut left = self.left.lock();
        match left.failed {
            Some(_) => self.take_back(message),
            None => left.bytes.extend_from_slice(message),
        }
    }

    /// Nothing of a message was sent, or will be.
    #[cold]
    fn take_back(&self, message: &[u8]) {
        if let Some(evidence) = &self.evidence {
            evidence.took_back(message.len());
        }
    }

    /// Stops sending: bytes behind a refused message must not leave.
    fn fail(&self, left: &mut Left, error: &io::Error) {
        left.failed = Some(error.raw_os_error().unwrap_or(rustix::io::Errno::PIPE.raw_os_error()));
        self.is_barred.store(true, Relaxed);
    }

    #[cold]
    fn keep(self: &Arc<Self>, rest: &[u8]) {
        let mut left = self.left.lock();
        let is_given_up = left.is_gone && self.evidence.is_some();
        if is_given_up || tokio::runtime::Handle::try_current().is_err() {
            self.reset_on_close();
            return self.fail(&mut left, &io::ErrorKind::BrokenPipe.into());
        }
        self.is_barred.store(true, Relaxed);
        left.bytes.extend_from_slice(rest);
        let gone = Arc::new(Notify::new());
        if left.is_gone {
            gone.notify_one();
        }
        let task = tokio::task::spawn_local(send_on(Arc::clone(self), Arc::clone(&gone))).abort_handle();
        left.sender = Some(Sender { task, gone });
    }

    /// Sends as much of the rest as the kernel takes now; ready when all is sent, or nothing more can be.
    fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(tcp) = self.tcp() else { return Poll::Ready(()) };
        let mut left = self.left.lock();
        self.is_barred.store(false, Relaxed);
        while !left.bytes.is_empty() {
            let ready = tcp.poll_write_ready(cx);
            if ready.is_pending() {
                self.is_barred.store(true, Relaxed);
            }
            match ready!(ready).and_then(|()| self.send(&left.bytes)) {
                Ok(bytes) => drop(left.bytes.drain(..bytes)),
                Err(error) => {
                    self.fail(&mut left, &error);
                    break;
                }
            }
        }
        (left.bytes, left.sender) = (Vec::new(), None);
        let waiter = left.waiter.take();
        drop(left);
        waiter.into_iter().for_each(Waker::wake);
        Poll::Ready(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Else the socket would be shut down instead of closed, and end cleanly where it must not.
        if let Some(half) = self.half.take() {
            half.forget();
        }
    }
}

/// Sends the rest of a line; once the writer has closed, for a limited time.
async fn send_on(line: Arc<Line>, gone: Arc<Notify>) {
    let is_late = async {
        gone.notified().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        biased;
        () = poll_fn(|cx| line.poll_left(cx)) => {}
        // The peer must not take a part for the whole.
        () = is_late => line.reset_on_close(),
    }
}

impl SendQueue {
    const fn closed() -> Self {
        Self { is_open: false, sender: None, bytes: Vec::new(), messages: Vec::new() }
    }
}

/// Queues a message of these pieces, to be sent soon. False where it is too long, or no sender runs on this thread:
/// then no earlier bytes of this thread are left to be sent first.
pub(super) fn put<'p>(line: &Arc<Line>, pieces: impl Iterator<Item = &'p [u8]> + Clone) -> bool {
    let length: usize = pieces.clone().map(<[u8]>::len).sum();
    let is_full = OUTBOX.with_borrow_mut(|outbox| {
        if !outbox.is_open || length > MESSAGE_BYTES_MAX {
            return None;
        }
        pieces.for_each(|piece| outbox.bytes.extend_from_slice(piece));
        outbox.messages.push((Arc::clone(line), length));
        if outbox.messages.len() == 1 {
            outbox.sender.iter().for_each(Waker::wake_by_ref);
        }
        Some(outbox.messages.len() >= MESSAGES_MAX || outbox.bytes.len() >= BYTES_MAX)
    });
    if is_full != Some(false) {
        send_all();
    }
    is_full.is_some()
}

/// Sends all that is in the outbox of this thread.
pub(super) fn send_all() {
    // Taken out, since a value that is dropped on the way may write.
    let taken = OUTBOX.try_with(|outbox| {
        let mut outbox = outbox.borrow_mut();
        (std::mem::take(&mut outbox.bytes), std::mem::take(&mut outbox.messages))
    });
    let Ok((mut bytes, mut messages)) = taken else { return };
    let mut rest = bytes.as_slice();
    for (line, length) in messages.drain(..) {
        let (message, behind) = rest.split_at_checked(length).unwrap_or_default();
        line.send_or_keep(message);
        rest = behind;
    }
    bytes.clear();
    // Their room is used again.
    let _ = OUTBOX.try_with(|outbox| {
        let mut outbox = outbox.borrow_mut();
        if outbox.messages.is_empty() {
            (outbox.bytes, outbox.messages) = (bytes, messages);
        }
    });
}

/// Opens the queue of this thread and sends its messages, for ever.
///
/// Must run as a task of its own, or other work in its task is polled for each message, on a thread whose runtime runs
/// local tasks. Cancel safety: queued bytes are sent, as far as the kernel takes them at once, also where the runtime
/// ends, and the queue is closed.
pub async fn keep_sending() {
    let _open = Open::begin();
    poll_fn(|cx| {
        OUTBOX.with_borrow_mut(|outbox| {
            if !outbox.sender.as_ref().is_some_and(|sender| sender.will_wake(cx.waker())) {
                outbox.sender = Some(cx.waker().clone());
            }
        });
        send_all();
        Poll::<()>::Pending
    })
    .await;
}

/// While it lives, a task sends.
struct Open;

impl Open {
    fn begin() -> Self {
        OUTBOX.with_borrow_mut(|outbox| outbox.is_open = true);
        Self
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        send_all();
        // A thread that ends has no outbox any more.
        let _ = OUTBOX.try_with(|outbox| *outbox.borrow_mut() = SendQueue::closed());
    }
}

#[cfg(test)]
mod tests;
