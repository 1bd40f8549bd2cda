//! How many calls a region bears at once, learned from its latency.
//!
//! Latency that stays as it was while calls are added says that there is room; latency that rises above its long mean says that
//! calls wait for each other. The limit follows: a small step up while all is well, at most a halving while it is not, both
//! smoothed. A number of calls that may queue, the root of the limit, keeps a limit from starving itself.

use std::time::{Duration, Instant};

/// A verdict needs so many samples …
const SAMPLES_MIN: u32 = 20;
/// … over at least this time, so that one burst is one sample.
const WINDOW: Duration = Duration::from_millis(500);
/// The long mean forgets with this time constant. It must not follow an outage before the limit has fallen.
const LONG: Duration = Duration::from_secs(60);
/// Latency may rise by this factor before the limit falls: the usual ratio between quiet and busy.
const TOLERANCE: f64 = 1.5;
/// A smaller rise counts as none, at any ratio: a burst at a near region goes from a fraction of a millisecond to many
/// without a fault.
const SLACK: Duration = Duration::from_millis(50);
/// A new limit counts for this much.
const SMOOTHING: f64 = 0.3;
/// A failed call is a sample this many times as long as the long mean.
const FAILURE: f64 = 4.0;

/// The learned limit, and the window that is being filled.
#[derive(Debug)]
pub(super) struct Gradient {
    limit: f64,
    floor: f64,
    ceiling: f64,
    /// The mean latency of the last minute or so, in seconds, and up to when.
    long: Option<(f64, Instant)>,
    began: Option<Instant>,
    sum: f64,
    samples: u32,
    /// The most calls at once in this window.
    busiest: u64,
}

impl Gradient {
    pub(super) fn new(floor: u64, start: u64, ceiling: u64) -> Self {
        let (floor, ceiling) = (real(floor.max(1)), real(ceiling.max(floor).max(1)));
        Self {
            limit: real(start).clamp(floor, ceiling),
            floor,
            ceiling,
            long: None,
            began: None,
            sum: 0.0,
            samples: 0,
            busiest: 0,
        }
    }

    /// The limit, in calls at once.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between a floor and a ceiling")]
    pub(super) const fn limit(&self) -> u64 {
        self.limit as u64
    }

    /// Takes the latency of a call, none where it failed, and how many were under way with it. True when the limit may have
    /// changed.
    pub(super) fn on_sample(&mut self, now: Instant, latency: Option<Duration>, in_flight: u64) -> bool {
        let long = self.long.map(|(mean, _)| mean);
        let Some(latency) = latency
            .map(|it| it.as_secs_f64())
            .or_else(|| long.map(|long| long * FAILURE + SLACK.as_secs_f64() * FAILURE))
        else {
            return false;
        };
        let began = *self.began.get_or_insert(now);
        self.sum += latency;
        self.samples += 1;
        self.busiest = self.busiest.max(in_flight);
        let whole = self.samples >= SAMPLES_MIN && now.saturating_duration_since(began) >= WINDOW;
        if whole {
            self.conclude(now);
        }
        whole
    }

    fn conclude(&mut self, now: Instant) {
        let short = self.sum / f64::from(self.samples);
        let (before, at) = self.long.unwrap_or((short, now));
        let keeps = libm::exp(-now.saturating_duration_since(at).as_secs_f64() / LONG.as_secs_f64());
        let long = before * keeps + short * (1.0 - keeps);
        self.long = Some((long, now));
        let usual = TOLERANCE * long + SLACK.as_secs_f64();
        let gradient = (usual / short.max(f64::MIN_POSITIVE)).clamp(0.5, 1.0);
        let wanted = self.limit * gradient + self.limit.sqrt();
        // A limit that calls do not reach has not been tried, so that nothing is known above it.
        if wanted < self.limit || real(self.busiest) * 2.0 >= self.limit {
            self.limit = (self.limit * (1.0 - SMOOTHING) + wanted * SMOOTHING).clamp(self.floor, self.ceiling);
        }
        (self.began, self.sum, self.samples, self.busiest) = (None, 0.0, 0, 0);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of calls is far below 2^53")]
const fn real(number: u64) -> f64 {
    number as f64
}
