//! The documents of fleet limits: a sidecar asks for calls, and its hub grants them for a time.

use serde::{Deserialize, Serialize};

use super::status::is_name;
use crate::base::RegionId;

/// Regions in one request: as many as a configuration has limits at most.
pub const GRANT_REGIONS_MAX: usize = 256;
/// The longest request. Units: bytes.
pub const GRANTS_BYTES_MAX: usize = 64 * 1024;
/// A number of calls above this is a mistake.
const CALLS_MAX: u64 = 1_000_000_000;
/// The longest call, above which a region would be left without calls for hours. Units: milliseconds.
const LONGEST_CALL_MS_MAX: u64 = 60 * 60 * 1_000;

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
        let is_number = |number: u64| i64::try_from(number).is_ok();
        if !is_number(self.started_unix_ms) || !self.regions.iter().all(|it| is_number(it.sequence)) {
            return Some("`started_unix_ms` and `sequence`: expected numbers below 2^63");
        }
        if self.longest_call_ms > LONGEST_CALL_MS_MAX {
            return Some("`longest_call_ms`: expected an hour at most");
        }
        let is_count = |calls: u64| calls <= CALLS_MAX;
        if !self.regions.iter().all(|it| is_count(it.holds) && is_count(it.needs) && is_count(it.wants)) {
            return Some("`holds`, `needs` and `wants`: expected at most a thousand million calls");
        }
        None
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
        };
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
