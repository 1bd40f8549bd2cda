//! Carrying out the decisions of the machine in `outcome` within a call: asking, sending again, fencing, recording.

mod fence;
mod fresh;
mod identity;
mod inquiry;
pub(crate) mod job;
mod key_claim;
mod key_end;
mod known;
mod lost;
pub(crate) mod send_history;
mod sent;

pub(crate) use fence::fence_due;
pub(crate) use identity::trust_of_ourselves;
pub(super) use identity::{Names, identity, key_of, of_tenant, tenant_of, trust};
pub(super) use inquiry::Heard;
pub(super) use key_claim::Owned;
pub(super) use known::{Caller, Known, Looked, Planned, Purpose, RETRY_AFTER, keep_from_fences};
pub(super) use lost::{Followed, after_lost, answer_until, kept_of};
pub(super) use sent::{believe, ended, sending, tried};

use crate::config::{Config, DuplicateIds};
use crate::outcome::{Identity, Place, Rules, Trust};
use crate::policy::RegionIndex;
use crate::proxy::state::Shared;

/// How long regions may take, by the configuration.
pub(crate) const fn rules(config: &Config) -> Rules {
    Rules { grace: config.failover.late_write_grace, lag: config.failover.read_lag }
}

/// Whether a tombstone of ours in a place keeps the job out: its region refuses or returns a taken id, for every
/// caller.
pub(crate) fn is_fenceable(shared: &Shared, identity: &Identity, place: &Place) -> bool {
    is_guarded_place(shared, place) && trust_of_ourselves(shared, identity, &place.region) == Trust::Believed
}

/// Whether the region of a place refuses, or returns, an id that it has.
pub(crate) fn is_guarded_place(shared: &Shared, place: &Place) -> bool {
    let index = shared.registry.view().index_of(place.region.as_str());
    index.is_some_and(|index| is_guarded(shared.duplicate_ids(index)))
}

/// Whether a region refuses, or returns, an id that it has, so that it may have tombstones.
pub(crate) fn is_guarded_region(shared: &Shared, index: RegionIndex) -> bool {
    is_guarded(shared.duplicate_ids(index))
}

/// Whether a region refuses, or returns, a taken id: a job that is sent twice there is stored once.
const fn is_guarded(ids: DuplicateIds) -> bool {
    matches!(ids, DuplicateIds::Refuse | DuplicateIds::Same)
}
