//! Turns for long bodies: on each thread they move one piece at a time, behind everything short.
//!
//! tokio polls tasks in the order in which they became ready. A few hundred bodies that always have bytes to move would
//! make every short call wait for a piece of each of them, twice. So a body that has moved more than most calls takes
//! turns: one piece of one body, then all ready tasks, then some tens of socket events, then the next piece.
//!
//! Bodies in progress go on before new ones begin: a partly transferred body holds memory, and switching between many
//! evicts each from the CPU caches. Bodies that are sent from memory have turns of their own, one for each turn of
//! those that arrive: they release memory sooner, and the kernel, which paces sending, need not wake for each piece. A
//! body that goes on for long takes turns with others like it, so that a short one never waits for the end of an
//! endless one.
//!
//! The scheduler belongs to the thread, as tokio's does.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

/// The bytes that a body moves before it takes turns: most calls are smaller, and skip the scheduler.
pub(super) const FREE_BYTES: usize = 64 * 1024;
/// The bytes of a turn: some ten microseconds of work, a fraction of a call.
const PIECE_BYTES: usize = 32 * 1024;
/// The bytes after which a body counts as long: nearly all jobs are smaller. A thread moves so many in less than a
/// millisecond. Units: bytes.
const SOON_BYTES: usize = 1024 * 1024;

thread_local! {
    static LANE: BodyScheduler = const { BodyScheduler { waiting: RefCell::new(Waiting::new()), is_pumped: Cell::new(false) } };
}

struct BodyScheduler {
    waiting: RefCell<Waiting>,
    is_pumped: Cell<bool>,
}

/// The bodies of a thread that wait. As many as there are bodies, which are bounded.
struct Waiting {
    /// Of each class, in the order of their turns; the classes have theirs in turn.
    classes: [VecDeque<Arc<Waiter>>; 3],
    /// The class that had the last turn.
    last: usize,
}

/// The classes whose bodies take turns separately.
#[derive(Clone, Copy)]
enum Class {
    /// A body that is read, or passed on as it arrives.
    Coming,
    /// A body that is sent from memory.
    Sent,
    /// A long body, in either direction.
    Long,
}

/// A body that waits, or that may move a piece. It stays on its thread; but the sockets that hold it must be `Send`.
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
    is_sent: bool,
    /// Whether it has asked for a turn before.
    has_begun: bool,
    waiter: Option<Arc<Waiter>>,
}

/// The turns of one body, and its frames in pieces.
#[derive(Debug, Default)]
pub struct FrameTurns {
    turns: Turns,
    /// The rest of a frame that was longer than a piece.
    left: Option<Bytes>,
}

impl Turns {
    fn sent() -> Self {
        Self { is_sent: true, ..Self::default() }
    }

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
                let class = match self.moved > SOON_BYTES {
                    true => Class::Long,
                    false if self.is_sent => Class::Sent,
                    false => Class::Coming,
                };
                LANE.with(|lane| lane.join(Arc::clone(&waiter), class, self.has_begun));
                (self.used, self.has_begun, self.waiter) = (0, true, Some(waiter));
                Poll::Pending
            }
        }
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

impl FrameTurns {
    /// Those of a body that is in memory.
    #[must_use]
    pub fn sent() -> Self {
        Self { turns: Turns::sent(), left: None }
    }

    /// The next frame of a body, at most a piece of it at once. As [`Turns::poll`], and as the body's own `poll_frame`.
    pub fn poll_frame<E>(
        &mut self,
        cx: &mut Context<'_>,
        next: impl FnOnce(&mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, E>>>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        ready!(self.turns.poll(cx));
        let mut bytes = match self.left.take() {
            Some(left) => left,
            None => match ready!(next(cx)) {
                Some(Ok(frame)) if frame.is_data() => frame.into_data().unwrap_or_default(),
                other => return Poll::Ready(other),
            },
        };
        let bytes_max = FREE_BYTES.saturating_sub(self.turns.moved).max(PIECE_BYTES);
        if bytes.len() > bytes_max {
            self.left = Some(bytes.split_off(bytes_max));
        }
        self.turns.moved(bytes.len());
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    /// The rest of the last frame. Units: bytes.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left.as_ref().map_or(0, Bytes::len)
    }

    /// The size hint of a body, with the rest of its last frame.
    #[must_use]
    pub fn with_left(&self, of_body: SizeHint) -> SizeHint {
        let left = self.left() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower().saturating_add(left));
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper.saturating_add(left));
        }
        hint
    }
}

impl BodyScheduler {
    fn join(&self, waiter: Arc<Waiter>, class: Class, has_begun: bool) {
        self.waiting.borrow_mut().join(waiter, class, has_begun);
        if !self.is_pumped.replace(true) {
            tokio::task::spawn_local(pump(Pumped));
        }
    }
}

impl Waiting {
    const fn new() -> Self {
        Self { classes: [const { VecDeque::new() }; 3], last: 0 }
    }

