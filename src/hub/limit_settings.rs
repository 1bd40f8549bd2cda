//! The settings of fleet limits.

use std::collections::HashSet;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::base::RegionId;
use crate::base::text::parse_duration;
use crate::fleet::GRANT_REGIONS_MAX;

/// Calls at once above this are no limit.
const CALLS_MAX: u64 = 1_000_000;
/// A sidecar needs some renewals within the time of a grant.
const TTL_MIN: Duration = Duration::from_secs(5);
/// A killed sidecar keeps its calls from others for so long.
const TTL_MAX: Duration = Duration::from_secs(60 * 60);

/// The limit of one region over all sidecars.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSettings {
    /// The region.
    pub region: RegionId,
    /// The calls at once of all sidecars together.
    pub calls: u64,
    /// How long a grant lasts without the hub.
    #[serde(default)]
    pub(super) ttl: Ttl,
}

/// How long a grant lasts; a minute when the file does not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ttl(pub(super) Duration);

impl Default for Ttl {
    fn default() -> Self {
        Self(Duration::from_secs(60))
    }
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Self).map_err(|_| D::Error::custom("expected a duration, such as 60s"))
    }
}

impl LimitSettings {
    /// Units: milliseconds.
    pub(super) fn ttl_ms(&self) -> u64 {
        u64::try_from(self.ttl.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// The mistakes in a list of limits, each beginning with its key. `is_durable`: whether the record outlives the process.
    pub(super) fn mistakes(all: &[Self], is_durable: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        if !all.is_empty() && !is_durable {
            wrong.push(
                "limits: a hub without `record.path` or `record.postgres` forgets its grants at a restart: set one"
                    .to_owned(),
            );
        }
        if all.len() > GRANT_REGIONS_MAX {
            wrong.push(format!("limits: expected at most {GRANT_REGIONS_MAX} of them"));
        }
        let mut seen = HashSet::new();
        for (place, it) in all.iter().enumerate() {
            if !seen.insert(&it.region) {
                wrong.push(format!("limits[{place}].region: the region has a limit already"));
            }
            if !(1..=CALLS_MAX).contains(&it.calls) {
                wrong.push(format!("limits[{place}].calls: expected 1 to {CALLS_MAX}"));
            }
            if !(TTL_MIN..=TTL_MAX).contains(&it.ttl.0) {
                wrong.push(format!("limits[{place}].ttl: expected 5s to 1h"));
            }
        }
        wrong
    }
}
