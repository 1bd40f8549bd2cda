//! Connections that are made before a job needs them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::shared::Proxy;
use crate::policy::View;
use crate::region::ask_health;

/// Connections are renewed so long before they are too old: two looks at them, of which one may be late.
const WARM_FOR: Duration = Duration::from_secs(10);

impl Proxy {
    /// Keeps one connection ready on this thread to the regions that a job most likely goes to, so that the first job after a silence needs
    /// no handshake. A health request keeps a connection from growing stale, at the region, too. A sidecar that has sent no job keeps none:
    /// every pod that only serves would hold connections at two regions. A spoke asks no other spoke for its health.
    pub(crate) fn keep_warm(&self, view: &View) {
        if !self.shared.traffic.has_sent() {
            return;
        }
        let until = Instant::now() + WARM_FOR;
        for index in view.kept_warm() {
            let (region, pool) = (Arc::clone(self.region(index)), self.pool(index).clone());
            if self.shared.config.is_other_spoke(region.config()) {
                continue;
            }
            if !pool.has_connection_until(region.connections_number(), until) {
                // Its answer changes no health: the probes decide that.
                tokio::task::spawn_local(async move { drop(ask_health(&region, &pool, WARM_FOR).await) });
            }
        }
    }
}
