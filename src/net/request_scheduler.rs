//! Turns to begin: calls in progress go on before new requests are read.
//!
//! When hundreds of clients send at once, their sockets are ready before the first answer of a region is. A thread that
//! reads them in that order has hundreds of calls in progress, each with its memory and a connection to the region, all
//! evicted from the caches when the call goes on. So a few requests are read, then all ready tasks run, answers among
//! them, then some tens of socket events, then the next few requests. No request waits for another call to end: a slow
//! region has as many calls as clients send, a moment later.
//!
//! The turns belong to the thread, as tokio's scheduler does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use super::guard::{Phase, Shared};

/// Connections that are woken at once: their calls share the code of each step, and their state is still in the core's
/// caches when their answers arrive. With 32, a sixth fewer of 256 clients' calls are answered.
const AT_ONCE: usize = 16;

thread_local! {
    static STARTS: RequestScheduler = const {
        RequestScheduler {
            left: Cell::new(AT_ONCE),
            called: Cell::new(0),
            waiting: RefCell::new(VecDeque::new()),
            is_pumped: Cell::new(false),
        }
    };
}

struct RequestScheduler {
    /// How many may still begin in this turn.
    left: Cell<usize>,
    /// The number of the first one that waits: those before it may begin.
    called: Cell<u64>,
    /// In the order of their numbers. As many as there are connections, which are bounded.
    waiting: RefCell<VecDeque<Waker>>,
    is_pumped: Cell<bool>,
}

/// A client's connection that is woken in turn while it awaits a request. With an unanswered request it goes on at
/// once.
pub(super) struct InTurn<F> {
    connection: F,
    shared: Arc<Shared>,
    start: Start,
}

impl<F> InTurn<F> {
    pub(super) fn new(connection: F, shared: Arc<Shared>) -> Self {
        Self { connection, shared, start: Start::default() }
    }
}

impl<F: Future + Unpin> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { connection, shared, start } = self.get_mut();
        if shared.is_in(Phase::Idle) {
            ready!(start.poll(cx));
        }
        Pin::new(connection).poll(cx)
    }
}

/// The turn of one connection to begin its next request.
#[derive(Debug, Default)]
struct Start {
    /// Its number while it waits.
    number: Option<u64>,
}

impl Start {
    /// Ready when the connection may go on. Must be polled on a thread whose runtime runs local tasks.
    ///
    /// Cancel safety: a connection that is dropped while it waits is skipped.
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        STARTS.with(|starts| match self.number {
            None => {
                self.number = starts.join(cx);
                if self.number.is_none() { Poll::Ready(()) } else { Poll::Pending }
            }
            Some(number) if starts.still_waits(number, cx) => Poll::Pending,
            Some(_) => {
                self.number = None;
                Poll::Ready(())
            }
        })
    }
}

impl RequestScheduler {
    /// The number to wait with; `None` where the connection may begin at once.
    fn join(&self, cx: &Context<'_>) -> Option<u64> {
        let mut waiting = self.waiting.borrow_mut();
        // No connection waits in a turn with places left.
        let begins = self.left.get() > 0;
        let number = self.called.get() + waiting.len() as u64;
        if begins {
            self.left.set(self.left.get() - 1);
        } else {
            waiting.push_back(cx.waker().clone());
        }
        if (!begins || self.left.get() == 0) && !self.is_pumped.replace(true) {
            drop(tokio::task::spawn_local(pump(Pumped)));
        }
        (!begins).then_some(number)
    }

    fn still_waits(&self, number: u64, cx: &Context<'_>) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let place = number.checked_sub(self.called.get()).and_then(|place| usize::try_from(place).ok());
        let waker = place.and_then(|place| waiting.get_mut(place));
        let still_waits = waker.is_some();
        if let Some(waker) = waker {
            waker.clone_from(cx.waker());
        }
        still_waits
    }

    /// Begins the next turn; false when no connection needs a further one.
    fn turn(&self) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let begin = waiting.len().min(AT_ONCE);
        waiting.drain(..begin).for_each(Waker::wake);
        self.called.set(self.called.get() + begin as u64);
        self.left.set(AT_ONCE - begin);
        begin == AT_ONCE
    }
}

