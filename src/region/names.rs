//! Keeping regions' addresses fresh: the control thread resolves, data threads dial from what it last learned.

use std::sync::Arc;
use std::time::Duration;

use super::Region;
use crate::base::Clock;
use crate::net::resolve::Resolve;
use crate::telemetry::{Metrics, event};

/// Names are asked for again this often; the system's resolver does not tell a record's own time to live.
const REFRESH: Duration = Duration::from_secs(30);
/// A name that has no answer yet is asked for again this soon.
const RETRY: Duration = Duration::from_secs(2);
/// A resolver that does not answer is given up after this long; the last good answer stays.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps a region's name resolved for ever, from the first answer on; returns at once for an address literal. `first` runs once,
/// when the first answer, or its failure, is there.
///
/// A name that stops resolving keeps its last good addresses: an outage of the name service must not become one of the
/// region.
pub async fn keep_resolved(
    region: Arc<Region>,
    resolver: Arc<dyn Resolve>,
    clock: Clock,
    metrics: Arc<Metrics>,
    first: impl FnOnce(),
) {
    if !region.has_name() {
        return first();
    }
    let mut wait = resolve(&region, resolver.as_ref(), &metrics).await;
    first();
    loop {
        clock.sleep(wait).await;
        wait = resolve(&region, resolver.as_ref(), &metrics).await;
    }
}

/// Resolves a region's name once; returns how long the answer is good for.
async fn resolve(region: &Region, resolver: &dyn Resolve, metrics: &Metrics) -> Duration {
    let asked = resolver.resolve(&region.config().url.host, region.config().url.port);
    if let Ok(Ok(addresses)) = tokio::time::timeout(TIMEOUT, asked).await
        && !addresses.is_empty()
    {
        region.set_addresses(addresses);
        return REFRESH;
    }
    let kept = !region.addresses().is_empty();
    event::dns_failed(metrics.region(region.index.get()), kept);
    if kept { REFRESH } else { RETRY }
}
