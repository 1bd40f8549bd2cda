//! How many lines of one kind are written, so that a client in a loop or an outage does not fill the disk.
//!
//! The first lines of a kind are written at once, then a few a second; each has the number of suppressed lines before
//! it. The rest is written by [`Rations::left_over`] when no further line comes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::HeadRejection;
use crate::base::{Clock, RefusalReason};

/// Lines of one kind that are written at once: enough for a person to see a pattern.
const BURST: u64 = 10;
/// Between two lines of one kind after that: two a second, some 70 MB a day where everything fails all day.
const INTERVAL: Duration = Duration::from_millis(500);

/// The ration of one kind of line. Shared by threads without a lock.
#[derive(Debug)]
pub struct Ration {
    burst: u64,
    interval_ms: u64,
    /// Up to when the lines so far are paid for, as [`Rations::now_ms`] counts.
    paid_until_ms: AtomicU64,
    suppressed: AtomicU64,
}

impl Ration {
    /// So many lines at once, then one an interval.
    #[must_use]
    pub fn new(burst: u64, interval: Duration) -> Self {
        let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        Self { burst, interval_ms, paid_until_ms: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Whether a line may be written now: then with the number of lines like it that were not since the last one. Counts it if not.
    ///
    /// Units: milliseconds of a monotonic clock, from any moment on.
    pub fn take(&self, now_ms: u64) -> Option<u64> {
        let furthest = now_ms.saturating_add(self.burst.saturating_sub(1).saturating_mul(self.interval_ms));
        let pay = |paid: u64| (paid <= furthest).then(|| paid.max(now_ms).saturating_add(self.interval_ms));
        if self.paid_until_ms.fetch_update(Relaxed, Relaxed, pay).is_err() {
            self.suppressed.fetch_add(1, Relaxed);
            return None;
        }
        Some(self.suppressed.swap(0, Relaxed))
    }

    /// How many lines were not written, where a further one could be by now and none has come.
    pub fn left_over(&self, now_ms: u64) -> Option<u64> {
        let is_over = self.suppressed.load(Relaxed) > 0 && self.paid_until_ms.load(Relaxed) <= now_ms;
        let suppressed = if is_over { self.suppressed.swap(0, Relaxed) } else { 0 };
        (suppressed > 0).then_some(suppressed)
    }
}

/// A kind of line that is rationed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request that was answered with an error of ours.
    Refused(RefusalReason),
    /// A request that its region answered with a server error.
    ServerError,
    /// A request with an unknown outcome.
    Unknown,
    /// A request that went to another region, and went well there.
    Moved,
    /// Bytes that never became a request; without a reason, one connection too many.
    Head(Option<HeadRejection>),
}

impl Kind {
    /// Every kind, in the order of their rations.
    fn all() -> impl Iterator<Item = Self> {
        let heads = HeadRejection::ALL.iter().copied().map(Some).chain([None]).map(Self::Head);
        let refused = RefusalReason::ALL.iter().copied().map(Self::Refused);
        refused.chain(heads).chain([Self::ServerError, Self::Unknown, Self::Moved])
    }

    fn place(self) -> usize {
        let (refused, heads) = (RefusalReason::ALL.len(), HeadRejection::ALL.len() + 1);
        match self {
            Self::Refused(reason) => reason as usize,
            Self::Head(reason) => refused + reason.map_or(HeadRejection::ALL.len(), |reason| reason as usize),
            Self::ServerError => refused + heads,
            Self::Unknown => refused + heads + 1,
            Self::Moved => refused + heads + 2,
        }
    }

    /// The word for it in lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused(reason) => reason.as_str(),
            Self::Head(Some(reason)) => reason.as_str(),
            Self::Head(None) => "too_many_connections",
            Self::ServerError => "server_error",
            Self::Unknown => "outcome_unknown",
            Self::Moved => "failover",
        }
    }
}

/// The rations of all kinds; one for the process, kept over reloads.
#[derive(Debug)]
pub struct Rations {
    clock: Clock,
    since: Instant,
    rations: Box<[Ration]>,
}

impl Rations {
    /// Full rations, by this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let since = clock.now();
        Self { rations: Kind::all().map(|_| Ration::new(BURST, INTERVAL)).collect(), since, clock }
    }

    /// Milliseconds since the start, for [`Ration::take`].
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.about().saturating_duration_since(self.since).as_millis()).unwrap_or(u64::MAX)
    }

    /// As [`Ration::take`], for this kind.
    pub fn take(&self, kind: Kind) -> Option<u64> {
        self.rations.get(kind.place())?.take(self.now_ms())
    }

    /// Calls `tell` for every kind with suppressed lines and no line since, with their number.
    pub fn left_over(&self, mut tell: impl FnMut(Kind, u64)) {
        let now_ms = self.now_ms();
        for (kind, ration) in Kind::all().zip(&self.rations) {
            if let Some(suppressed) = ration.left_over(now_ms) {
                tell(kind, suppressed);
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use std::sync::Arc;

    use super::*;
    use crate::base::SteeredTime;

    const KIND: Kind = Kind::Refused(RefusalReason::RegionUnavailable);

    #[test]
    fn every_kind_has_a_ration_of_its_own() {
        let places: Vec<usize> = Kind::all().map(Kind::place).collect();
        assert_eq!(places, (0..places.len()).collect::<Vec<_>>());
    }

    #[test]
    fn a_flood_of_lines_is_a_burst_and_then_two_a_second_that_stand_for_all() {
        let time = SteeredTime::starting_at(0);
        let rations = Rations::new(Clock::new(Arc::new(Arc::clone(&time))));
        let (mut written, mut stood_for) = (0, 0);
        for _ in 0..10_000 {
            // A thousand a second, for ten seconds.
            time.advance(Duration::from_millis(1));
            if let Some(suppressed) = rations.take(KIND) {
                (written, stood_for) = (written + 1, stood_for + suppressed + 1);
            }
        }
        assert!((BURST + 18..=BURST + 20).contains(&written), "{written}");
        assert!(rations.take(Kind::Unknown).is_some(), "another kind is not concerned");
        let mut left = Vec::new();
        rations.left_over(|kind, count| left.push((kind, count)));
        assert_eq!(left, [], "more may come at once");
        time.advance(BURST as u32 * INTERVAL);
        rations.left_over(|kind, count| left.push((kind, count)));
        assert_eq!(left, [(KIND, 10_000 - stood_for)]);
        assert_eq!(rations.take(KIND), Some(0));
    }
}
