//! `GET /v1/federation/health`: the federation as a whole. Always 200: it reports, it is not asked whether it lives.

use serde_json::{Value, json};

use super::status::status;
use crate::base::RegionId;
use crate::policy::Health;
use crate::proxy::Proxy;

/// Shape: the members of the RFC, and `self_suspect`: all regions fail and so does our own network, so that the regions are shown as they were
/// before. `replication_lag_ms` is how far the index of this sidecar's hub is behind the region, 0 for the hub's own; `null` without a hub that keeps
/// one, or where that is not known: 0 would claim that nothing lags. Spec: RFC-0001 §6.
pub(super) fn document(proxy: &Proxy) -> Vec<u8> {
    let registry = &proxy.shared.registry;
    let (view, suspect) = (registry.view(), registry.is_suspect());
    let healthy = view.regions.iter().filter(|region| status(region) == Health::Healthy.as_str()).count();
    let total = view.regions.len();
    let word = match healthy {
        0 => "unhealthy",
        all if all == total => "healthy",
        _ => "degraded",
    };
    let now = registry.clock().now();
    let lag = |region: &RegionId| proxy.shared.lags.of(region, now);
    let regions: Vec<Value> = view
        .regions
        .iter()
        .map(|it| json!({ "id": it.id.as_str(), "status": status(it), "replication_lag_ms": lag(&it.id) }))
        .collect();
    json!({ "status": word, "healthy_regions": healthy, "total_regions": total, "self_suspect": suspect, "regions": regions })
        .to_string()
        .into_bytes()
}
