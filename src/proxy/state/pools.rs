//! The pools of a thread: their bounds, and where they report.

use crate::config::Config;
use crate::net::pool::{Pool, PoolLimits, PoolMeters};
use crate::region::Region;
use crate::telemetry::{Metrics, RegionMetrics};

/// An empty pool for a region.
pub(crate) fn new_pool(config: &Config, metrics: &Metrics, region: &Region) -> Pool {
    Pool::new(pool_limits(config), pool_meters(metrics.region(region.index.get())))
}

/// The bounds of a pool, from the configuration.
#[must_use]
pub const fn pool_limits(config: &Config) -> PoolLimits {
    let limits = &config.limits;
    PoolLimits {
        idle_max: limits.pool_idle_per_region,
        idle_timeout: limits.pool_idle_timeout,
        lifetime: limits.connection_lifetime,
        head_bytes: limits.head_bytes,
        headers: limits.headers,
    }
}

/// Where a pool of a region reports.
#[must_use]
pub fn pool_meters(region: &RegionMetrics) -> PoolMeters {
    use crate::telemetry::{CertificateKind, ConnectResult as Connect, PoolState};
    PoolMeters {
        idle: region.pool_connections[PoolState::Idle].clone(),
        busy: region.pool_connections[PoolState::Busy].clone(),
        established: region.connections[Connect::Established].clone(),
        dns: region.connections[Connect::Dns].clone(),
        refused: region.connections[Connect::Refused].clone(),
        tls: region.connections[Connect::Tls].clone(),
        timeout: region.connections[Connect::Timeout].clone(),
        server_expiry: region.certificate_expiry[CertificateKind::Server].clone(),
    }
}
