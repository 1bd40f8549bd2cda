//! The two clocks of a connection that waits for its client.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Times a head from its first byte, and the pause between two requests apart from it.
#[derive(Debug)]
pub(in crate::net) struct Timers {
    head_timeout: Duration,
    idle_timeout: Duration,
    /// Present while a head is incomplete.
    head: Option<Pin<Box<Sleep>>>,
    /// Runs all the time and looks at `idle_since` when it is over: a request costs no change of a timer.
    idle: Pin<Box<Sleep>>,
    idle_since: Instant,
}

impl Timers {
    /// The connection is idle from now on.
    pub(in crate::net) fn new(head_timeout: Duration, idle_timeout: Duration) -> Self {
        Self { head_timeout, idle_timeout, head: None, idle: Box::pin(sleep(idle_timeout)), idle_since: Instant::now() }
    }

    /// Bytes came while no head was incomplete.
    pub(super) fn bytes_came(&mut self) {
        self.head = None;
    }

    /// An incomplete head was completed; a next one has its own time.
    pub(super) fn head_came(&mut self) {
        self.head = None;
    }

    /// A request was answered.
    pub(super) fn idle_begins(&mut self) {
        self.idle_since = Instant::now();
    }

    /// Resolves when the head that is incomplete has taken too long.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.head_timeout;
        self.head.get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(cx)
    }

    /// Resolves when no request came for long enough; never while one is open.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>, busy: bool) -> Poll<()> {
        loop {
            ready!(self.idle.as_mut().poll(cx));
            let now = Instant::now();
            let deadline = if busy { now } else { self.idle_since } + self.idle_timeout;
            if !busy && deadline <= now {
                return Poll::Ready(());
            }
            if self.idle_timeout.is_zero() {
                return Poll::Pending;
            }
            self.idle.as_mut().reset(deadline);
        }
    }
}