/// Gives out turns until one of them is not used up.
async fn pump(_pumped: Pumped) {
    loop {
        // Comes back when nothing else is ready and the sockets have been asked.
        tokio::task::yield_now().await;
        if !STARTS.with(RequestScheduler::turn) {
            break;
        }
    }
}

/// While it lives, the pump gives out turns. A runtime that ends drops it, even before its first poll.
struct Pumped;

impl Drop for Pumped {
    fn drop(&mut self) {
        // A thread that ends has no turns any more.
        let _ = STARTS.try_with(|starts| starts.is_pumped.set(false));
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::sync::atomic::Ordering::Relaxed;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;
    use crate::net::wake_filter::tests::Count;

    /// Begins, and writes down its name.
    async fn begins(name: usize, log: Rc<RefCell<Vec<usize>>>) {
        let mut start = Start::default();
        poll_fn(|cx| start.poll(cx)).await;
        log.borrow_mut().push(name);
    }

    fn begun(names: std::ops::Range<usize>) -> Rc<RefCell<Vec<usize>>> {
        let log = Rc::default();
        names.for_each(|name| drop(spawn_local(begins(name, Rc::clone(&log)))));
        log
    }

    /// More turns than anything here needs.
    async fn turns() {
        for _ in 0..50 {
            yield_now().await;
        }
    }

    async fn run(test: impl Future<Output = ()>) {
        LocalSet::new().run_until(test).await;
    }

    fn names(count: usize) -> Vec<usize> {
        (0..count).collect()
    }

    #[tokio::test]
    async fn a_few_begin_at_once_and_the_others_in_the_order_in_which_they_came() {
        run(async {
            let log = begun(0..5 * AT_ONCE);
            let mut steps = Vec::new();
            for _ in 0..50 {
                yield_now().await;
                steps.push(log.borrow().len());
            }
            steps.dedup();
            assert_eq!(steps, (1..=5).map(|turn| turn * AT_ONCE).collect::<Vec<_>>());
            assert_eq!(*log.borrow(), names(5 * AT_ONCE));
        })
        .await;
    }

    #[tokio::test]
    async fn who_comes_while_others_wait_is_behind_them() {
        run(async {
            let log = begun(0..2 * AT_ONCE);
            yield_now().await;
            drop(spawn_local(begins(2 * AT_ONCE, Rc::clone(&log))));
            turns().await;
            assert_eq!(*log.borrow(), names(2 * AT_ONCE + 1));
        })
        .await;
    }

    #[tokio::test]
    async fn who_was_dropped_while_it_waited_holds_up_nobody() {
        run(async {
            let dropped: Vec<_> = (0..3 * AT_ONCE).map(|name| spawn_local(begins(name, Rc::default()))).collect();
            yield_now().await;
            dropped.iter().for_each(|task| task.abort());
            let log = begun(0..1);
            turns().await;
            assert_eq!(*log.borrow(), [0]);
        })
        .await;
    }

    #[tokio::test]
    async fn who_asked_last_is_woken() {
        run(async {
            let log = begun(0..AT_ONCE);
            yield_now().await;
            assert_eq!(log.borrow().len(), AT_ONCE);
            let [first, second] = [Arc::new(Count::default()), Arc::new(Count::default())];
            let mut start = Start::default();
            for task in [&first, &second] {
                assert!(start.poll(&Context::from_waker(&Arc::clone(task).into())).is_pending());
            }
            turns().await;
            assert_eq!([&first, &second].map(|task| task.0.load(Relaxed)), [0, 1]);
            assert!(start.poll(&Context::from_waker(&second.into())).is_ready());
        })
        .await;
    }

    #[test]
    fn a_runtime_that_ends_takes_its_turns_along() {
        for _ in 0..3 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                let log = begun(0..1);
                turns().await;
                assert_eq!(*log.borrow(), [0]);
                // These wait still, and turns are given out, when the runtime ends.
                drop(begun(0..3 * AT_ONCE));
                yield_now().await;
            });
            assert!(STARTS.with(|starts| starts.is_pumped.get() && !starts.waiting.borrow().is_empty()));
            drop((local, runtime));
            assert!(!STARTS.with(|starts| starts.is_pumped.get()));
        }
    }
}
