//! `GET /v1/federation/regions`: the registry with its health.

use serde_json::{Value, json};

use super::state::summary;
use crate::proxy::Proxy;

/// Shape: the members of the RFC, and of each region `last_error`: why the last probe failed or requests opened the
/// breaker, its weight and tags, whether it is the local one, calls in flight and the next probe; `null` for unknown
/// values. `cut_off`: this sidecar is a spoke that does not hear its hub, and the region gets nothing that is routed. Spec: RFC-0001 §6.
pub(super) fn document(proxy: &Proxy) -> Vec<u8> {
    let shared = &proxy.shared;
    let view = shared.registry.view();
    let regions: Vec<Value> = view.indexes().map(|index| summary(shared, &view, index)).collect();
    json!({
        "federation_id": shared.config.federation_id,
        "topology": shared.config.topology.as_str(),
        "cut_off": view.is_cut_off(),
        "regions": regions,
    })
    .to_string()
    .into_bytes()
}
