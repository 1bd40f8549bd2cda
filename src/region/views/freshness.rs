//! From when on a sidecar that follows a hub probes a region by itself.
//!
//! Three things end the use of views: the feed is lost, a view is older than two intervals, or the hub sees no region healthy. Each sidecar
//! begins its own probes a random part of an interval later, so that those of a fleet are spread over one. A failure that only the hub may see
//! is checked by one own probe, spread likewise. Pure: moments come from the caller.

use std::time::{Duration, Instant};

use crate::policy::RegionIndex;

/// A view is used until its probe is so many intervals old: one may come late, or be lost.
pub(super) const FRESH_INTERVALS: u32 = 2;
/// At its start a sidecar waits no longer for a first view, because its readiness waits, too.
const START_SPREAD_MAX: Duration = Duration::from_secs(2);

/// The state of one sidecar's views.
#[derive(Debug)]
pub(super) struct Freshness {
    interval: Duration,
    start: Instant,
    /// Since when there is no feed with views; none while there is one.
    lost: Option<Instant>,
    /// Since when the hub sees no region healthy.
    blind: Option<Instant>,
    /// How long this sidecar waits behind the end of its views.
    spread: Duration,
    regions: Vec<RegionFreshness>,
}

#[derive(Debug, Clone, Default)]
struct RegionFreshness {
    /// When the probe of its last view ended.
    seen: Option<Instant>,
    /// Whether a probe of our own was answered well while the hub's failed.
    disputed: bool,
    /// Whether the hub's last probe failed, and no probe of our own was answered since.
    fails: bool,
    /// From when on a failure of the hub is to be checked by a probe of our own; none where none is to be checked.
    check: Option<Instant>,
}

impl Freshness {
    /// Without a feed. `share`: random, from 0 to 1, as in the other functions.
    pub(super) fn new(regions: usize, interval: Duration, now: Instant, share: f64) -> Self {
        Self {
            interval,
            start: now,
            lost: Some(now),
            blind: None,
            spread: interval.min(START_SPREAD_MAX).mul_f64(share),
            regions: vec![RegionFreshness::default(); regions],
        }
    }

    /// Views have come. `sees_any`: whether the hub sees any region healthy.
    pub(super) fn on_views(&mut self, now: Instant, sees_any: bool, share: f64) {
        if self.lost.take().is_some() {
            self.spread = self.interval.mul_f64(share);
        }
        self.blind = if sees_any { None } else { self.blind.or(Some(now)) };
    }

    /// The feed is lost.
    pub(super) fn on_lost(&mut self, now: Instant, share: f64) {
        if self.lost.is_none() {
            (self.lost, self.spread) = (Some(now), self.interval.mul_f64(share));
        }
        // The hub of the next feed may stand elsewhere.
        self.regions.iter_mut().for_each(|region| region.fails = false);
    }

    /// A view of a region, whose probe ended at `at`.
    pub(super) fn on_view(&mut self, index: RegionIndex, at: Instant, healthy: bool) {
        if let Some(region) = self.regions.get_mut(index.get()) {
            region.seen = Some(at);
            if healthy {
                (region.disputed, region.fails, region.check) = (false, false, None);
            }
        }
    }

    /// A view of a failed probe: it is checked by a probe of our own, a share of an interval from now, where it is the first one behind one that
    /// was answered, or where `decides`.
    pub(super) fn on_failure(&mut self, index: RegionIndex, now: Instant, decides: bool, share: f64) {
        let due = now + self.interval.mul_f64(share);
        if let Some(region) = self.regions.get_mut(index.get())
            && (!std::mem::replace(&mut region.fails, true) || decides)
        {
            region.check.get_or_insert(due);
        }
    }

    /// No failure is checked until the next one that is to be.
    pub(super) fn call_off_check(&mut self, index: RegionIndex) {
        if let Some(region) = self.regions.get_mut(index.get()) {
            region.check = None;
        }
    }

    /// A probe of our own ended. Where it was answered well while the hub's failed (`disputes`), the hub is not heeded until it agrees.
    pub(super) fn on_own_probe(&mut self, index: RegionIndex, healthy: bool, disputes: bool) {
        if let Some(region) = self.regions.get_mut(index.get()) {
            region.check = None;
            region.fails &= !healthy;
            region.disputed |= disputes;
        }
    }

    /// Whether a failed probe of the hub says nothing here.
    pub(super) fn is_doubtful(&self, index: RegionIndex) -> bool {
        self.blind.is_some() || self.regions.get(index.get()).is_some_and(|region| region.disputed)
    }

    /// From when on the region is probed by this sidecar, unless views come before: because there are none that are used, or to check one.
    pub(super) fn own_from(&self, index: RegionIndex) -> Instant {
        let check = self.regions.get(index.get()).and_then(|region| region.check);
        check.into_iter().fold(self.used_until(index), Instant::min)
    }

