//! The documents of fleet limits: a sidecar asks for calls, and its hub grants them for a time.

use serde::{Deserialize, Serialize};

use super::quota_tokens::{QuotaAnswer, QuotaTokens};
use super::status::is_name;
use crate::base::RegionId;

/// Regions in one request: as many as a configuration has limits at most.
pub const GRANT_REGIONS_MAX: usize = 256;
/// The longest request: that of a sidecar which spends later tokens of many quotas at once. Units: bytes.
pub const GRANTS_BYTES_MAX: usize = 128 * 1024;
/// A number of calls above this is a mistake.
const CALLS_MAX: u64 = 1_000_000_000;
/// The longest call, above which a region would be left without calls for hours. Units: milliseconds.
const LONGEST_CALL_MS_MAX: u64 = 60 * 60 * 1_000;
/// Pools in one request: as many as a configuration has at most.
pub const GRANT_POOLS_MAX: usize = 64;
/// The longest lease that a journal remembers. Units: milliseconds.
const LONGEST_LEASE_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// The request of a sidecar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantRequest {
    /// The name of the sidecar in the inventory.
    pub sidecar: String,
    /// When its process started: a grant is of one process. Units: milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// How long a call may go on that began just before the end of a grant. Units: milliseconds.
    pub longest_call_ms: u64,
    /// One for each limited region.
    pub regions: Vec<RegionCalls>,
    /// One for each pool of workers that the hub bounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolPlaces>,
    /// One for each quota that is to be asked for now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaTokens>,
}

/// The places of a sidecar in one pool of workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolPlaces {
    /// The name of the pool.
    pub pool: String,
    /// Rises with each request of the process for this pool.
    pub sequence: u64,
    /// The most jobs that workers hold at once from now on, until there is another grant.
    pub holds: u64,
    /// Those of `holds` that the hub has granted to this process. Other ones are jobs of an earlier process, or beyond a grant: they are counted until they end,
    /// and no job takes their place.
    pub granted: u64,
    /// The jobs at once that workers hold, or would.
    pub needs: u64,
    /// The jobs at once that it would like to have places for.
    pub wants: u64,
    /// How long a job may be leased that was fetched just before the end of a grant. Units: milliseconds.
    pub longest_lease_ms: u64,
    /// The jobs that workers hold now, of a quota, whose key is the name in `pool` then; none for a pool of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<u64>,
}

/// The calls of a sidecar to one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegionCalls {
    /// The region.
    pub region: RegionId,
    /// Rises with each request of the process for this region, so that one that comes late changes nothing.
    pub sequence: u64,
    /// The most calls at once from now on, until there is another grant.
    pub holds: u64,
    /// The calls at once that clients have wanted of late.
    pub needs: u64,
    /// The calls at once that it would like to have, with room for more to come.
    pub wants: u64,
}

/// The answer of a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantAnswer {
    /// One for each region of the request.
    pub regions: Vec<RegionGrant>,
    /// One for each pool of the request.
    #[serde(default)]
    pub pools: Vec<PoolAnswer>,
    /// One for each quota of the request.
    #[serde(default)]
    pub quotas: Vec<QuotaAnswer>,
}

/// The grant of one pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum PoolAnswer {
    /// Places for a time.
    Granted {
        /// The name of the pool.
        pool: String,
        /// The most jobs at once.
        places: u64,
        /// How long, from the sending of the request on. Units: milliseconds.
        lasts_ms: u64,
        /// When the sidecar is to ask again. Units: milliseconds.
        renew_ms: u64,
    },
    /// A later request of the same process came first.
    Late {
        /// The name of the pool.
        pool: String,
        /// The sequence of the later request.
        sequence: u64,
    },
    /// The hub has no bound for the pool.
    NoPool {
        /// The name of the pool.
        pool: String,
    },
    /// The hub cannot grant places of the pool now; the last grant holds until its time is over.
    Unavailable {
        /// The name of the pool.
        pool: String,
        /// Why, for the operator.
        cause: String,
    },
}

