//! Time as a handle, so that tests steer it instead of waiting for it.
//!
//! Everything the control plane does by the clock (probes, cooldowns, load polls, ages) asks a [`Clock`]. Deadlines of single
//! requests are the runtime's own timers: they bound a wait on a socket and need no steering.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

/// A boxed wait, as [`Time::sleep_until`] returns it.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A source of time.
pub trait Time: Send + Sync + 'static {
    /// Monotonic time: for ages, cooldowns and deadlines.
    fn now(&self) -> Instant;
    /// The same up to some ten milliseconds ago, and cheaper: for durations of seconds.
    fn about(&self) -> Instant {
        self.now()
    }
    /// Wall clock, in milliseconds since the Unix epoch: for values that are compared and kept.
    fn unix_ms(&self) -> u64;
    /// The same up to some ten milliseconds ago, and cheaper: for identifiers, and for people.
    fn unix_ms_about(&self) -> u64 {
        self.unix_ms()
    }
    /// Resolves once [`Time::now`] has reached `deadline`.
    ///
    /// Cancel: dropping it leaves nothing behind.
    fn sleep_until(&self, deadline: Instant) -> Sleep;
}

/// A cheap, shared handle on a source of time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Time>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(SystemTime))
    }

    /// A clock over any source, such as a [`SteeredTime`] that a test keeps a second handle on.
    #[must_use]
    pub fn new(time: Arc<dyn Time>) -> Self {
        Self(time)
    }

    /// Monotonic now.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// Monotonic now, or up to some ten milliseconds ago, and cheaper: for durations of seconds.
    #[must_use]
    pub fn about(&self) -> Instant {
        self.0.about()
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ms(&self) -> u64 {
        self.0.unix_ms()
    }

    /// The same up to some ten milliseconds ago, and cheaper: for identifiers, and for people.
    #[must_use]
    pub fn unix_ms_about(&self) -> u64 {
        self.0.unix_ms_about()
    }

    /// Waits for `wait` of this clock's time.
    pub async fn sleep(&self, wait: Duration) {
        self.0.sleep_until(self.now() + wait).await;
    }

    /// Waits for `wait` of this clock's time and of the machine's: a socket has this long, which a steered clock that
    /// is advanced must not take away.
    pub async fn sleep_for_socket(&self, wait: Duration) {
        tokio::join!(self.sleep(wait), tokio::time::sleep(wait));
    }

    /// Waits until this clock shows `deadline`.
    pub async fn sleep_until(&self, deadline: Instant) {
        self.0.sleep_until(deadline).await;
    }
}

/// The clocks as the system last noted them: to work them out anew takes four times as long.
#[cfg(target_os = "linux")]
const LAST_TICKS: (ClockId, ClockId) = (ClockId::RealtimeCoarse, ClockId::MonotonicCoarse);
#[cfg(not(target_os = "linux"))]
const LAST_TICKS: (ClockId, ClockId) = (ClockId::Realtime, ClockId::Monotonic);

/// A moment, and the kernel's coarse monotonic clock at that moment.
static NOTED: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
    /// Longer than three readings take. One that was interrupted between them is repeated, since it would be late for ever.
    const UNDISTURBED: Duration = Duration::from_micros(100);
    const TRIES: usize = 100;
    let read = || {
        // In this order, so that the moment is not behind the coarse clock.
        let (now, exact, noted) = (Instant::now(), monotonic(ClockId::Monotonic), monotonic(LAST_TICKS.1));
        (now.elapsed(), now.checked_sub(exact.saturating_sub(noted)).unwrap_or(now), noted)
    };
    let mut best = read();
    for _ in 0..TRIES {
        if best.0 <= UNDISTURBED {
            break;
        }
        best = best.min(read());
    }
    (best.1, best.2)
});

thread_local! {
    /// The last result on this thread, with its coarse clock.
    static WORKED_OUT: Cell<(Duration, Option<Instant>)> = const { Cell::new((Duration::ZERO, None)) };
}

/// The machine's coarse monotonic clock, up to some ten milliseconds old: for durations of seconds. A [`Clock`] that is
/// not the machine's has [`Clock::about`].
#[must_use]
pub fn instant_about() -> Instant {
    let noted = monotonic(LAST_TICKS.1);
    // Many ask between two ticks.
    if let (last, Some(moment)) = WORKED_OUT.get()
        && last == noted
    {
        return moment;
    }
    let (moment, then) = *NOTED;
    let moment = moment + noted.saturating_sub(then);
    WORKED_OUT.set((noted, Some(moment)));
    moment
}

