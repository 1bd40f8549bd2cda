//! The part of a fleet's limit that this sidecar has at one region.
//!
//! The hub grants a number of calls at once for a time. Calls decide by it in memory, without a request to the hub. A FETCH and
//! words about leased jobs are not counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::RwLock;

/// Stands for the calls without a grant where the region has no fleet limit.
const NO_LIMIT: u64 = u64::MAX;
/// The largest number of calls that one half of a word holds.
const HALF_MAX: u64 = u32::MAX as u64;

/// The granted calls at once of one region; shared by all threads.
#[derive(Debug)]
pub struct Grant {
    /// The granted calls in the upper half, those under way in the lower one. One word, so that no call begins between a lowered grant and the
    /// count of calls that the hub gets.
    calls: AtomicU64,
    /// When the grant ends; none before the first one.
    ends: RwLock<Option<Instant>>,
    /// The calls at once without a grant; [`NO_LIMIT`] where there is no fleet limit.
    otherwise: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
    /// That of the last request for it.
    sequence: AtomicU64,
    /// Whether the process ends, and whether the hub knows that nothing is held.
    ending: AtomicBool,
    given_back: AtomicBool,
}

/// The counted calls of a region since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallsSeen {
    /// The most at once.
    pub peak: u64,
    /// How many were refused.
    pub refused: u64,
}

impl Default for Grant {
    /// No limit.
    fn default() -> Self {
        let otherwise = AtomicU64::new(NO_LIMIT);
        let (calls, peak, refused, sequence) = Default::default();
        let (ending, given_back) = Default::default();
        Self { calls, ends: RwLock::default(), otherwise, peak, refused, sequence, ending, given_back }
    }
}

impl Grant {
    /// Sets a fleet limit, with the calls at once while there is no grant; none: there is no fleet limit.
    pub fn set_limit(&self, otherwise: Option<u64>) {
        self.otherwise.store(otherwise.map_or(NO_LIMIT, |calls| calls.min(HALF_MAX)), Relaxed);
    }

    /// Whether the region has a fleet limit. One load.
    pub(super) fn is_limited(&self) -> bool {
        self.otherwise.load(Relaxed) != NO_LIMIT
    }

    /// Begins a call, unless as many are under way as may be.
    pub(super) fn enter(&self, now: Instant) -> bool {
        let has_ended = self.has_ended(now);
        let enters = |word: u64| {
            let (granted, under_way) = halves(word);
            let most = if has_ended { self.otherwise.load(Relaxed) } else { granted };
            (under_way < most.min(HALF_MAX)).then(|| word + 1)
        };
        let entered = self.calls.fetch_update(AcqRel, Acquire, enters);
        match entered {
            Ok(before) => self.peak.fetch_max(halves(before).1 + 1, Relaxed),
            Err(_) => self.refused.fetch_add(1, Relaxed),
        };
        entered.is_ok()
    }

    /// Ends a call that began.
    pub(super) fn leave(&self) {
        self.calls.fetch_sub(1, AcqRel);
    }

    /// Takes a grant from the hub.
    pub fn take(&self, calls: u64, ends: Instant) {
        // The end first: until then the calls are those that the hub knows of.
        *self.ends.write() = Some(ends);
        self.set_calls(|_| calls);
    }

    /// Lowers the grant to at most so many calls, to none where it has ended. Returns the calls that there may be at once from now on.
    pub fn lower(&self, most: u64, now: Instant) -> u64 {
        let most = if self.has_ended(now) { 0 } else { most };
        let (granted, under_way) = self.set_calls(|granted| granted.min(most));
        granted.max(under_way)
    }

    /// The granted calls at once, and those without a grant where it has ended.
    #[must_use]
    pub fn calls(&self, now: Instant) -> u64 {
        if self.has_ended(now) { self.otherwise.load(Relaxed) } else { halves(self.calls.load(Relaxed)).0 }
    }

    /// When the grant ends; none without one, and from its end on.
    #[must_use]
    pub fn ends(&self, now: Instant) -> Option<Instant> {
        self.ends.read().filter(|ends| *ends > now)
    }

