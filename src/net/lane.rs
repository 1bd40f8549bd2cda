//! Turns for long bodies: on each thread they move one piece at a time, behind everything short.
//!
//! A runtime polls its tasks in the order in which they became ready. A few hundred bodies that always have something to move would
//! make every short call wait for a piece of each of them, twice. So a body that has moved more than most calls ever do takes
//! turns: one piece of one body, then whatever else is ready, then what the sockets have for us, some tens of them at once, then the
//! next piece.
//!
//! The lane belongs to the thread, as the runtime does whose order it mends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

/// What a body moves before it takes turns: most calls are smaller, and pay nothing for the lane.
const FREE_BYTES: usize = 64 * 1024;
/// What is moved in a turn: some ten microseconds of work, a fraction of what a call takes anyway.
const PIECE_BYTES: usize = 32 * 1024;

thread_local! {
    static LANE: Lane = const { Lane { waiting: RefCell::new(VecDeque::new()), is_pumped: Cell::new(false) } };
}

/// The bodies of this thread that wait, in the order of their turns. As many as there are bodies, which are bounded.
struct Lane {
    waiting: RefCell<VecDeque<Arc<Waiter>>>,
    is_pumped: Cell<bool>,
}

/// A body that waits, or that may move a piece. Sent between threads by nobody; but sockets that hold it must be such as could be.
#[derive(Debug)]
struct Waiter {
    granted: AtomicBool,
    waker: Mutex<Waker>,
}

/// The turns of one body.
#[derive(Debug, Default)]
pub struct Turns {
    moved: usize,
    /// Of this turn.
    used: usize,
    waiter: Option<Arc<Waiter>>,
    /// What is left of a frame that was longer than a piece.
    left: Bytes,
}

impl Turns {
    /// Ready when the body may move a piece. Must be polled on a thread whose runtime runs local tasks.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.moved <= FREE_BYTES {
            return Poll::Ready(());
        }
        match &self.waiter {
            Some(waiter) if waiter.granted.load(Relaxed) => Poll::Ready(()),
            Some(waiter) => {
                waiter.waker.lock().clone_from(cx.waker());
                Poll::Pending
            }
            None => {
                let waiter =
                    Arc::new(Waiter { granted: AtomicBool::new(false), waker: Mutex::new(cx.waker().clone()) });
                (self.used, self.waiter) = (0, Some(Arc::clone(&waiter)));
                LANE.with(|lane| lane.join(waiter));
                Poll::Pending
            }
        }
    }

    /// The next frame of a body, at most a piece of it at once. As [`Turns::poll`], and as the body's own `poll_frame`.
    pub fn poll_frame<E>(
        &mut self,
        cx: &mut Context<'_>,
        next: impl FnOnce(&mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, E>>>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        ready!(self.poll(cx));
        let mut bytes = std::mem::take(&mut self.left);
        if bytes.is_empty() {
            match ready!(next(cx)) {
                Some(Ok(frame)) if frame.is_data() => bytes = frame.into_data().unwrap_or_default(),
                other => return Poll::Ready(other),
            }
        }
        self.left = bytes.split_off(bytes.len().min(FREE_BYTES.saturating_sub(self.moved).max(PIECE_BYTES)));
        self.moved(bytes.len());
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    /// What is left of the last frame. Units: bytes.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left.len()
    }

    /// What a body says that it holds, and what is left of its last frame.
    #[must_use]
    pub fn with_left(&self, of_body: SizeHint) -> SizeHint {
        let left = self.left.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower().saturating_add(left));
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint
    }

    /// It has moved so much; with a piece its turn is over.
    pub fn moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes);
        self.used = self.used.saturating_add(bytes);
        if self.used >= PIECE_BYTES {
            (self.used, self.waiter) = (0, None);
        }
    }
}

impl Lane {
    fn join(&self, waiter: Arc<Waiter>) {
        self.waiting.borrow_mut().push_back(waiter);
        if !self.is_pumped.replace(true) {
            tokio::task::spawn_local(pump(Pumped));
        }
    }

    /// The next body that still wants its turn; what was dropped meanwhile does not.
    fn next(&self) -> Option<Arc<Waiter>> {
        let mut waiting = self.waiting.borrow_mut();
        std::iter::from_fn(|| waiting.pop_front()).find(|waiter| Arc::strong_count(waiter) > 1)
    }
}

/// Gives out turns as long as somebody waits. One that is not used holds up nobody.
async fn pump(_pumped: Pumped) {
    while let Some(waiter) = LANE.with(Lane::next) {
        waiter.granted.store(true, Relaxed);
        waiter.waker.lock().wake_by_ref();
        drop(waiter);
        // Comes back when nothing else is ready and the sockets have been asked.
        tokio::task::yield_now().await;
    }
}

