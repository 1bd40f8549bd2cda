//! The health of a region as the API shows it.

use crate::policy::{BreakerState, Health, RegionView};

/// The word for a region: `healthy` only if its probes say so and its breaker lets traffic through.
pub(crate) const fn status(region: &RegionView) -> &'static str {
    match (region.breaker, region.health) {
        (BreakerState::Closed, health) => health.as_str(),
        (BreakerState::Open | BreakerState::HalfOpen, _) => Health::Unhealthy.as_str(),
    }
}
