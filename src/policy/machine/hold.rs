//! Hold-down: a region that keeps coming and going stays out until it has been quiet.
//!
//! Each return draws traffic there and each loss throws it back, and both cost more than the region's help is worth. So after a
//! number of changes within a window it is held: flexible jobs leave it alone, as long as there is any other region, until it
//! has been usable without a change for a while. Jobs that may go nowhere else are not held up.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::config::CircuitBreaker;

/// The changes of one region. Bounded by `hold_down_changes`.
#[derive(Debug, Clone)]
pub(in crate::policy) struct HoldDown {
    changes_max: usize,
    window: Duration,
    quiet: Duration,
    changes: VecDeque<Instant>,
    held: bool,
}

impl HoldDown {
    pub(in crate::policy) fn new(config: &CircuitBreaker) -> Self {
        let mut hold = Self {
            changes_max: 0,
            window: Duration::ZERO,
            quiet: Duration::ZERO,
            changes: VecDeque::new(),
            held: false,
        };
        hold.reconfigure(config);
        hold
    }

    pub(in crate::policy) fn reconfigure(&mut self, config: &CircuitBreaker) {
        self.changes_max = usize::try_from(config.hold_down_changes).unwrap_or(usize::MAX);
        (self.window, self.quiet) = (config.hold_down_window, config.hold_down_quiet);
        self.held &= self.changes_max > 0;
    }

    pub(in crate::policy) const fn is_held(&self) -> bool {
        self.held
    }

    /// The region became usable, or no longer is; true when it is held from now on.
    pub(in crate::policy) fn on_change(&mut self, now: Instant) -> bool {
        if self.changes_max == 0 {
            return false;
        }
        self.changes.push_back(now);
        while self.changes.len() > self.changes_max {
            self.changes.pop_front();
        }
        let oldest = self.changes.front().copied().unwrap_or(now);
        let many = self.changes.len() == self.changes_max && now.saturating_duration_since(oldest) <= self.window;
        let begins = many && !self.held;
        self.held |= many;
        begins
    }

    /// Changes from `since` on were none.
    pub(in crate::policy) fn forget_since(&mut self, since: Instant) {
        self.changes.retain(|&at| at < since);
    }

    /// Lets a usable region go once it has been quiet; true when it does.
    pub(in crate::policy) fn tick(&mut self, now: Instant, usable: bool) -> bool {
        let last = self.changes.back().copied().unwrap_or(now);
        let ends = self.held && usable && now.saturating_duration_since(last) >= self.quiet;
        if ends {
            self.held = false;
            self.changes.clear();
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::testing;

    const SECOND: Duration = Duration::from_secs(1);

    fn hold() -> HoldDown {
        HoldDown::new(&testing::config(&["a"]).circuit_breaker)
    }

    #[test]
    fn six_changes_within_ten_minutes_hold_a_region_and_a_quiet_minute_lets_it_go() {
        let (mut hold, start) = (hold(), Instant::now());
        let held: Vec<_> = (0..6).map(|change| hold.on_change(start + SECOND * 100 * change)).collect();
        assert_eq!(held, [false, false, false, false, false, true]);
        let last = start + SECOND * 500;
        assert!(!hold.tick(last + SECOND * 59, true));
        assert!(!hold.tick(last + SECOND * 90, false), "a region that is out is not quiet");
        assert!(hold.tick(last + SECOND * 90, true));
        assert!(!hold.is_held() && !hold.on_change(last + SECOND * 91), "counting starts anew");
    }

    #[test]
    fn changes_that_are_far_apart_hold_nothing() {
        let (mut hold, start) = (hold(), Instant::now());
        assert!(!(0..100).any(|change| hold.on_change(start + SECOND * 121 * change)));
    }

    #[test]
    fn a_change_while_it_is_held_starts_the_wait_anew() {
        let (mut hold, start) = (hold(), Instant::now());
        assert!((0..6).any(|_| hold.on_change(start)));
        assert!(!hold.on_change(start + SECOND * 50));
        assert!(!hold.tick(start + SECOND * 100, true) && hold.tick(start + SECOND * 110, true));
    }

    #[test]
    fn no_changes_at_all_switch_it_off() {
        let config = CircuitBreaker { hold_down_changes: 0, ..testing::config(&["a"]).circuit_breaker };
        let (mut hold, now) = (HoldDown::new(&config), Instant::now());
        assert!(!(0..1_000).any(|_| hold.on_change(now)));
    }

    proptest! {
        #[test]
        fn a_held_region_comes_back_only_after_its_quiet_time(waits in prop::collection::vec(0..200_u64, 1..100)) {
            let (mut hold, mut now) = (hold(), Instant::now());
            let mut last = now;
            for (place, wait) in waits.into_iter().enumerate() {
                now += Duration::from_secs(wait);
                if hold.tick(now, place % 2 == 1) {
                    prop_assert!(now - last >= SECOND * 60);
                }
                hold.on_change(now);
                last = now;
                prop_assert!(hold.changes.len() <= 6);
            }
        }
    }
}
