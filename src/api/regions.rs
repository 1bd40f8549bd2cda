//! `GET /v1/federation/regions`: the registry with its health.

use serde_json::{Value, json};

use super::status;
use crate::base::text::rfc3339;
use crate::policy::RegionView;
use crate::proxy::Proxy;
use crate::region::{Region, Trouble};

/// Shape: the members of the RFC, and `last_error`: why the last probe failed, `null` where it did not; latency in whole milliseconds, `null` what is not known yet. Spec: RFC-0001 §6.
pub(super) fn document(proxy: &Proxy) -> Vec<u8> {
    let shared = &proxy.shared;
    let view = shared.registry.view();
    let regions: Vec<Value> =
        view.regions.iter().zip(shared.registry.regions()).map(|(state, known)| region(state, known)).collect();
    json!({ "federation_id": shared.config.federation_id, "regions": regions }).to_string().into_bytes()
}

fn region(state: &RegionView, region: &Region) -> Value {
    let config = region.config();
    json!({
        "id": config.id.as_str(),
        "url": config.url.text,
        "status": status(state),
        "latency_ms": state.latency.map(|latency| u64::try_from(latency.as_millis()).unwrap_or(u64::MAX)),
        "circuit_breaker": state.breaker.as_str(),
        "last_health_check": state.last_probe_unix_ms.map(rfc3339),
        "last_error": region.trouble().as_deref().map(trouble),
    })
}

fn trouble(it: &Trouble) -> Value {
    json!({
        "reason": it.reason,
        "message": it.message,
        "status": it.status,
        "address": it.address,
        "at": rfc3339(it.unix_ms),
    })
}
