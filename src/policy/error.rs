//! Why a job is routed nowhere: all that the error document needs.

use std::time::Duration;

use super::refusal::Refusal;
use crate::base::{RegionId, Strategy};

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteError {
    /// 400: the job is pinned to a region that is not in the registry.
    UnknownRegion {
        /// The name, when it at least has the form of a region id; other text of a client is not repeated.
        region: Option<RegionId>,
    },
    /// 400: the job names a strategy that does not exist.
    UnknownStrategy,
    /// 400: the job asks to be pinned and does not say where.
    PinWithoutRegion,
    /// 400: a routing rule permits other regions only.
    PinNotPermitted {
        /// The region of the pin.
        region: RegionId,
        /// The regions that the rule permits.
        permitted: Vec<RegionId>,
    },
    /// 400: a rule that decides where jobs may go reads a member of this one that servers could read in another way.
    Unclear {
        /// The member, such as `queue` or `meta.tenant_id`; a meta key is the operator's.
        field: String,
    },
    /// 400: the tenant that the job names and the one that the call's head names differ.
    TenantsDiffer,
    /// 400: no region that the job may go to has the tags that it asks for.
    NoRegionWithTags,
    /// 503 `region_unavailable`: the only region the job may go to is not usable.
    RegionUnavailable {
        /// The region; where a pin names several, the one that is back first.
        region: RegionId,
        /// Why it is not usable.
        state: Refusal,
        /// When it may be usable again; at least one second.
        retry_after: Duration,
    },
    /// 503 `no_healthy_region`: no region is a candidate.
    NoHealthyRegion {
        /// The strategy that was asked for.
        strategy: Strategy,
        /// When the first may be usable again; at least one second.
        retry_after: Duration,
        /// Every region with its refusal.
        regions: Vec<(RegionId, Refusal)>,
    },
}

impl RouteError {
    /// The regions that could take the job as soon as a probe finds them well.
    pub fn awaits(&self) -> impl Iterator<Item = &RegionId> {
        let (one, several) = match self {
            Self::RegionUnavailable { region, state, .. } => (Some((region, *state)), &[][..]),
            Self::NoHealthyRegion { regions, .. } => (None, regions.as_slice()),
            Self::UnknownRegion { .. }
            | Self::UnknownStrategy
            | Self::PinWithoutRegion
            | Self::Unclear { .. }
            | Self::TenantsDiffer
            | Self::NoRegionWithTags
            | Self::PinNotPermitted { .. } => (None, &[][..]),
        };
        let all = one.into_iter().chain(several.iter().map(|(region, state)| (region, *state)));
        let unwell = |state| matches!(state, Refusal::Unhealthy | Refusal::BreakerOpen | Refusal::HalfOpen);
        all.filter(move |(_, state)| unwell(*state)).map(|(region, _)| region)
    }

    /// Whether the same job may be routed later, with nothing but the regions changed.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::RegionUnavailable { .. } | Self::NoHealthyRegion { .. })
    }

    /// Whether the job could go to another region if this sidecar heard its hub.
    #[must_use]
    pub fn is_hub_lost(&self) -> bool {
        match self {
            Self::RegionUnavailable { state, .. } => *state == Refusal::HubLost,
            Self::NoHealthyRegion { regions, .. } => regions.iter().any(|(_, state)| *state == Refusal::HubLost),
            Self::UnknownRegion { .. }
            | Self::UnknownStrategy
            | Self::PinWithoutRegion
            | Self::Unclear { .. }
            | Self::TenantsDiffer
            | Self::NoRegionWithTags
            | Self::PinNotPermitted { .. } => false,
        }
    }

    /// The strategy that found no region; `None` where the job's own attributes cannot be followed.
    #[must_use]
    pub const fn strategy(&self) -> Option<Strategy> {
        match self {
            Self::RegionUnavailable { .. } => Some(Strategy::PIN),
            Self::NoHealthyRegion { strategy, .. } => Some(*strategy),
            Self::UnknownRegion { .. }
            | Self::UnknownStrategy
            | Self::PinWithoutRegion
            | Self::Unclear { .. }
            | Self::TenantsDiffer
            | Self::NoRegionWithTags
            | Self::PinNotPermitted { .. } => None,
        }
    }
}
