//! Figures of the discovery of regions.

use std::sync::{Arc, LazyLock};

use super::families::{Counter, Families, IntGauge};
use super::family;
use super::label::{Cells, DiscoveryChange, DiscoveryLook, DiscoveryRejection, DiscoverySource, DiscoveryState};

/// The figures, with no series before the first use: a process that discovers nothing has none of them.
pub type LazyDiscovery = Arc<LazyLock<Discovery, Box<dyn FnOnce() -> Discovery + Send + Sync>>>;

/// Figures of the discovery of regions; changed by [`crate::telemetry::event`] and by the loop of the discovery.
#[derive(Debug, Clone)]
pub struct Discovery {
    /// The regions that are known.
    pub regions: Cells<DiscoveryState, IntGauge>,
    /// Changes that are in force.
    pub changes: Cells<DiscoveryChange, Counter>,
    /// Regions that were turned away.
    pub rejected: Cells<DiscoveryRejection, Counter>,
    /// Looks at the sources.
    pub looks: Cells<DiscoverySource, Cells<DiscoveryLook, Counter>>,
    /// When a source last named a region. Units: seconds since the Unix epoch.
    pub good_look: Cells<DiscoverySource, IntGauge>,
}

impl Discovery {
    pub(super) fn of(families: &Families) -> LazyDiscovery {
        let regions = families.int_gauges(&family::DISCOVERY_REGIONS);
        let changes = families.counters(&family::DISCOVERY_CHANGES);
        let rejected = families.counters(&family::DISCOVERY_REJECTED);
        let looks = families.counters(&family::DISCOVERY_LOOKS);
        let good = families.int_gauges(&family::DISCOVERY_GOOD_LOOK);
        let make = move || Self {
            regions: Cells::each(DiscoveryState::ALL, |state| regions.with_label_values(&[state.as_str()])),
            changes: Cells::each(DiscoveryChange::ALL, |change| changes.with_label_values(&[change.as_str()])),
            rejected: Cells::each(DiscoveryRejection::ALL, |reason| rejected.with_label_values(&[reason.as_str()])),
            looks: Cells::each(DiscoverySource::ALL, |source| {
                Cells::each(DiscoveryLook::ALL, |result| looks.with_label_values(&[source.as_str(), result.as_str()]))
            }),
            good_look: Cells::each(DiscoverySource::ALL, |source| good.with_label_values(&[source.as_str()])),
        };
        Arc::new(LazyLock::new(Box::new(make)))
    }
}
