//! Is it me? When every region fails at once and our own network fails as well, the regions are not to blame.
//!
//! The verdict needs both: regions may really fail together, and a network without a route may still reach a region beside us.
//! While we suspect ourselves, failures say nothing of regions; the first success of any region, or a check that passes, ends it.

use std::time::{Duration, Instant};

use crate::policy::index::RegionIndex;

/// Failures further apart than this are not one event.
const TOGETHER: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy)]
struct Last {
    at: Instant,
    ok: bool,
}

/// The verdict of all regions' latest results about our own network.
#[derive(Debug, Default)]
pub(in crate::policy) struct Suspicion {
    last: Vec<Option<Last>>,
    suspect: bool,
}

impl Suspicion {
    pub(in crate::policy) fn new(regions: usize) -> Self {
        Self { last: vec![None; regions], suspect: false }
    }

    pub(in crate::policy) const fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Takes a result of a region; true when a success ended the suspicion.
    pub(in crate::policy) fn on_result(&mut self, region: RegionIndex, now: Instant, ok: bool) -> bool {
        if let Some(last) = self.last.get_mut(region.get()) {
            *last = Some(Last { at: now, ok });
        }
        ok && std::mem::take(&mut self.suspect)
    }

    /// Since when everything fails, if it does: the latest result of every region is a failure, all within two seconds.
    /// `asked` gives the regions that are asked at all; one that has long been down proves nothing.
    pub(in crate::policy) fn failing_since(
        &self,
        now: Instant,
        asked: impl Fn(RegionIndex) -> bool,
    ) -> Option<Instant> {
        let (mut first, mut latest) = (None::<Instant>, None::<Instant>);
        for (place, last) in self.last.iter().enumerate() {
            let recent = last.filter(|last| now.saturating_duration_since(last.at) <= TOGETHER);
            match recent {
                Some(Last { at, ok: false }) => {
                    first = Some(first.map_or(at, |first| first.min(at)));
                    latest = Some(latest.map_or(at, |latest| latest.max(at)));
                }
                None if !asked(RegionIndex::new(place)) => {}
                _ => return None,
            }
        }
        let (first, latest) = (first?, latest?);
        (latest.saturating_duration_since(first) <= TOGETHER).then_some(first)
    }

    /// Takes the result of a check of our own network: whether it passed, and since when everything fails. Returns the new
    /// state where it changed.
    pub(in crate::policy) fn on_check(&mut self, passed: bool, failing_since: Option<Instant>) -> Option<bool> {
        let suspect = !passed && (self.suspect || failing_since.is_some());
        let changed = suspect != self.suspect;
        self.suspect = suspect;
        changed.then_some(suspect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results as (region, milliseconds, ok); whether everything fails at the time of the last one.
    fn failing(regions: usize, results: &[(usize, u64, bool)], out: &[usize]) -> bool {
        let start = Instant::now();
        let mut suspicion = Suspicion::new(regions);
        let mut now = start;
        for &(region, ms, ok) in results {
            now = start + Duration::from_millis(ms);
            suspicion.on_result(RegionIndex::new(region), now, ok);
        }
        suspicion.failing_since(now, |region| !out.contains(&region.get())).is_some()
    }

    #[test]
    fn everything_fails_when_all_regions_failed_within_two_seconds() {
        assert!(failing(3, &[(0, 0, false), (1, 900, false), (2, 2_000, false)], &[]));
        assert!(failing(3, &[(0, 0, true), (0, 1, false), (1, 2, false), (2, 3, false)], &[]));
        assert!(!failing(3, &[(0, 0, false), (1, 900, false), (2, 2_001, false)], &[]), "further apart");
        assert!(!failing(3, &[(0, 0, false), (1, 1, false)], &[]), "one was not heard of");
        assert!(!failing(3, &[(0, 0, false), (1, 1, false), (2, 2, false), (1, 3, true)], &[]), "one works");
    }

    #[test]
    fn a_region_that_is_out_for_long_is_not_waited_for() {
        assert!(failing(2, &[(1, 0, false), (0, 60_000, false)], &[1]));
        assert!(!failing(2, &[(1, 0, false), (0, 60_000, false)], &[]));
        assert!(!failing(2, &[], &[0, 1]), "nobody was asked");
    }

    #[test]
    fn only_a_failed_check_beside_failing_regions_makes_us_suspect_and_either_ends_it() {
        let now = Instant::now();
        let mut suspicion = Suspicion::new(1);
        assert_eq!(suspicion.on_check(true, Some(now)), None);
        assert_eq!(suspicion.on_check(false, None), None);
        assert_eq!(suspicion.on_check(false, Some(now)), Some(true));
        assert_eq!(suspicion.on_check(false, None), None, "it lasts while the check fails");
        assert_eq!(suspicion.on_check(true, None), Some(false));
        suspicion.on_check(false, Some(now));
        assert!(!suspicion.on_result(RegionIndex::new(0), now, false) && suspicion.is_suspect());
        assert!(suspicion.on_result(RegionIndex::new(0), now, true) && !suspicion.is_suspect());
    }
}
