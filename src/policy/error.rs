//! Why a job is routed nowhere: all that the error document needs.

use std::time::Duration;

use super::candidate::Refusal;
use crate::base::{RegionId, Strategy};

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// 400: the job is pinned to a region that is not in the registry.
    #[error("the region that the job is pinned to{} is not registered: use an id that GET /v1/federation/regions lists", named(region.as_ref()))]
    UnknownRegion {
        /// The name, when it at least has the form of a region id; other text of a client is not repeated.
        region: Option<RegionId>,
    },
    /// 400: the job names a strategy that does not exist.
    #[error("ojs.federation.region_affinity: {}", crate::base::UnknownStrategy)]
    UnknownStrategy,
    /// 400: the job asks to be pinned and does not say where.
    #[error("region_affinity geo-pin needs ojs.federation.region: set it to the region where the job must run")]
    PinWithoutRegion,
    /// 400: a routing rule permits other regions only.
    #[error(
        "a routing rule or the tenant does not permit jobs like this in {region}: pin it to one of {}",
        list(permitted)
    )]
    PinNotPermitted {
        /// The region of the pin.
        region: RegionId,
        /// The regions that the rule permits.
        permitted: Vec<RegionId>,
    },
    /// 400: a rule that decides where jobs may go reads a member of this one that servers could read in another way.
    #[error("`{field}` can be read in two ways, and a routing rule reads it: send it once, as text, with one value")]
    Unclear {
        /// The member, such as `queue` or `meta.tenant_id`; a meta key is the operator's.
        field: String,
    },
    /// 400: the tenant that the job names and the one that the call's head names differ.
    #[error("meta.tenant_id and the header X-OJS-Tenant name different tenants: send one of them, or the same in both")]
    TenantsDiffer,
    /// 400: no region that the job may go to has the tags that it asks for.
    #[error(
        "no region that the job may go to has all tags of ojs.federation.regions_with: ask for tags that GET /v1/federation/regions shows"
    )]
    NoRegionWithTags,
    /// 503 `region_unavailable`: the only region the job may go to is not usable.
    #[error(
        "the job is pinned to {region}, which is unavailable ({state}): try again later, it is never sent elsewhere"
    )]
    RegionUnavailable {
        /// The region; where a pin names several, the one that is back first.
        region: RegionId,
        /// Why it is not usable.
        state: Refusal,
        /// When it may be usable again; at least one second.
        retry_after: Duration,
    },
    /// 503 `no_healthy_region`: no region is a candidate.
    #[error("no region can take the job ({}): try again later", refusals(regions))]
    NoHealthyRegion {
        /// The strategy that was asked for.
        strategy: Strategy,
        /// When the first may be usable again; at least one second.
        retry_after: Duration,
        /// Every region with what rules it out.
        regions: Vec<(RegionId, Refusal)>,
    },
}

impl RouteError {
    /// Whether the same job may be accepted later: 503, as opposed to 400.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.retry_after().is_some()
    }

    /// When to try again, for `Retry-After`.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RegionUnavailable { retry_after, .. } | Self::NoHealthyRegion { retry_after, .. } => {
                Some(*retry_after)
            }
            Self::UnknownRegion { .. }
            | Self::UnknownStrategy
            | Self::PinWithoutRegion
            | Self::Unclear { .. }
            | Self::TenantsDiffer
            | Self::NoRegionWithTags
            | Self::PinNotPermitted { .. } => None,
        }
    }

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

    /// The strategy that found no region; `None` where the job's own attributes cannot be followed.
    #[must_use]
    pub const fn strategy(&self) -> Option<Strategy> {
        match self {
            Self::RegionUnavailable { .. } => Some(Strategy::GeoPin),
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

fn named(region: Option<&RegionId>) -> String {
    region.map(|id| format!(", {id},")).unwrap_or_default()
}

fn list(regions: &[RegionId]) -> String {
    regions.iter().map(RegionId::as_str).collect::<Vec<_>>().join(", ")
}

fn refusals(regions: &[(RegionId, Refusal)]) -> String {
    regions.iter().map(|(id, refusal)| format!("{id}: {refusal}")).collect::<Vec<_>>().join("; ")
}