    /// Until when the views of the region are used, unless others come before.
    pub(super) fn used_until(&self, index: RegionIndex) -> Instant {
        let region = self.regions.get(index.get()).cloned().unwrap_or_default();
        if region.disputed {
            return self.start;
        }
        let stale = region.seen.map_or(self.start, |seen| seen + self.interval * FRESH_INTERVALS);
        let ends = [self.lost, self.blind].into_iter().flatten().fold(stale, Instant::min);
        ends + self.spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Draw;

    const A: RegionIndex = RegionIndex::new(0);
    const B: RegionIndex = RegionIndex::new(1);
    const INTERVAL: Duration = Duration::from_secs(10);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Two regions with a view of each at `start`.
    fn followed(start: Instant, share: f64) -> Freshness {
        let mut freshness = Freshness::new(2, INTERVAL, start, share);
        freshness.on_views(start, true, share);
        for index in [A, B] {
            freshness.on_view(index, start, true);
        }
        freshness
    }

    #[test]
    fn a_view_is_used_for_two_intervals_and_a_region_without_one_is_probed_at_once() {
        let start = Instant::now();
        let mut freshness = followed(start, 0.5);
        freshness.on_view(A, start + seconds(7), true);
        assert_eq!(freshness.own_from(A), start + seconds(7 + 20 + 5));
        assert_eq!(freshness.own_from(B), start + seconds(25));
        let unknown = RegionIndex::new(7);
        assert!(freshness.own_from(unknown) <= start + INTERVAL);
    }

    #[test]
    fn a_start_without_a_hub_and_the_loss_of_one_bring_own_probes_within_their_bounds() {
        let start = Instant::now();
        let alone = Freshness::new(1, INTERVAL, start, 0.999);
        assert!(alone.own_from(A) <= start + START_SPREAD_MAX);
        let mut freshness = followed(start, 0.0);
        freshness.on_lost(start + seconds(3), 0.4);
        freshness.on_lost(start + seconds(4), 0.9);
        assert_eq!(freshness.own_from(A), start + seconds(7), "the first sign of the loss counts");
        freshness.on_views(start + seconds(5), true, 0.1);
        freshness.on_view(A, start + seconds(5), true);
        assert_eq!(freshness.own_from(A), start + seconds(5 + 20 + 1));
    }

    #[test]
    fn a_hub_that_sees_no_region_healthy_is_not_heeded_until_it_sees_one() {
        let start = Instant::now();
        let mut freshness = followed(start, 0.2);
        freshness.on_views(start + seconds(1), false, 0.2);
        freshness.on_views(start + seconds(6), false, 0.2);
        assert!(freshness.is_doubtful(A));
        assert_eq!(freshness.own_from(A), start + seconds(3));
        freshness.on_views(start + seconds(7), true, 0.2);
        assert!(!freshness.is_doubtful(A) && freshness.own_from(A) > start + seconds(7));
    }

    #[test]
    fn a_region_that_answers_us_and_not_the_hub_is_ours_until_the_hub_agrees() {
        let start = Instant::now();
        let mut freshness = followed(start, 0.0);
        freshness.on_view(A, start, false);
        freshness.on_own_probe(A, true, true);
        assert!(freshness.own_from(A) <= start && freshness.own_from(B) > start);
        freshness.on_view(A, start + seconds(10), false);
        assert!(freshness.is_doubtful(A) && !freshness.is_doubtful(B));
        freshness.on_view(A, start + seconds(20), true);
        assert_eq!(freshness.own_from(A), start + seconds(40));
    }

    #[test]
    fn a_thousand_sidecars_check_a_failure_of_their_hub_once_each_spread_over_an_interval() {
        let (start, mut draw, mut tenths) = (Instant::now(), Draw::from_seed(45), [0; 10]);
        for _ in 0..1_000 {
            let mut freshness = followed(start, draw.unit());
            let mut checks = Vec::new();
            // Ten minutes in which the hub's probes of b are answered, and those of a are not from the fifth minute on.
            for second in 0..600 {
                let (now, failed) = (start + seconds(second), second >= 300);
                if second % 10 == 0 {
                    freshness.on_views(now, true, draw.unit());
                    freshness.on_view(A, now, !failed);
                    freshness.on_view(B, now, true);
                }
                if second % 10 == 0 && failed {
                    freshness.on_failure(A, now, false, draw.unit());
                }
                assert!(freshness.own_from(B) > now, "no probe while all is well");
                if freshness.own_from(A) <= now {
                    checks.push(second);
                    freshness.on_own_probe(A, false, false);
                }
            }
            assert!(matches!(checks[..], [301..=310]), "one each, of a region that is down: {checks:?}");
            tenths[usize::try_from(checks[0] - 301).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (60..=140).contains(count)), "{tenths:?}");
    }

    #[test]
    fn a_thousand_sidecars_that_lose_their_hub_at_once_begin_to_probe_spread_over_an_interval() {
        let start = Instant::now();
        let lost = start + seconds(4);
        let mut draw = Draw::from_seed(44);
        let mut tenths = [0; 10];
        for _ in 0..1_000 {
            let mut freshness = followed(start, draw.unit());
            assert!(freshness.own_from(A) > lost, "no probe while the hub lives");
            freshness.on_lost(lost, draw.unit());
            let wait = freshness.own_from(A).duration_since(lost);
            assert!(wait < INTERVAL);
            tenths[(wait.as_millis() / 1_000) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (60..=140).contains(count)), "{tenths:?}");
    }
}
