//! How far the hub's views of a region stand for probes of our own.

use crate::config::{Config, HealthSource, RegionConfig};

/// The use of a hub's views of one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Nothing: this sidecar probes it.
    Never,
    /// As much as probes of our own, which begin when the views are too old.
    WhileFresh,
    /// All: a spoke sends no probe to another spoke. The last view stands until the next one comes.
    Alone,
}

impl Trust {
    /// By the topology, and by `health_check.source`.
    #[must_use]
    pub fn of(config: &Config, region: &RegionConfig) -> Self {
        match config.health_check.source {
            _ if config.is_other_spoke(region) => Self::Alone,
            HealthSource::Hub => Self::WhileFresh,
            HealthSource::Own => Self::Never,
        }
    }
}
