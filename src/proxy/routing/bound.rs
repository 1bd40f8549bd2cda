//! Whether the jobs of a call may go to one region.

use super::plan::{refusal, with_job};
use crate::base::{Needs, Strategy};
use crate::ojs::{ErrorDocument, Found, RoutingKey, RoutingKind};
use crate::policy::{RegionIndex, View, has_tags, means_local, permits};

/// Whether a region is all that these keys ask for.
///
/// Errors: 422 where it is not, 400 for a strategy that does not exist.
pub(crate) fn check_keys(view: &View, index: RegionIndex, keys: &[RoutingKey<'_>]) -> Result<(), ErrorDocument> {
    let region = view.region(index).id.as_str();
    for key in keys {
        let value = key.value.as_deref();
        let satisfied = match key.kind {
            RoutingKind::Region => value == Some(region),
            RoutingKind::Tags => value.is_some_and(|tags| has_tags(view, tags, index)),
            RoutingKind::Affinity => match value.map(Strategy::parse) {
                // With a pin to the region beside it, geo-pin asks for nothing more.
                Some(Ok(strategy)) => strategy.needs() == Needs::Region || means_local(strategy),
                Some(Err(_)) | None => return Err(ErrorDocument::unknown_strategy()),
            },
        };
        if !satisfied {
            return Err(ErrorDocument::bound_elsewhere(region));
        }
    }
    Ok(())
}

/// Whether every job within may go to a region, by its own keys and by the operator's rules and tenants.
pub(crate) fn check_routing(view: &View, index: RegionIndex, found: &Found<'_>) -> Result<(), ErrorDocument> {
    check_keys(view, index, &found.routing)?;
    for envelope in &found.envelopes {
        let permitted = with_job(envelope, |job| permits(view, job, index));
        if !permitted.map_err(|error| refusal(envelope, view, &error))? {
            return Err(ErrorDocument::bound_elsewhere(view.region(index).id.as_str()));
        }
    }
    Ok(())
}