/// While it lives, somebody gives out turns; a runtime that ends takes it along, even before it was polled.
struct Pumped;

impl Drop for Pumped {
    fn drop(&mut self) {
        // A thread that ends has no lane any more.
        let _ = LANE.try_with(|lane| lane.is_pumped.set(false));
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    /// A body that moves pieces, and notes each in the log.
    async fn moves(name: char, pieces: usize, log: Rc<RefCell<String>>) {
        let mut turns = Turns::default();
        turns.moved(FREE_BYTES + 1);
        for _ in 0..pieces {
            poll_fn(|cx| turns.poll(cx)).await;
            turns.moved(PIECE_BYTES);
            log.borrow_mut().push(name);
        }
    }

    #[tokio::test]
    async fn long_bodies_move_in_turns_and_short_calls_in_between() {
        let log = Rc::new(RefCell::new(String::new()));
        let short = Rc::clone(&log);
        LocalSet::new()
            .run_until(async {
                let bodies: Vec<_> =
                    ['a', 'b', 'c'].map(|name| spawn_local(moves(name, 3, Rc::clone(&log)))).into_iter().collect();
                let short = spawn_local(async move {
                    for _ in 0..6 {
                        short.borrow_mut().push('.');
                        yield_now().await;
                    }
                });
                for body in bodies {
                    body.await.unwrap();
                }
                short.await.unwrap();
            })
            .await;
        let log = log.borrow();
        let order: String = log.chars().filter(|it| *it != '.').collect();
        assert_eq!(order, "abcabcabc");
        // Never two pieces without a chance for what is short.
        assert!(!log.starts_with("ab") && log.matches('.').count() == 6, "{log}");
        let together = log.split('.').take(6).map(str::len).max();
        assert!(together <= Some(1), "{log}");
    }

    #[tokio::test]
    async fn a_body_that_is_dropped_or_does_not_move_holds_up_nobody() {
        let log = Rc::new(RefCell::new(String::new()));
        LocalSet::new()
            .run_until(async {
                let mut gone = Turns::default();
                gone.moved(FREE_BYTES + 1);
                let mut idle = Turns::default();
                idle.moved(FREE_BYTES + 1);
                poll_fn(|cx| {
                    assert!(gone.poll(cx).is_pending() && idle.poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                drop(gone);
                spawn_local(moves('a', 3, Rc::clone(&log))).await.unwrap();
                // What was granted and not used is there still.
                poll_fn(|cx| idle.poll(cx)).await;
            })
            .await;
        assert_eq!(*log.borrow(), "aaa");
    }

    #[tokio::test]
    async fn a_lane_outlives_the_runtime_that_gave_out_its_turns() {
        std::thread::spawn(|| {
            let run = |pieces| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let log = Rc::new(RefCell::new(String::new()));
                let local = LocalSet::new();
                let body = local.spawn_local(moves('a', pieces, Rc::clone(&log)));
                local.block_on(&runtime, async {
                    match pieces {
                        usize::MAX => yield_now().await,
                        _ => body.await.unwrap(),
                    }
                });
            };
            run(usize::MAX);
            run(2);
            assert!(!LANE.with(|lane| lane.is_pumped.get()));
        })
        .join()
        .unwrap();
    }

    #[tokio::test]
    async fn what_is_short_takes_no_turns() {
        let mut turns = Turns::default();
        turns.moved(FREE_BYTES);
        // Polled outside a local set, where joining the lane would panic.
        poll_fn(|cx| turns.poll(cx)).await;
    }

    #[tokio::test]
    async fn a_long_frame_is_given_in_pieces_and_whole() {
        let bytes =
            Bytes::from((0..FREE_BYTES + 2 * PIECE_BYTES + 5).map(|it| it.to_le_bytes()[0]).collect::<Vec<_>>());
        let mut frames = VecDeque::from([Frame::data(bytes.clone()), Frame::trailers(http::HeaderMap::new())]);
        let (sizes, whole) = LocalSet::new()
            .run_until(async {
                let (mut turns, mut sizes, mut whole) = (Turns::default(), Vec::new(), Vec::new());
                while let Some(frame) =
                    poll_fn(|cx| turns.poll_frame(cx, |_| Poll::Ready(frames.pop_front().map(Ok::<_, ()>)))).await
                {
                    let Ok(data) = frame.unwrap().into_data() else { continue };
                    sizes.push(data.len());
                    whole.extend_from_slice(&data);
                }
                (sizes, whole)
            })
            .await;
        assert_eq!(sizes, [FREE_BYTES, PIECE_BYTES, PIECE_BYTES, 5]);
        assert!(whole == bytes && frames.is_empty());
    }
}
