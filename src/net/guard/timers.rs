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

    /// No head is incomplete any more, or a new one began; it has its own time.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_head_has_its_own_time() {
        let mut timers = Timers::new(Duration::from_secs(3600), Duration::from_secs(3600));
        let deadline = |timers: &mut Timers| {
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert!(timers.poll_head(&mut cx).is_pending());
            timers.head.as_ref().map(|head| head.deadline())
        };
        let first = deadline(&mut timers);
        assert_eq!(deadline(&mut timers), first, "the head goes on");
        timers.head_came();
        assert!(deadline(&mut timers) > first);
    }

    #[tokio::test]
    async fn a_connection_idles_anew_after_every_answer_and_not_while_a_request_is_open() {
        let mut timers = Timers::new(Duration::from_secs(3600), Duration::ZERO);
        timers.idle.as_mut().await;
        assert!(idle(&mut timers, false).is_none(), "it is over");
        timers.idle_timeout = Duration::from_secs(3600);
        let first = idle(&mut timers, false);
        assert_eq!(first, Some(timers.idle_since + timers.idle_timeout));
        timers.idle.as_mut().reset(Instant::now());
        timers.idle.as_mut().await;
        timers.idle_begins();
        assert!(idle(&mut timers, false) > first);
        timers.idle.as_mut().reset(Instant::now());
        timers.idle.as_mut().await;
        timers.idle_timeout = Duration::from_nanos(1);
        assert!(idle(&mut timers, true).is_some(), "a request is open");
    }

    /// When the idle timer looks again; `None` when it is over.
    fn idle(timers: &mut Timers, busy: bool) -> Option<Instant> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        timers.poll_idle(&mut cx, busy).is_pending().then(|| timers.idle.deadline())
    }
}
