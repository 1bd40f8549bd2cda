//! Backpressure: a region that asks for less gets less of the flexible jobs, for a while. It is no failure and opens
//! nothing.
//!
//! Each sign (429, `Retry-After`, a 503 for one queue) raises the share of flexible jobs that try other regions first;
//! the share falls by half every ten seconds, and not before the time that the region asked for is over. It never
//! reaches all: the remaining jobs show when the region takes jobs again. Only a 429 with `Retry-After` is a pause:
//! until its end all of them go elsewhere.

use std::time::{Duration, Instant};

/// The most that is led elsewhere.
const SHARE_MAX: f64 = 0.9;
/// The part of the remaining share that one sign takes: one alone leads three jobs of ten elsewhere.
const STEP: f64 = 0.3;
/// The share halves in this time: about the interval at which loads are known anew.
const HALF_LIFE: Duration = Duration::from_secs(10);
/// The longest time that a region may ask for; it can ask again.
const HOLD_MAX: Duration = Duration::from_secs(60);
/// Signs within this time are one: thousands of refusals a second must not each make a new view.
const SIGN_EVERY: Duration = Duration::from_millis(100);
/// Below this share nothing is left of it.
const GONE: f64 = 0.01;

/// How hard a region asks for less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    share: f64,
    /// From when on the share falls.
    falls_from: Instant,
    /// Until when the region wants nothing; none where it has not said so.
    paused_until: Option<Instant>,
    signed_at: Instant,
}

impl Pressure {
    /// The pressure after a further sign; `None` when it came too soon after the last one to count separately.
    /// `pauses`: for the time of `retry_after` the region takes no flexible jobs.
    #[must_use]
    pub fn after_sign(before: Option<Self>, now: Instant, retry_after: Option<Duration>, pauses: bool) -> Option<Self> {
        if before.is_some_and(|before| before.was_signed_just_before(now)) {
            return None;
        }
        let share = before.map_or(0.0, |before| before.share(now));
        let held = now + retry_after.unwrap_or_default().min(HOLD_MAX);
        Some(Self {
            share: (share + (1.0 - share) * STEP).min(SHARE_MAX),
            falls_from: before.map_or(held, |before| before.falls_from.max(held)),
            paused_until: (pauses && held > now).then_some(held).max(before.and_then(|before| before.paused_until)),
            signed_at: now,
        })
    }

    /// Whether a sign at this time would be too soon after the last one to count separately.
    #[must_use]
    pub fn was_signed_just_before(self, now: Instant) -> bool {
        now.saturating_duration_since(self.signed_at) < SIGN_EVERY
    }

    /// Whether the region wants nothing now, so that every flexible job looks elsewhere.
    #[must_use]
    pub fn is_pause(self, now: Instant) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// The share of flexible jobs that look elsewhere first; 0 when the pressure is over.
    #[must_use]
    pub fn share(self, now: Instant) -> f64 {
        let falling = now.saturating_duration_since(self.falls_from).as_secs_f64();
        let share = self.share * libm::exp2(-falling / HALF_LIFE.as_secs_f64());
        if share < GONE { 0.0 } else { share }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_sign_leads_some_jobs_elsewhere_and_fades() {
        let now = Instant::now();
        let pressure = Pressure::after_sign(None, now, None, false).unwrap();
        for (seconds, share) in [(0, 0.3), (10, 0.15), (20, 0.075), (60, 0.0)] {
            assert!((pressure.share(now + SECOND * seconds) - share).abs() < 1e-9, "{seconds} s");
        }
    }

    #[test]
    fn it_does_not_fade_before_the_time_that_the_region_asked_for_up_to_a_minute() {
        let now = Instant::now();
        for (asked, held) in [(5, 5), (3_600, 60)] {
            let pressure = Pressure::after_sign(None, now, Some(SECOND * asked), false).unwrap();
            assert!(pressure.share(now + SECOND * held) > 0.29);
            assert!(pressure.share(now + SECOND * (held + 1)) < 0.29);
        }
    }

    #[test]
    fn a_pause_lasts_as_long_as_the_region_asked_for_up_to_a_minute() {
        let now = Instant::now();
        for (asked, paused) in [(2, 2), (3_600, 60)] {
            let pressure = Pressure::after_sign(None, now, Some(SECOND * asked), true).unwrap();
            assert!(pressure.is_pause(now + SECOND * paused - Duration::from_millis(1)));
            assert!(!pressure.is_pause(now + SECOND * paused));
            let longer = Pressure::after_sign(Some(pressure), now + SECOND, None, true).unwrap();
            assert!(
                longer.is_pause(now + SECOND * paused - Duration::from_millis(1)),
                "a further sign takes nothing back"
            );
        }
        assert!(!Pressure::after_sign(None, now, None, true).unwrap().is_pause(now), "without a time there is none");
        assert!(!Pressure::after_sign(None, now, Some(SECOND), false).unwrap().is_pause(now));
    }

    #[test]
    fn signs_that_come_at_once_are_one() {
        let now = Instant::now();
        let pressure = Pressure::after_sign(None, now, None, false);
        assert_eq!(Pressure::after_sign(pressure, now + Duration::from_millis(99), None, false), None);
        assert!(Pressure::after_sign(pressure, now + Duration::from_millis(100), None, false).is_some());
    }

    proptest! {
        #[test]
        fn it_never_leads_all_elsewhere_and_always_ends(signs in prop::collection::vec((0..20_000_u64, 0..100_u64), 1..200)) {
            let (mut now, mut pressure) = (Instant::now(), None);
            for (wait, asked) in signs {
                now += Duration::from_millis(wait);
                pressure = Pressure::after_sign(pressure, now, Some(SECOND * u32::try_from(asked).unwrap()), asked % 2 == 0).or(pressure);
                let share = pressure.unwrap().share(now);
                prop_assert!((0.0..=SHARE_MAX).contains(&share));
            }
            prop_assert!(pressure.unwrap().share(now + SECOND * 130) == 0.0);
        }
    }
}