    fn join(&mut self, waiter: Arc<Waiter>, class: Class, has_begun: bool) {
        let [coming, sent, long] = &mut self.classes;
        match (class, has_begun) {
            (Class::Coming, true) => coming.push_front(waiter),
            (Class::Coming, false) => coming.push_back(waiter),
            (Class::Sent, true) => sent.push_front(waiter),
            (Class::Sent, false) => sent.push_back(waiter),
            (Class::Long, _) => long.push_back(waiter),
        }
    }

    /// The next body that still waits for its turn; dropped ones are skipped.
    fn next(&mut self) -> Option<Arc<Waiter>> {
        for step in 1..=self.classes.len() {
            let class = (self.last + step) % self.classes.len();
            let waiting = self.classes.get_mut(class)?;
            let next = std::iter::from_fn(|| waiting.pop_front()).find(|waiter| Arc::strong_count(waiter) > 1);
            if next.is_some() {
                self.last = class;
                return next;
            }
        }
        None
    }
}

/// Gives out turns as long as a body waits. An unused turn is passed on.
async fn pump(_pumped: Pumped) {
    while let Some(waiter) = LANE.with(|lane| lane.waiting.borrow_mut().next()) {
        waiter.granted.store(true, Relaxed);
        waiter.waker.lock().wake_by_ref();
        drop(waiter);
        // Comes back when nothing else is ready and the sockets have been asked.
        tokio::task::yield_now().await;
    }
}

/// While it lives, the pump gives out turns. A runtime that ends drops it, even before its first poll.
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

    /// A body that has moved so much, moves pieces, and notes each in the log.
    async fn moves(name: char, mut turns: Turns, moved: usize, pieces: usize, log: Rc<RefCell<String>>) {
        turns.moved(moved);
        for _ in 0..pieces {
            poll_fn(|cx| turns.poll(cx)).await;
            turns.moved(PIECE_BYTES);
            log.borrow_mut().push(name);
        }
    }

    const NEW: usize = FREE_BYTES + 1;
    const LONG: usize = SOON_BYTES + 1;

    /// In what order so many pieces of these bodies move, and a short call six times among them. Those in capitals are sent.
    async fn order(bodies: &[(char, usize, usize)]) -> String {
        let log = Rc::new(RefCell::new(String::new()));
        let short = Rc::clone(&log);
        LocalSet::new()
            .run_until(async {
                let begin = |(name, moved, pieces): &(char, usize, usize)| {
                    let turns = if name.is_uppercase() { Turns::sent() } else { Turns::default() };
                    spawn_local(moves(*name, turns, *moved, *pieces, Rc::clone(&log)))
                };
                let bodies: Vec<_> = bodies.iter().map(begin).collect();
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
        log.take()
    }

    #[tokio::test]
    async fn a_body_that_has_begun_goes_on_before_others_begin_and_short_calls_in_between() {
        let log = order(&[('a', NEW, 3), ('b', NEW, 3), ('c', NEW, 3)]).await;
        assert_eq!(log.replace('.', ""), "aaabbbccc");
        // Never two pieces without a chance for short messages.
        assert!(!log.starts_with("aa") && log.matches('.').count() == 6, "{log}");
        let together = log.split('.').take(6).map(str::len).max();
        assert!(together <= Some(1), "{log}");
    }

    #[tokio::test]
    async fn what_is_sent_and_what_goes_on_for_long_have_turns_of_their_own() {
        let check = async |bodies: &[(char, usize, usize)], expected: &str| {
            assert_eq!(order(bodies).await.replace('.', ""), expected);
        };
        check(&[('a', NEW, 3), ('B', NEW, 3)], "BaBaBa").await;
        check(&[('a', NEW, 2), ('b', NEW, 2), ('C', NEW, 2), ('D', NEW, 2)], "CaCaDbDb").await;
        // Nobody waits for the end of those that go on, which share their turns.
        check(&[('a', LONG, 3), ('b', LONG, 3)], "ababab").await;
        check(&[('a', LONG, 3), ('B', LONG, 3), ('c', NEW, 2), ('d', NEW, 1)], "cacBdaBaB").await;
        // One becomes such a body on its way.
        check(&[('a', SOON_BYTES - PIECE_BYTES, 5), ('b', NEW, 3)], "aaababab").await;
    }

    #[tokio::test]
    async fn a_body_that_is_dropped_or_does_not_move_holds_up_nobody() {
        let log = Rc::new(RefCell::new(String::new()));
        LocalSet::new()
            .run_until(async {
                let mut gone = Turns::default();
                gone.moved(NEW);
                let mut idle = Turns::default();
                idle.moved(NEW);
                poll_fn(|cx| {
                    assert!(gone.poll(cx).is_pending() && idle.poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                drop(gone);
                spawn_local(moves('a', Turns::default(), NEW, 3, Rc::clone(&log))).await.unwrap();
                // A grant that was not used is there still.
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
                let body = local.spawn_local(moves('a', Turns::default(), NEW, pieces, Rc::clone(&log)));
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
                let (mut turns, mut sizes, mut whole) = (FrameTurns::default(), Vec::new(), Vec::new());
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
