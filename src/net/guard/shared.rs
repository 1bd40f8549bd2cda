//! State of one client connection that is used on both sides of hyper: by the guard of the socket below it, and by the request handler above.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::leftover::Leftover;
use crate::net::drain::{Activity, OpenRequest};
use crate::net::incoming_body::Beside;
use crate::net::permit::{Charge, Memory};

/// The memory of an answer that its client does not read: hyper's buffers at both ends, and those of TLS.
pub(super) const UNREAD_BYTES: usize = 224 * 1024;
/// The memory of a stream or a tunnel: its connection to a region with TLS, and the buffer between both ends.
const STREAM_BYTES: usize = 64 * 1024;

/// State that a connection's guard and its requests share.
#[derive(Debug, Default)]
pub(in crate::net) struct Shared {
    phase: AtomicU8,
    tunnel: AtomicBool,
    gone: AtomicBool,
    breached: AtomicBool,
    /// Whether memory is reserved for the current answer, in case its client reads slowly.
    has_room: AtomicBool,
    /// The task that waits for the client to disconnect.
    watcher: Mutex<Option<Waker>>,
    leftover: Mutex<Option<Leftover>>,
    /// The body of a request that came together with its head, beside hyper's own buffer.
    beside: Beside,
}

/// How far the current request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::net) enum Phase {
    /// No request is open, and every answer was written to the socket.
    Idle = 0,
    /// The handler has the request, or its answer is still being produced.
    Open = 1,
    /// The answer is complete, but may still be in hyper's buffer.
    Answered = 2,
}

impl Shared {
    pub(in crate::net) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(in crate::net) fn is_in(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Relaxed) == phase as u8
    }

    /// Notes that the bytes after the current answer are not HTTP.
    pub(in crate::net) fn begin_tunnel(&self) {
        self.tunnel.store(true, Ordering::Relaxed);
    }

    pub(in crate::net) fn is_tunnel(&self) -> bool {
        self.tunnel.load(Ordering::Relaxed)
    }

    /// Notes that the body of the current request is refused, and that nothing after it is read.
    pub(super) fn breach(&self) {
        self.breached.store(true, Ordering::Relaxed);
    }

    pub(in crate::net) fn is_breached(&self) -> bool {
        self.breached.load(Ordering::Relaxed)
    }

    /// Whether memory is reserved for an answer, in case its client reads slowly.
    pub(super) fn has_room(&self) -> bool {
        self.has_room.load(Ordering::Relaxed)
    }

    pub(in crate::net) const fn beside(&self) -> &Beside {
        &self.beside
    }

    pub(super) fn leave(&self, leftover: Leftover) {
        *self.leftover.lock() = Some(leftover);
    }

    pub(in crate::net) fn take_leftover(&self) -> Option<Leftover> {
        self.leftover.lock().take()
    }

    pub(super) fn client_disconnected(&self) {
        self.gone.store(true, Ordering::Release);
        if let Some(waker) = self.watcher.lock().take() {
            waker.wake();
        }
    }
}

/// The client's side of a connection, as a request handler may watch it. Handlers clone it for each request, on the thread of the connection
/// only, so that no atomic counter is needed.
#[derive(Debug, Clone)]
pub struct ClientSide(pub(in crate::net) Rc<Connected>);

/// A connection, and its thread's counters.
#[derive(Debug)]
pub(in crate::net) struct Connected {
    pub(in crate::net) shared: Arc<Shared>,
    activity: Activity,
    memory: Memory,
}

/// Room in `limits.memory` for one answer, until it is dropped.
#[derive(Debug)]
pub struct Room {
    charge: Charge,
    /// The connection whose answer may be read late.
    late: Option<Rc<Connected>>,
}

impl Room {
    /// Reserves more memory, for an answer that may be long and whose client may read it slowly. Returns false where `limits.memory` does not
    /// allow that; the smaller reservation then stays.
    #[must_use]
    pub fn for_long_answer(&mut self, client: &ClientSide) -> bool {
        let fits = self.charge.set(STREAM_BYTES + UNREAD_BYTES);
        if fits {
            client.0.has_room.store(true, Ordering::Relaxed);
            self.late = Some(Rc::clone(&client.0));
        }
        fits
    }

    /// Gives back the memory charged for a long answer.
    pub fn for_short_answer(&mut self) {
        // Less always fits.
        let _ = self.charge.set(STREAM_BYTES);
        self.forget_late_reader();
    }

    fn forget_late_reader(&mut self) {
        if let Some(connected) = self.late.take() {
            connected.has_room.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.forget_late_reader();
    }
}

impl Deref for Connected {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl ClientSide {
    pub(in crate::net) fn new(shared: Arc<Shared>, activity: Activity, memory: Memory) -> Self {
        Self(Rc::new(Connected { shared, activity, memory }))
    }

    /// Room for a call that is streamed: its connection to a region, and the buffers at both ends. None where clients hold as much as
    /// `limits.memory` allows.
    #[must_use]
    pub fn room(&self) -> Option<Room> {
        let mut charge = self.0.memory.outgoing();
        charge.set(STREAM_BYTES).then_some(Room { charge, late: None })
    }

    /// Counts as an open request until it is dropped: for work that outlives its answer.
    #[must_use]
    pub fn begin(&self) -> OpenRequest {
        self.0.activity.begin()
    }

    /// Whether the process is about to end, and takes no further request.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.0.activity.is_closing()
    }

    /// Resolves when the process is about to end.
    ///
    /// Cancel: dropping it leaves nothing behind.
    pub async fn closing(&self) {
        self.0.activity.closing().await;
    }

    /// Whether the client has closed its side.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.0.gone.load(Ordering::Acquire)
    }

    /// Resolves when the client closes its side while a request is open. The request itself goes on: work that may be
    /// abandoned races against this, and other work does not.
    ///
    /// Shape: one waiter at a time for each connection; a request that has a body is watched once its body was read.
    /// Cancel: dropping it leaves nothing behind.
    pub async fn disconnected(&self) {
        std::future::poll_fn(|cx| self.poll_disconnected(cx)).await;
    }

    pub(in crate::net) fn poll_disconnected(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.is_disconnected() {
            *self.0.watcher.lock() = Some(cx.waker().clone());
        }
        // Checked again, because the client may have disconnected before the waker was registered.
        if self.is_disconnected() { Poll::Ready(()) } else { Poll::Pending }
    }
}
