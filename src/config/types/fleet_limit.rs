//! The limits of the fleet that this sidecar keeps to.

use crate::base::RegionId;

/// A region whose calls the hub limits for all sidecars together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetLimit {
    /// A registered region, named by one limit only.
    pub region: RegionId,
    /// The fate of its calls while the hub is away.
    pub on_hub_loss: LimitWithoutHub,
    /// The calls at once of this sidecar without a grant, for [`LimitWithoutHub::Local`] only. At least 1.
    pub local_calls: Option<u64>,
}

impl FleetLimit {
    /// The calls at once without a grant.
    #[must_use]
    pub fn calls_without_grant(&self) -> u64 {
        self.local_calls.unwrap_or(0)
    }
}

/// The fate of the calls to a region with a fleet limit while the hub is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitWithoutHub {
    /// The last grant holds until its time is over; then there are no calls.
    Hold,
    /// The last grant holds until its time is over; then a configured number of calls.
    Local,
    /// No calls, as soon as no hub can be reached.
    Refuse,
}
