//! When things are due that are due for all regions: at the same moments, so that a sidecar at rest wakes up for all of them together.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Registry;
use crate::base::{Clock, Draw};

/// The failure ratios and the time that states have lasted are read this often: a tenth of the default window.
const TICK: Duration = Duration::from_secs(1);

/// Lets time act on all regions once a second, for ever.
pub async fn tick(registry: Arc<Registry>) {
    let clock: Clock = registry.clock().clone();
    loop {
        clock.sleep(TICK).await;
        registry.tick_all();
    }
}

/// The rounds in which the regions of one sidecar are probed. Each begins an interval after the last, give or take a tenth, so that the
/// rounds of a fleet are spread.
#[derive(Debug)]
pub struct Rounds {
    interval: Duration,
    next: Cell<Option<Instant>>,
    draw: RefCell<Draw>,
}

impl Rounds {
    /// Rounds of which none has begun.
    #[must_use]
    pub const fn new(interval: Duration, draw: Draw) -> Self {
        Self { interval, next: Cell::new(None), draw: RefCell::new(draw) }
    }

    /// When the first round after `now` begins; the same for all callers before then.
    pub(super) fn after(&self, now: Instant) -> Instant {
        let next = self.next.get().filter(|next| *next > now);
        let next = next.unwrap_or_else(|| now + self.interval.mul_f64(0.9 + 0.2 * self.draw.borrow_mut().unit()));
        self.next.set(Some(next));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_regions_are_due_in_the_same_rounds_whenever_their_probes_ended() {
        let (rounds, start) = (Rounds::new(Duration::from_secs(10), Draw::from_seed(1)), Instant::now());
        let mut now = start;
        for _ in 0..100 {
            let due = rounds.after(now);
            assert!((Duration::from_secs(9)..Duration::from_secs(11)).contains(&(due - now)));
            for ms in [1, 400, 8_999] {
                assert_eq!(rounds.after(now + Duration::from_millis(ms)), due);
            }
            now = due;
        }
    }
}