#[expect(clippy::disallowed_methods, reason = "this is what `Clock` reads the machine's clock by")]
fn monotonic(id: ClockId) -> Duration {
    let now = clock_gettime(id);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// The machine's monotonic and wall clocks.
#[derive(Debug)]
pub struct SystemTime;

impl Time for SystemTime {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn about(&self) -> Instant {
        instant_about()
    }

    #[expect(clippy::disallowed_methods, reason = "this is what `Clock` reads the wall clock by")]
    fn unix_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this is what `Clock` reads the wall clock by")]
    fn unix_ms_about(&self) -> u64 {
        let now = clock_gettime(LAST_TICKS.0);
        let ms = i128::from(now.tv_sec) * 1_000 + i128::from(now.tv_nsec) / 1_000_000;
        u64::try_from(ms).unwrap_or_default()
    }

    fn sleep_until(&self, deadline: Instant) -> Sleep {
        Box::pin(tokio::time::sleep_until(deadline.into()))
    }
}

/// A clock that moves only on order: for tests and simulations.
#[derive(Debug)]
pub struct SteeredTime {
    start: Instant,
    start_unix_ms: AtomicU64,
    elapsed: Mutex<Duration>,
    moved: Arc<Notify>,
}

impl SteeredTime {
    /// A clock that stands still at `unix_ms` until [`SteeredTime::advance`] moves it.
    #[must_use]
    pub fn starting_at(unix_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            start_unix_ms: AtomicU64::new(unix_ms),
            elapsed: Mutex::new(Duration::ZERO),
            moved: Arc::new(Notify::new()),
        })
    }

    /// Moves the clock forward and wakes every sleeper that is due.
    pub fn advance(&self, by: Duration) {
        *self.elapsed.lock() += by;
        self.moved.notify_waiters();
    }

    /// Sets the wall clock, as an operator or NTP does: the monotonic one does not follow.
    pub fn set_wall(&self, unix_ms: u64) {
        let elapsed = u64::try_from(self.elapsed.lock().as_millis()).unwrap_or(u64::MAX);
        self.start_unix_ms.store(unix_ms.saturating_sub(elapsed), Relaxed);
    }
}

impl Time for Arc<SteeredTime> {
    fn now(&self) -> Instant {
        self.start + *self.elapsed.lock()
    }

    fn unix_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.elapsed.lock().as_millis()).unwrap_or(u64::MAX);
        self.start_unix_ms.load(Relaxed).saturating_add(elapsed)
    }

    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let time = Self::clone(self);
        Box::pin(async move {
            loop {
                // Registered before the comparison, so that a move between the two is not missed.
                let moved = time.moved.notified();
                if time.now() >= deadline {
                    return;
                }
                moved.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn steered_time_wakes_sleepers_only_when_their_deadline_is_reached() {
        let time = SteeredTime::starting_at(1_000);
        let clock = Clock::new(Arc::new(Arc::clone(&time)));
        let mut sleep = Box::pin(clock.sleep(Duration::from_secs(30)));
        assert!(futures_poll_once(sleep.as_mut()).await.is_none());
        time.advance(Duration::from_secs(29));
        assert!(futures_poll_once(sleep.as_mut()).await.is_none());
        time.advance(Duration::from_secs(1));
        assert!(futures_poll_once(sleep.as_mut()).await.is_some());
        assert_eq!(clock.unix_ms(), 31_000);
    }

    #[test]
    fn the_cheaper_clocks_show_the_same_time() {
        const MINUTE: Duration = Duration::from_secs(60);
        let clock = Clock::system();
        let (about, exact) = (clock.unix_ms_about(), clock.unix_ms());
        assert!(u128::from(about.abs_diff(exact)) < MINUTE.as_millis(), "{about} instead of {exact}");
        let (first, exact) = (clock.about(), clock.now());
        assert!(first <= exact && exact - first < MINUTE, "{first:?} instead of {exact:?}");
        while clock.about() == first {
            assert!(exact.elapsed() < MINUTE, "it stands still");
        }
        assert!(first < clock.about() && clock.about() <= clock.now());
        let steered = Clock::new(Arc::new(SteeredTime::starting_at(1_000)));
        assert_eq!((steered.unix_ms_about(), steered.about()), (steered.unix_ms(), steered.now()));
    }

    async fn futures_poll_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(match future.as_mut().poll(cx) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
