//! The two clocks of a connection that waits for its client.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::base::instant_about;
use crate::config::Limits;

/// The length of a pause between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// It is long enough to wait on without buffers; it began then.
    Rest(Instant),
    /// It is over.
    TooLong,
}

/// Times a head from its first byte, and the pause between two requests apart from it.
#[derive(Debug)]
pub(in crate::net) struct Timers {
    head_timeout: Duration,
    idle_timeout: Duration,
    /// So much of a pause is rest.
    rest_after: Duration,
    /// Present while a head is incomplete.
    head: Option<Pin<Box<Sleep>>>,
    /// Runs all the time and looks at `idle_since` when it is over: a request costs no change of a timer.
    idle: Pin<Box<Sleep>>,
    /// The task to wake when the pause is over; updated only where it changes.
    idle_wakes: Option<Waker>,
    idle_since: Instant,
}

impl Timers {
    /// The connection is idle since then.
    pub(in crate::net) fn new(limits: &Limits, rest_after: Duration, idle_since: Instant) -> Self {
        let (head_timeout, idle_timeout) = (limits.head_timeout, limits.idle_timeout);
        let idle = Box::pin(sleep_until((Instant::now() + rest_after).min(idle_since + idle_timeout)));
        Self { head_timeout, idle_timeout, rest_after, head: None, idle, idle_wakes: None, idle_since }
    }

    /// No head is incomplete any more, or a new one began; it has its own time.
    pub(super) fn head_came(&mut self) {
        self.head = None;
    }

    /// A request was answered.
    pub(super) fn idle_begins(&mut self) {
        self.idle_since = instant_about().into();
    }

    /// Resolves when the head that is incomplete has taken too long.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.head_timeout;
        self.head.get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(cx)
    }

    /// Resolves when no request came for long enough to rest, if that `may` be, or at all; never while one is open (`busy`).
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>, busy: bool, may_rest: bool) -> Poll<Pause> {
        loop {
            ready!(self.poll_idle_timer(cx));
            let now = Instant::now();
            let since = if busy { now } else { self.idle_since };
            if !busy && since + self.idle_timeout <= now {
                return Poll::Ready(Pause::TooLong);
            }
            if !busy && may_rest && since + self.rest_after <= now {
                return Poll::Ready(Pause::Rest(since));
            }
            let next = if busy || may_rest { self.rest_after.min(self.idle_timeout) } else { self.idle_timeout };
            if next.is_zero() {
                return Poll::Pending;
            }
            self.idle.as_mut().reset(since + next);
        }
    }

    fn poll_idle_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let is_told = self.idle_wakes.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        if is_told && !self.idle.is_elapsed() {
            return Poll::Pending;
        }
        let poll = self.idle.as_mut().poll(cx);
        // A task whose time slice is used up gets `Pending` before its waker is stored, and is woken only for its next
        // slice.
        let is_noted = poll.is_pending() && has_budget_remaining();
        self.idle_wakes = is_noted.then(|| cx.waker().clone());
        poll
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::task::coop::poll_proceed;

    use super::*;
    use crate::net::serve::tests::limits;

    const HOUR: Duration = Duration::from_secs(3600);
    const REST: Duration = Duration::from_secs(1);

    fn timers(idle_timeout: Duration, rest_after: Duration) -> Timers {
        let limits = Limits { head_timeout: HOUR, idle_timeout, ..limits() };
        Timers::new(&limits, rest_after, Instant::now())
    }

    #[tokio::test]
    async fn every_head_has_its_own_time() {
        let mut timers = timers(HOUR, REST);
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
    async fn a_connection_idles_anew_after_every_answer() {
        let mut timers = timers(Duration::ZERO, HOUR);
        assert_eq!(over(&mut timers, false).await, Ok(Pause::TooLong));
        timers.idle_timeout = HOUR;
        timers.idle_since = Instant::now().checked_sub(REST).unwrap();
        let first = over(&mut timers, false).await;
        assert_eq!(first, Err(timers.idle_since + timers.idle_timeout));
        timers.idle_begins();
        assert!(over(&mut timers, false).await.unwrap_err() > first.unwrap_err());
    }

    #[tokio::test]
    async fn a_pause_is_rest_before_it_is_too_long_and_only_where_nothing_was_begun() {
        let mut timers = timers(HOUR, REST);
        assert_eq!(over(&mut timers, true).await, Err(timers.idle_since + REST), "it has just begun");
        let long_ago = Instant::now().checked_sub(REST).unwrap();
        timers.idle_since = long_ago;
        assert_eq!(over(&mut timers, false).await, Err(long_ago + timers.idle_timeout));
        assert_eq!(over(&mut timers, true).await, Ok(Pause::Rest(long_ago)));
        timers.idle_timeout = REST;
        assert_eq!(over(&mut timers, true).await, Ok(Pause::TooLong));
    }

    #[tokio::test]
    async fn whoever_asked_last_is_woken_when_the_pause_is_rest() {
        let mut timers = timers(HOUR, Duration::from_millis(1));
        let mut another = Context::from_waker(Waker::noop());
        assert!(timers.poll_idle(&mut another, true, true).is_pending());
        assert_woken(poll_fn(|cx| timers.poll_idle(cx, false, true))).await;
    }

    #[tokio::test]
    async fn whoever_asked_at_the_end_of_its_turn_is_woken_too() {
        let mut timers = timers(HOUR, Duration::from_millis(1));
        let mut is_first_turn = true;
        let asked = poll_fn(|cx| {
            while is_first_turn && poll_proceed(cx).map(|step| step.made_progress()).is_ready() {}
            is_first_turn = false;
            timers.poll_idle(cx, false, true)
        });
        assert_woken(asked).await;
    }

    /// It comes to rest, which it does after a millisecond if it is woken, and never if it is not.
    async fn assert_woken(pause: impl Future<Output = Pause>) {
        let pause = tokio::time::timeout(Duration::from_secs(20), pause).await.expect("nobody was woken");
        assert!(matches!(pause, Pause::Rest(_)), "{pause:?}");
    }

    #[tokio::test]
    async fn an_open_request_is_no_pause() {
        let mut timers = timers(Duration::from_nanos(1), REST);
        timers.idle_since = Instant::now().checked_sub(REST).unwrap();
        timers.idle.as_mut().reset(Instant::now());
        timers.idle.as_mut().await;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(timers.poll_idle(&mut cx, true, true).is_pending());
    }

    /// What the idle timer says when it is over, or when it looks again.
    async fn over(timers: &mut Timers, may_rest: bool) -> Result<Pause, Instant> {
        timers.idle.as_mut().reset(Instant::now());
        timers.idle.as_mut().await;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match timers.poll_idle(&mut cx, false, may_rest) {
            Poll::Ready(pause) => Ok(pause),
            Poll::Pending => Err(timers.idle.deadline()),
        }
    }
}
