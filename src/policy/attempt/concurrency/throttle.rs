//! The bound that an operator sets on the calls of this sidecar to one region.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

/// Stands for no bound.
const NONE: u64 = u64::MAX;

/// The bound, and the calls under way that began since it was set; shared by all threads. Calls that were under way before do not count.
#[derive(Debug)]
pub struct Throttle {
    most: AtomicU64,
    under_way: AtomicU64,
}

impl Default for Throttle {
    /// No bound.
    fn default() -> Self {
        Self { most: AtomicU64::new(NONE), under_way: AtomicU64::new(0) }
    }
}

impl Throttle {
    /// Sets the most calls at once; none: there is no bound.
    pub fn set(&self, most: Option<u64>) {
        self.most.store(most.unwrap_or(NONE), Relaxed);
    }

    /// The most calls at once. One load.
    #[must_use]
    pub fn most(&self) -> Option<u64> {
        Some(self.most.load(Relaxed)).filter(|most| *most != NONE)
    }

    /// Begins a call, unless as many are under way as may be.
    pub(super) fn enter(&self, most: u64) -> bool {
        let enters = |under_way: u64| (under_way < most).then(|| under_way + 1);
        self.under_way.fetch_update(AcqRel, Acquire, enters).is_ok()
    }

    /// Ends a call that began.
    pub(super) fn leave(&self) {
        self.under_way.fetch_sub(1, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_calls_are_under_way_as_the_bound_says_and_a_lower_one_waits_for_their_end() {
        let throttle = Throttle::default();
        assert_eq!(throttle.most(), None);
        throttle.set(Some(2));
        let enters = || throttle.most().is_none_or(|most| throttle.enter(most));
        assert_eq!([enters(), enters(), enters()], [true, true, false]);
        throttle.set(Some(1));
        throttle.leave();
        assert!(!enters());
        throttle.leave();
        assert!(enters());
        throttle.set(None);
        assert!(enters());
    }
}