    /// The sequence of the next request to the hub. It goes on over a reload of the configuration, as the calls do.
    pub fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Relaxed) + 1
    }

    /// A later request has reached the hub: the next one comes behind it.
    pub fn set_sequence(&self, sequence: u64) {
        self.sequence.fetch_max(sequence, Relaxed);
    }

    /// The process ends: there are no more calls, and the hub gets the grant back.
    pub fn end(&self) {
        self.ending.store(true, Relaxed);
        self.set_calls(|_| 0);
    }

    /// Whether the process ends.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Relaxed)
    }

    /// The hub knows that nothing is held.
    pub fn note_given_back(&self) {
        self.given_back.store(true, Relaxed);
    }

    /// Whether the hub knows that nothing is held, or there is nothing to give back.
    #[must_use]
    pub fn is_given_back(&self) -> bool {
        !self.is_limited() || self.given_back.load(Relaxed) || self.ends.read().is_none()
    }

    /// The calls since the last look.
    pub fn seen(&self) -> CallsSeen {
        let under_way = halves(self.calls.load(Relaxed)).1;
        CallsSeen { peak: self.peak.swap(under_way, Relaxed).max(under_way), refused: self.refused.swap(0, Relaxed) }
    }

    fn has_ended(&self, now: Instant) -> bool {
        self.ends.read().is_none_or(|ends| ends <= now)
    }

    /// Sets the granted calls; returns them, and the calls under way.
    fn set_calls(&self, to: impl Fn(u64) -> u64) -> (u64, u64) {
        let set = |word: u64| {
            let (granted, under_way) = halves(word);
            (to(granted).min(HALF_MAX) << 32) | under_way
        };
        let update = |word: u64| Some(set(word));
        let before = self.calls.fetch_update(AcqRel, Acquire, update).unwrap_or_else(|word| word);
        halves(set(before))
    }
}

/// The granted calls and the calls under way of a word.
const fn halves(word: u64) -> (u64, u64) {
    (word >> 32, word & HALF_MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn entered(grant: &Grant, now: Instant) -> u64 {
        (0..100).take_while(|_| grant.enter(now)).count() as u64
    }

    #[test]
    fn calls_begin_up_to_the_grant_and_after_its_end_up_to_those_without_one() {
        let (grant, now) = (Grant::default(), Instant::now());
        assert!(!grant.is_limited());
        grant.set_limit(Some(1));
        assert!(grant.is_limited());
        assert_eq!((grant.calls(now), entered(&grant, now)), (1, 1), "before the first grant");
        grant.take(3, now + SECOND);
        assert_eq!((grant.calls(now), entered(&grant, now)), (3, 2), "the call under way counts");
        assert_eq!(grant.seen(), CallsSeen { peak: 3, refused: 2 });
        grant.leave();
        assert!(grant.enter(now) && !grant.enter(now + SECOND));
        (0..3).for_each(|_| grant.leave());
        assert!(grant.enter(now + SECOND) && !grant.enter(now + SECOND));
    }

    #[test]
    fn a_lowered_grant_counts_the_calls_under_way_until_they_end() {
        let (grant, now) = (Grant::default(), Instant::now());
        grant.set_limit(Some(0));
        grant.take(5, now + SECOND);
        assert_eq!(entered(&grant, now), 5);
        assert_eq!((grant.lower(2, now), grant.enter(now)), (5, false));
        (0..4).for_each(|_| grant.leave());
        assert_eq!((grant.lower(2, now), grant.lower(9, now)), (2, 2), "it is never raised so");
        assert_eq!(grant.lower(9, now + SECOND), 1, "an ended grant has only the calls under way");
        assert_eq!(grant.seen().peak, 5);
        assert_eq!(grant.seen().peak, 1, "since the last look");
    }

    /// The number that the hub gets is never below the calls under way, in spite of other threads.
    #[test]
    fn no_call_begins_beyond_a_lowered_grant() {
        let (grant, now) = (Grant::default(), Instant::now());
        grant.set_limit(Some(0));
        let most = AtomicU64::new(8);
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..20_000 {
                        if grant.enter(now) {
                            assert!(halves(grant.calls.load(Acquire)).1 <= 8);
                            grant.leave();
                        }
                    }
                });
            }
            for round in 0..2_000 {
                grant.take(round % 9, now + SECOND);
                let held = grant.lower(round % 4, now);
                most.store(held, Relaxed);
                assert!(halves(grant.calls.load(Acquire)).1 <= held.max(round % 4));
            }
        });
        assert_eq!(halves(grant.calls.load(Relaxed)).1, 0);
    }
}
