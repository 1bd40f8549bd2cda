//! A job that routing sends nowhere: its error document, and the decision for one that is planned all the same.

use crate::base::text::whole_seconds;
use crate::base::{RegionId, Strategy};
use crate::ojs::{Envelope, ErrorDocument};
use crate::policy::{Decision, RouteError, View};

/// The decision for a job that no region can take now.
#[cold]
pub(super) fn nowhere(envelope: &Envelope<'_>, error: &RouteError) -> Decision {
    let strategy = error.strategy().unwrap_or(Strategy::DEFAULT);
    let pinned = envelope.attributes().region.is_some();
    Decision {
        strategy,
        pinned,
        restricted: true,
        by_turn: false,
        home: None,
        candidates: std::iter::empty().collect(),
        drilled: None,
    }
}

/// The error document for a job that routing refused.
pub(crate) fn refusal(envelope: &Envelope<'_>, view: &View, error: &RouteError) -> ErrorDocument {
    refused(view, error, envelope.attributes().region.as_deref().unwrap_or_default())
}

/// The error document for a refusal of routing; `pin` is the region that the job names, in case there is none of that
/// name.
pub(crate) fn refused(view: &View, error: &RouteError, pin: &str) -> ErrorDocument {
    match error {
        RouteError::UnknownRegion { .. } => {
            ErrorDocument::unknown_region(pin, view.regions.iter().map(|region| region.id.as_str()))
        }
        RouteError::UnknownStrategy => ErrorDocument::unknown_strategy(),
        RouteError::Unclear { field } => ErrorDocument::unclear_member(field),
        RouteError::TenantsDiffer => ErrorDocument::tenants_differ(),
        RouteError::NoRegionWithTags => ErrorDocument::no_region_with_tags(),
        RouteError::PinWithoutRegion => ErrorDocument::pin_without_region(),
        RouteError::PinNotPermitted { region, .. } => ErrorDocument::pin_not_permitted(region.as_str()),
        RouteError::RegionUnavailable { region, retry_after, .. } if error.is_hub_lost() => {
            ErrorDocument::hub_lost(Some(region.as_str()), whole_seconds(*retry_after))
        }
        RouteError::NoHealthyRegion { retry_after, .. } if error.is_hub_lost() => {
            ErrorDocument::hub_lost(None, whole_seconds(*retry_after))
        }
        RouteError::RegionUnavailable { region, retry_after, .. } => {
            ErrorDocument::region_unavailable(region.as_str(), breaker_word(view, region), whole_seconds(*retry_after))
        }
        RouteError::NoHealthyRegion { retry_after, .. } => {
            ErrorDocument::no_healthy_region(whole_seconds(*retry_after))
        }
    }
}

pub(crate) fn breaker_word(view: &View, region: &RegionId) -> &'static str {
    view.index_of(region.as_str()).map_or("closed", |index| view.region(index).breaker.as_str())
}
