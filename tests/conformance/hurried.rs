//! The machine's time without the waits of the cases.
//!
//! A case that says "wait 65 seconds" moves the clock of the regions by 65 seconds and goes on at once; everything else takes
//! the time that it takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ojs_sidecar::base::{Clock, Sleep, SystemTime, Time};
use tokio::sync::watch;

/// A clock that can be moved forward while it runs.
#[derive(Debug, Clone)]
pub struct Hurried(Arc<watch::Sender<Duration>>);

impl Hurried {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Duration::ZERO)))
    }

    pub fn clock(&self) -> Clock {
        Clock::new(Arc::new(self.clone()))
    }

    /// Lets this much time be over, and wakes who waited for it.
    pub fn skip(&self, wait: Duration) {
        self.0.send_modify(|skipped| *skipped += wait);
    }

    fn skipped(&self) -> Duration {
        *self.0.borrow()
    }
}

impl Time for Hurried {
    fn now(&self) -> Instant {
        SystemTime.now() + self.skipped()
    }

    fn unix_ms(&self) -> u64 {
        SystemTime.unix_ms() + u64::try_from(self.skipped().as_millis()).unwrap()
    }

    fn sleep_until(&self, deadline: Instant) -> Sleep {
        let time = self.clone();
        let mut skipped = self.0.subscribe();
        Box::pin(async move {
            while let Some(left) = deadline.checked_duration_since(time.now()).filter(|left| !left.is_zero()) {
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    // The sender lives in `time`.
                    _ = skipped.changed() => {}
                }
            }
        })
    }
}

#[tokio::test]
async fn a_skipped_wait_is_over_for_who_sleeps_and_for_who_looks_at_the_clock() {
    let hurried = Hurried::new();
    let clock = hurried.clock();
    let (before, before_ms) = (clock.now(), clock.unix_ms());
    let hour = Duration::from_secs(3_600);
    let sleeper = tokio::spawn(async move { clock.sleep_until(before + hour).await });
    hurried.skip(hour);
    sleeper.await.unwrap();
    assert!(hurried.now() >= before + hour && hurried.unix_ms() >= before_ms + 3_600_000);
}