/// The grant of one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum RegionGrant {
    /// Calls for a time.
    Granted {
        /// The region.
        region: RegionId,
        /// The most calls at once.
        calls: u64,
        /// How long, from the sending of the request on. Units: milliseconds.
        lasts_ms: u64,
        /// When the sidecar is to ask again. Units: milliseconds.
        renew_ms: u64,
    },
    /// A later request of the same process came first.
    Late {
        /// The region.
        region: RegionId,
        /// The sequence of the later request.
        sequence: u64,
    },
    /// The hub has no limit for the region.
    NoLimit {
        /// The region.
        region: RegionId,
    },
    /// The hub cannot grant calls of the region now; the last grant holds until its time is over.
    Unavailable {
        /// The region.
        region: RegionId,
        /// Why, for the operator.
        cause: String,
    },
}

impl GrantRequest {
    /// The first member that is not right, and the expected form.
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        if !is_name(&self.sidecar) {
            return Some("`sidecar`: expected 1 to 128 bytes of visible ASCII");
        }
        if self.regions.len() > GRANT_REGIONS_MAX {
            return Some("`regions`: expected at most 256 of them");
        }
        if self.pools.len() > GRANT_POOLS_MAX {
            return Some("`pools`: expected at most 64 of them");
        }
        let is_number = |number: u64| i64::try_from(number).is_ok();
        let mut sequences = self.regions.iter().map(|it| it.sequence).chain(self.pools.iter().map(|it| it.sequence));
        if !is_number(self.started_unix_ms) || !sequences.all(is_number) {
            return Some("`started_unix_ms` and `sequence`: expected numbers below 2^63");
        }
        if self.longest_call_ms > LONGEST_CALL_MS_MAX {
            return Some("`longest_call_ms`: expected an hour at most");
        }
        if self.pools.iter().any(|it| it.longest_lease_ms > LONGEST_LEASE_MS_MAX) {
            return Some("`longest_lease_ms`: expected a day at most");
        }
        let of_regions = self.regions.iter().map(|it| [it.holds, it.needs, it.wants]);
        let of_pools =
            self.pools.iter().map(|it| [it.holds.max(it.granted).max(it.held.unwrap_or_default()), it.needs, it.wants]);
        if of_regions.chain(of_pools).flatten().any(|calls| calls > CALLS_MAX) {
            return Some("`holds`, `needs` and `wants`: expected at most a thousand million calls");
        }
        QuotaTokens::mistake(&self.quotas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_cannot_be_right_are_named_by_their_member() {
        let region = RegionCalls { region: RegionId::parse("a").unwrap(), sequence: 1, holds: 1, needs: 1, wants: 2 };
        let right = GrantRequest {
            sidecar: "pod".to_owned(),
            started_unix_ms: 1,
            longest_call_ms: 25_000,
            regions: vec![region.clone()],
            pools: Vec::new(),
            quotas: Vec::new(),
        };
        let pool = PoolPlaces {
            pool: "p".to_owned(),
            sequence: 1,
            holds: 1,
            granted: 1,
            needs: 1,
            wants: 1,
            longest_lease_ms: 60_000,
            held: None,
        };
        assert_eq!(GrantRequest { pools: vec![pool.clone()], ..right.clone() }.mistake(), None);
        for (wrong, member) in [
            (vec![pool.clone(); 65], "`pools`"),
            (vec![PoolPlaces { sequence: u64::MAX, ..pool.clone() }], "`started_unix_ms` and `sequence`"),
            (vec![PoolPlaces { longest_lease_ms: u64::MAX, ..pool.clone() }], "`longest_lease_ms`"),
            (vec![PoolPlaces { holds: u64::MAX, ..pool }], "`holds`"),
        ] {
            let mistake = GrantRequest { pools: wrong, ..right.clone() }.mistake();
            assert!(mistake.is_some_and(|mistake| mistake.starts_with(member)), "{member}: {mistake:?}");
        }
        assert_eq!(right.mistake(), None);
        for (wrong, member) in [
            (GrantRequest { sidecar: "a b".to_owned(), ..right.clone() }, "`sidecar`"),
            (GrantRequest { started_unix_ms: u64::MAX, ..right.clone() }, "`started_unix_ms` and `sequence`"),
            (GrantRequest { longest_call_ms: u64::MAX, ..right.clone() }, "`longest_call_ms`"),
            (GrantRequest { regions: vec![region.clone(); 257], ..right.clone() }, "`regions`"),
            (GrantRequest { regions: vec![RegionCalls { wants: u64::MAX, ..region }], ..right }, "`holds`"),
        ] {
            assert!(wrong.mistake().is_some_and(|mistake| mistake.starts_with(member)), "{member}");
        }
    }
}
