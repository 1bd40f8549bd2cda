//! The end of the process: when it began, and when the last client disconnected.
//!
//! While it drains, the sidecar goes on serving, because the application beside it is finishing its last
//! acknowledgements. Open requests and the time of the last client are counted per worker thread, so that threads share
//! no cache line on a request.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::Clock;

/// For one part in so many of the whole time no further request is taken.
const CLOSED_SHARE: u32 = 2;

/// A shared handle on the draining of the process.
#[derive(Debug, Clone)]
pub struct Drain(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    /// Ages are counted from here.
    epoch: Instant,
    draining: AtomicBool,
    /// Whether no further request is taken, so that those under way can end in time.
    closing: AtomicBool,
    /// Whether the time of the last client is needed: before the end, requests need not read the clock for it.
    watched: AtomicBool,
    /// Woken when draining starts, and when a request ends while draining.
    changed: Notify,
    workers: Mutex<Vec<Arc<Worker>>>,
}

/// The counters of one worker thread, on cache lines of their own. Only that thread writes them, without a lock.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Worker {
    open: AtomicUsize,
    /// Milliseconds since the epoch.
    last_seen: AtomicU64,
}

/// Why [`Drain::idle`] resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainEnd {
    /// No request was open and no client had been seen for long enough.
    Idle,
    /// The longest wait was over.
    TimedOut,
}

impl Drain {
    /// A process that is not draining.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let epoch = clock.now();
        let [draining, closing, watched] = [const { AtomicBool::new(false) }; 3];
        Self(Arc::new(Inner {
            clock,
            epoch,
            draining,
            closing,
            watched,
            changed: Notify::new(),
            workers: Mutex::default(),
        }))
    }

    /// Begins draining; a second call changes nothing.
    pub fn start(&self) {
        self.0.draining.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    /// Whether draining has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Takes no further request.
    fn close(&self) {
        if !self.0.closing.swap(true, Ordering::AcqRel) {
            self.0.changed.notify_waiters();
        }
    }

    /// Resolves when no further request is taken.
    ///
    /// Cancel: dropping it leaves nothing behind.
    pub async fn closed(&self) {
        self.set(&self.0.closing).await;
    }

    /// Resolves when draining begins.
    ///
    /// Cancel: dropping it leaves nothing behind.
    pub async fn wait(&self) {
        self.set(&self.0.draining).await;
    }

    async fn set(&self, flag: &AtomicBool) {
        loop {
            // Registered before the look, so that a change between the two is not missed.
            let changed = self.0.changed.notified();
            if flag.load(Ordering::Acquire) {
                return;
            }
            changed.await;
        }
    }

    /// The counters of one worker thread, which takes them itself, once: they stay on it.
    #[must_use]
    pub fn worker(&self) -> Activity {
        let worker = Arc::new(Worker::default());
        self.0.workers.lock().push(Arc::clone(&worker));
        Activity(Rc::new(Active { drain: self.clone(), worker }))
    }

    /// Resolves when no request is open and no client was seen for `idle_for` from now on, or when `timeout` is over.
    ///
    /// For as long as a call may take before the timeout, and half of it at most, no further request is taken: every call that is
    /// under way then has the time to end, and is not cut.
    ///
    /// From now on: a client that was silent before, because its job takes long, has not heard yet that it is to finish.
    /// Cancel: dropping it leaves nothing behind.
    pub async fn idle(&self, idle_for: Duration, timeout: Duration, call_timeout: Duration) -> DrainEnd {
        // Clients that were seen before this are covered by `begun`.
        self.0.watched.store(true, Ordering::SeqCst);
        let begun = self.0.clock.now();
        let deadline = begun + timeout;
        let close_at = deadline - (timeout / CLOSED_SHARE).min(call_timeout);
        loop {
            let changed = self.0.changed.notified();
            let now = self.0.clock.now();
            let closing = now >= close_at;
            if closing {
                self.close();
            }
            let (open, last_seen) = self.state();
            let quiet_at = last_seen.max(begun) + idle_for;
            if open == 0 && (closing || now >= quiet_at) {
                return DrainEnd::Idle;
            }
            if now >= deadline {
                return DrainEnd::TimedOut;
            }
            let next = if closing { deadline } else { close_at };
            let wake_at = if open == 0 { quiet_at.min(next) } else { next };
            tokio::select! {
                () = changed => {}
                () = self.0.clock.sleep_until(wake_at) => {}
            }
        }
    }

    /// Open requests, and when a client was last seen.
    fn state(&self) -> (usize, Instant) {
        let (mut open, mut last_seen) = (0, 0);
        for worker in self.0.workers.lock().iter() {
            // In this order: a request that is seen to have ended has already left its time.
            open += worker.open.load(Ordering::Acquire);
            last_seen = worker.last_seen.load(Ordering::Relaxed).max(last_seen);
        }
        (open, self.0.epoch + Duration::from_millis(last_seen))
    }
}

/// One worker thread's counters of its clients.
#[derive(Debug, Clone)]
pub struct Activity(Rc<Active>);

#[derive(Debug)]
struct Active {
    drain: Drain,
    worker: Arc<Worker>,
}

