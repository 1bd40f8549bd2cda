//! How calls that concern several regions are served, and the switches for clients.

use super::super::raw::RawCompat;
use super::super::types::Compat;

pub(super) const fn compat(raw: &RawCompat) -> Compat {
    Compat {
        json_content_type: raw.json_content_type,
        client_replicated_from: raw.client_replicated_from,
        unknown_federation_keys: raw.unknown_federation_keys,
        heartbeat_ids: raw.heartbeat_ids,
        directive: raw.directive,
        retry_after: raw.retry_after,
        event_stream: raw.event_stream,
    }
}
