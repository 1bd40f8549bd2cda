//! The sources of 500s: many, or one.

use std::time::{Duration, Instant};

/// The number of remembered sources; more would not change the verdict.
const REMEMBERED: usize = 8;
/// Calls of fewer sources than this may all be poison of one making: two bad job types of one release are not rare.
pub(super) const DISTINCT_MIN: usize = 3;

/// The sources of the last failed calls, by hash. Bounded.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    seen: [Option<(u64, Instant)>; REMEMBERED],
}

impl Sources {
    /// A call of this source failed; the one that was quiet for longest makes room.
    pub(super) fn add(&mut self, source: u64, now: Instant) {
        let known = self.seen.iter().position(|slot| slot.is_some_and(|(hash, _)| hash == source));
        let place = known.or_else(|| self.seen.iter().position(Option::is_none)).or_else(|| {
            let slots = self.seen.iter().enumerate();
            slots.min_by_key(|(_, slot)| slot.map(|(_, at)| at)).map(|(place, _)| place)
        });
        if let Some(slot) = place.and_then(|place| self.seen.get_mut(place)) {
            *slot = Some((source, now));
        }
    }

    /// Whether failures came from enough sources within the window to be the region's own.
    pub(super) fn are_many(&self, now: Instant, window: Duration) -> bool {
        let recent = |&&(_, at): &&(u64, Instant)| now.saturating_duration_since(at) <= window;
        self.seen.iter().flatten().filter(recent).count() >= DISTINCT_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_sources_within_the_window_are_many_and_one_that_repeats_is_one() {
        let (start, window) = (Instant::now(), Duration::from_secs(10));
        let mut sources = Sources::default();
        for second in 0..100 {
            sources.add(7, start + Duration::from_secs(second));
        }
        let now = start + Duration::from_secs(100);
        assert!(!sources.are_many(now, window));
        sources.add(8, now);
        sources.add(9, now);
        assert!(sources.are_many(now, window));
        assert!(!sources.are_many(now + Duration::from_secs(10), window), "7 was last seen at 99 s");
    }

    #[test]
    fn any_number_of_sources_is_remembered_in_bounded_space() {
        let mut sources = Sources::default();
        let now = Instant::now();
        (0..10_000).for_each(|source| sources.add(source, now));
        assert_eq!(sources.seen.iter().flatten().count(), REMEMBERED);
        assert!(sources.are_many(now, Duration::ZERO));
    }
}
