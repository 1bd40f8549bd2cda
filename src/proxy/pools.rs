//! The pools of a thread: their bounds, and where they report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Proxy, Shared};
use crate::config::Config;
use crate::net::pool::{Pool, PoolLimits, PoolMeters};
use crate::policy::View;
use crate::region::{Region, ask_health};
use crate::telemetry::RegionMetrics;

/// Connections are renewed so long before they are too old: two looks at them, of which one may be late.
const WARM_FOR: Duration = Duration::from_secs(10);

/// An empty pool for a region.
pub(super) fn new_pool(shared: &Shared, region: &Region) -> Pool {
    Pool::new(pool_limits(&shared.config), pool_meters(shared.metrics.region(region.index.get())))
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

impl Proxy {
    /// Keeps one connection ready on this thread to the regions that a job most likely goes to, so that the first job after a silence needs
    /// no handshake. A health request keeps a connection from growing stale, at the region, too. A sidecar that has sent no job keeps none:
    /// every pod that only serves would hold connections at two regions.
    pub(super) fn keep_warm(&self, view: &View) {
        if !self.shared.traffic.has_sent() {
            return;
        }
        let until = Instant::now() + WARM_FOR;
        for index in view.kept_warm() {
            let (region, pool) = (Arc::clone(self.region(index)), self.pool(index).clone());
            if !pool.has_connection_until(region.connections_number(), until) {
                // What becomes of it is the probes' to judge.
                tokio::task::spawn_local(async move { drop(ask_health(&region, &pool, WARM_FOR).await) });
            }
        }
    }
}