impl Activity {
    /// A client was seen.
    pub fn touch(&self) {
        let inner = &self.0.drain.0;
        if !inner.watched.load(Ordering::Relaxed) {
            return;
        }
        let since = inner.clock.now().saturating_duration_since(inner.epoch);
        let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.0.worker.last_seen.store(since, Ordering::Relaxed);
    }

    /// A request begins; it ends when the answer is dropped.
    #[must_use]
    pub fn begin(&self) -> OpenRequest {
        let open = &self.0.worker.open;
        open.store(open.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        OpenRequest(self.clone())
    }

    /// Whether draining has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.drain.is_draining()
    }

    /// Resolves when draining begins.
    ///
    /// Cancel: dropping it leaves nothing behind.
    pub async fn draining(&self) {
        self.0.drain.wait().await;
    }

    /// Whether no further request is taken.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.0.drain.0.closing.load(Ordering::Relaxed)
    }

    /// Resolves when no further request is taken.
    ///
    /// Cancel: dropping it leaves nothing behind.
    pub async fn closing(&self) {
        self.0.drain.closed().await;
    }
}

/// A request that is being served.
#[derive(Debug)]
pub struct OpenRequest(Activity);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let Self(activity) = self;
        activity.touch();
        let open = &activity.0.worker.open;
        open.store(open.load(Ordering::Relaxed) - 1, Ordering::Release);
        if activity.is_draining() {
            activity.0.drain.0.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SteeredTime;

    const CALL: Duration = Duration::from_secs(25);

    fn steered() -> (Arc<SteeredTime>, Drain) {
        let time = SteeredTime::starting_at(0);
        let clock = Clock::new(Arc::new(Arc::clone(&time)));
        (time, Drain::new(clock))
    }

    const IDLE_FOR: Duration = Duration::from_secs(5);
    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn drain_ends_when_no_client_was_seen_for_long_enough() {
        let (time, drain) = steered();
        let activity = drain.worker();
        activity.touch();
        let mut idle = std::pin::pin!(drain.idle(IDLE_FOR, TIMEOUT, CALL));
        assert!(is_pending(idle.as_mut()).await);
        time.advance(Duration::from_secs(4));
        assert!(is_pending(idle.as_mut()).await);
        drop(activity.begin());
        time.advance(Duration::from_secs(4));
        assert!(is_pending(idle.as_mut()).await, "a client was seen 4 s ago");
        time.advance(Duration::from_secs(1));
        assert_eq!(idle.await, DrainEnd::Idle);
    }

    #[tokio::test]
    async fn a_client_that_was_silent_for_long_gets_the_whole_time_to_finish() {
        let (time, drain) = steered();
        drain.worker().touch();
        time.advance(Duration::from_secs(3600));
        drain.start();
        let mut idle = std::pin::pin!(drain.idle(IDLE_FOR, TIMEOUT, CALL));
        assert!(is_pending(idle.as_mut()).await);
        time.advance(Duration::from_secs(5));
        assert_eq!(idle.await, DrainEnd::Idle);
    }

    #[tokio::test]
    async fn an_open_request_holds_the_drain_until_its_timeout() {
        let (time, drain) = steered();
        let open = drain.worker().begin();
        let _other_thread = drain.worker();
        drain.start();
        let mut idle = std::pin::pin!(drain.idle(IDLE_FOR, TIMEOUT, CALL));
        assert!(is_pending(idle.as_mut()).await);
        time.advance(Duration::from_secs(59));
        assert!(is_pending(idle.as_mut()).await);
        time.advance(Duration::from_secs(1));
        assert_eq!(idle.await, DrainEnd::TimedOut);
        drop(open);
    }

    #[tokio::test]
    async fn no_request_is_taken_near_the_end_of_the_time() {
        let (time, drain) = steered();
        let worker = drain.worker();
        let open = worker.begin();
        drain.start();
        let mut idle = std::pin::pin!(drain.idle(IDLE_FOR, TIMEOUT, CALL));
        assert!(is_pending(idle.as_mut()).await);
        time.advance(TIMEOUT - CALL - Duration::from_secs(1));
        assert!(is_pending(idle.as_mut()).await && !worker.is_closing());
        time.advance(Duration::from_secs(1));
        assert!(is_pending(idle.as_mut()).await && worker.is_closing());
        worker.closing().await;
        drop(open);
        assert_eq!(idle.await, DrainEnd::Idle, "nothing can come any more");
    }

    #[tokio::test]
    async fn the_end_of_the_last_request_is_noticed_without_the_clock() {
        let (time, drain) = steered();
        let open = drain.worker().begin();
        drain.start();
        let mut idle = std::pin::pin!(drain.idle(Duration::ZERO, TIMEOUT, CALL));
        time.advance(Duration::from_secs(1));
        assert!(is_pending(idle.as_mut()).await);
        drop(open);
        assert_eq!(idle.await, DrainEnd::Idle);
    }

    #[tokio::test]
    async fn waiters_wake_when_draining_starts() {
        let (_time, drain) = steered();
        let mut wait = std::pin::pin!(drain.wait());
        assert!(is_pending(wait.as_mut()).await);
        assert!(!drain.is_draining());
        drain.start();
        wait.await;
        drain.wait().await;
        assert!(drain.is_draining());
    }

    async fn is_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }
}
