//! Regions that are sidecars themselves: a call carries the number of sidecars that it has passed, so that a call in a
//! circle ends.
//!
//! The count arrives in the client's headers and goes on, one higher, in every call that is made of this one. It is not
//! returned to clients.

use http::{HeaderMap, HeaderValue};

use super::header_flags::HeaderFlags;
use crate::net::headers::number;
use crate::ojs::header::FEDERATION_HOPS;
use crate::ojs::{ErrorDocument, hops};
use crate::proxy::state::Proxy;

/// Counts this sidecar among those that a call has passed.
///
/// A call that was forwarded before is a further one for the regions, so it is charged to the retry budget if that can pay. It is
/// not refused if it cannot: whether to send it was decided where it came from.
///
/// Errors: 400 for a count that cannot be read, 508 for one that has reached `limits.hops`.
pub(crate) fn count(proxy: &Proxy, noted: HeaderFlags, headers: &mut HeaderMap) -> Result<(), ErrorDocument> {
    let shared = &proxy.shared;
    let hops = if noted.has(HeaderFlags::HOPS) {
        hops::read(headers.get_all(FEDERATION_HOPS).iter().map(HeaderValue::as_bytes))
            .ok_or_else(ErrorDocument::hops_unreadable)?
    } else {
        0
    };
    if hops >= shared.config.limits.hops {
        return Err(ErrorDocument::too_many_hops(hops));
    }
    if hops > 0 {
        let _ = shared.budgets.overall().try_withdraw(shared.registry.clock().now());
    }
    headers.insert(FEDERATION_HOPS, number(u64::from(hops) + 1));
    Ok(())
}

/// The count with this sidecar in it, behind [`count`].
pub(crate) fn counted(headers: &HeaderMap) -> u16 {
    hops::read(headers.get(FEDERATION_HOPS).into_iter().map(HeaderValue::as_bytes)).unwrap_or_default()
}
