//! What the two ends of a connection know of each other: the guard below hyper, and the request above it.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::Leftover;
use crate::net::arriving::Beside;
use crate::net::drain::{Activity, OpenRequest};

/// What a connection's guard and its requests tell each other.
#[derive(Debug, Default)]
pub(in crate::net) struct Shared {
    phase: AtomicU8,
    tunnel: AtomicBool,
    gone: AtomicBool,
    breached: AtomicBool,
    /// Who waits for the client to go.
    watcher: Mutex<Option<Waker>>,
    leftover: Mutex<Option<Leftover>>,
    /// A request's body, while the library reads the head.
    beside: Beside,
}

/// How far the current request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::net) enum Phase {
    /// None is open, and every answer was handed to the socket.
    Idle = 0,
    /// The service has it, or its answer is still being produced.
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

    /// What follows the current answer is no HTTP.
    pub(in crate::net) fn begin_tunnel(&self) {
        self.tunnel.store(true, Ordering::Relaxed);
    }

    pub(in crate::net) fn is_tunnel(&self) -> bool {
        self.tunnel.load(Ordering::Relaxed)
    }

    /// The current request's body is refused, and nothing behind it is read.
    pub(super) fn breach(&self) {
        self.breached.store(true, Ordering::Relaxed);
    }

    pub(in crate::net) fn is_breached(&self) -> bool {
        self.breached.load(Ordering::Relaxed)
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

    pub(super) fn client_gone(&self) {
        self.gone.store(true, Ordering::Release);
        if let Some(waker) = self.watcher.lock().take() {
            waker.wake();
        }
    }
}

/// The client's side of a connection, as a request may watch it. Each request takes some, all on one thread, which need not lock for it.
#[derive(Debug, Clone)]
pub struct ClientSide(pub(in crate::net) Rc<Connected>);

/// A connection, and what its thread counts.
#[derive(Debug)]
pub(in crate::net) struct Connected {
    pub(in crate::net) shared: Arc<Shared>,
    activity: Activity,
}

impl Deref for Connected {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl ClientSide {
    pub(in crate::net) fn new(shared: Arc<Shared>, activity: Activity) -> Self {
        Self(Rc::new(Connected { shared, activity }))
    }

    /// Counts as an open request until it is dropped: for what outlives its answer.
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
    pub fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::Acquire)
    }

    /// Resolves when the client closes its side while a request is open. The request itself goes on: what may be abandoned
    /// waits for this beside its work, and what must be finished does not.
    ///
    /// Shape: one waiter at a time for each connection; a request that has a body is watched once its body was read.
    /// Cancel: dropping it leaves nothing behind.
    pub async fn gone(&self) {
        std::future::poll_fn(|cx| self.poll_gone(cx)).await;
    }

    pub(in crate::net) fn poll_gone(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.is_gone() {
            *self.0.watcher.lock() = Some(cx.waker().clone());
        }
        // Looked at again, because the client may have gone before the waker was there.
        if self.is_gone() { Poll::Ready(()) } else { Poll::Pending }
    }
}
