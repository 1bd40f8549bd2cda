//! The settings of fleet limits, and of pools of workers over the fleet.

use std::collections::HashSet;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::base::RegionId;
use crate::base::text::parse_duration;
use crate::fleet::{GRANT_POOLS_MAX, GRANT_REGIONS_MAX};

/// Calls at once above this are no limit.
const CALLS_MAX: u64 = 1_000_000;
/// As long as a name in the configuration of a sidecar. Units: bytes.
const NAME_BYTES_MAX: usize = 256;
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

/// A pool of workers over all sidecars.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// The name of the pool in the configurations of sidecars.
    pub name: String,
    /// The jobs that workers of all sidecars hold together.
    pub concurrency: u64,
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

impl Ttl {
    /// The mistake in one, which begins with its key.
    fn mistake(self, path: &str) -> Option<String> {
        (!(TTL_MIN..=TTL_MAX).contains(&self.0)).then(|| format!("{path}.ttl: expected 5s to 1h"))
    }
}

/// That a record which forgets its grants cannot keep to these.
fn needs_record(key: &str) -> String {
    format!("{key}: a hub without `record.path` or `record.postgres` forgets its grants at a restart: set one")
}

impl PoolSettings {
    /// The mistakes in a list of pools, each beginning with its key. `is_durable`: whether the record outlives the process.
    pub(super) fn mistakes(all: &[Self], is_durable: bool) -> Vec<String> {
        let mut wrong: Vec<String> =
            (!all.is_empty() && !is_durable).then(|| needs_record("pools")).into_iter().collect();
        if all.len() > GRANT_POOLS_MAX {
            wrong.push(format!("pools: expected at most {GRANT_POOLS_MAX} of them"));
        }
        let mut seen = HashSet::new();
        for (place, it) in all.iter().enumerate() {
            let path = format!("pools[{place}]");
            if !(1..=NAME_BYTES_MAX).contains(&it.name.len()) {
                wrong.push(format!("{path}.name: expected 1 to {NAME_BYTES_MAX} bytes"));
            }
            if !seen.insert(&it.name) {
                wrong.push(format!("{path}.name: the name is that of another pool"));
            }
            if !(1..=CALLS_MAX).contains(&it.concurrency) {
                wrong.push(format!("{path}.concurrency: expected 1 to {CALLS_MAX}"));
            }
            wrong.extend(it.ttl.mistake(&path));
        }
        wrong
    }
}

impl LimitSettings {
    /// The mistakes in a list of limits, each beginning with its key. `is_durable`: whether the record outlives the process.
    pub(super) fn mistakes(all: &[Self], is_durable: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        if !all.is_empty() && !is_durable {
            wrong.push(needs_record("limits"));
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
            wrong.extend(it.ttl.mistake(&format!("limits[{place}]")));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_pools_name_their_key() {
        let pool = |name: &str, concurrency, seconds| PoolSettings {
            name: name.to_owned(),
            concurrency,
            ttl: Ttl(Duration::from_secs(seconds)),
        };
        let mistakes = |pools: &[PoolSettings]| PoolSettings::mistakes(pools, true);
        assert_eq!(mistakes(&[pool("a b", 20, 60), pool("b", 1, 5)]), [""; 0]);
        for (wrong, words) in [
            (vec![pool("", 1, 60)], "pools[0].name: expected 1 to 256 bytes"),
            (vec![pool("a", 1, 60), pool("a", 2, 60)], "pools[1].name: the name is that of another pool"),
            (vec![pool("a", 0, 60)], "pools[0].concurrency: expected 1 to 1000000"),
            (vec![pool("a", 1, 4)], "pools[0].ttl: expected 5s to 1h"),
        ] {
            assert_eq!(mistakes(&wrong), [words]);
        }
        let forgets = PoolSettings::mistakes(&[pool("a", 1, 60)], false);
        assert!(forgets[0].starts_with("pools: a hub without `record.path`"), "{forgets:?}");
        let many: Vec<_> = (0..=GRANT_POOLS_MAX).map(|number| pool(&number.to_string(), 1, 60)).collect();
        assert_eq!(mistakes(&many), ["pools: expected at most 64 of them"]);
    }
}
