//! How far the index of this sidecar's hub is behind other regions, as the hub says it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::base::RegionId;

/// A hub says it every three seconds; after three missed times nothing is known.
const FRESH: Duration = Duration::from_secs(10);

/// The event of a feed. Shape: JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedLags {
    /// The region of the hub.
    pub region: String,
    /// How far its index is behind each region that it pulls from; none where nothing was heard of it yet. Units: milliseconds.
    pub behind_ms: BTreeMap<String, Option<u64>>,
}

/// The last event of the hub; shared by all threads.
#[derive(Debug, Default)]
pub struct Lags(Mutex<Option<(Instant, FeedLags)>>);

impl Lags {
    /// Takes an event.
    pub fn take(&self, event: FeedLags, now: Instant) {
        *self.0.lock() = Some((now, event));
    }

    /// How far the index is behind a region: 0 for the hub's own; none where nothing is replicated from it, or nothing is known. Units:
    /// milliseconds. Spec: RFC-0001 §6.
    #[must_use]
    pub fn of(&self, region: &RegionId, now: Instant) -> Option<u64> {
        let known = self.0.lock();
        let (at, event) = known.as_ref().filter(|(at, _)| now.saturating_duration_since(*at) < FRESH)?;
        if event.region == region.as_str() {
            return Some(0);
        }
        let behind = event.behind_ms.get(region.as_str()).copied().flatten()?;
        // A lag goes on while the hub does not say otherwise.
        let since = u64::try_from(now.saturating_duration_since(*at).as_millis()).unwrap_or(u64::MAX);
        Some(if behind == 0 { 0 } else { behind.saturating_add(since) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lag_of_a_region_is_what_the_hub_said_until_it_is_silent() {
        let (lags, now) = (Lags::default(), Instant::now());
        let of = |region: &str, at: Instant| lags.of(&RegionId::parse(region).unwrap(), at);
        assert_eq!(of("us", now), None);
        let behind_ms = [("eu", Some(0)), ("ap", Some(700)), ("sa", None)];
        let behind_ms = behind_ms.into_iter().map(|(region, ms)| (region.to_owned(), ms)).collect();
        lags.take(FeedLags { region: "us".to_owned(), behind_ms }, now);
        let later = now + Duration::from_secs(1);
        assert_eq!(["us", "eu", "ap", "sa", "af"].map(|it| of(it, later)), [Some(0), Some(0), Some(1_700), None, None]);
        assert_eq!(of("us", now + FRESH), None);
    }
}
