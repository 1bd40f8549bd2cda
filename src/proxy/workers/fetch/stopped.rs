//! A FETCH without the queues of job types that breakers have stopped, and one for a single job of such a queue.

use bytes::Bytes;

use crate::ojs::worker::FetchRequest;
use crate::proxy::state::Proxy;
use crate::region::FetchProbe;

/// The body of a call for one job of a stopped queue of a FETCH, where this sidecar has the permission; it is given back with the probe, unless a
/// job has come.
pub(super) fn for_one_job(
    proxy: &Proxy,
    claims: Option<&FetchRequest<'_>>,
    body: &Bytes,
) -> Option<(FetchProbe, Bytes)> {
    let now_ms = proxy.shared.registry.clock().unix_ms();
    let claims = claims?;
    let probe = proxy.shared.breakers.take_for_fetch(claims.queues(), now_ms)?;
    let pieces = claims.part(body, 1, |queue| queue == probe.queue());
    let one: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
    Some((probe, one.into()))
}

/// Leaves the queues of stopped types out of a FETCH. Returns whether something is left to ask for, as for paused queues.
pub(super) fn leave_out_stopped<E>(proxy: &Proxy, claims: Result<&mut FetchRequest<'_>, E>) -> bool {
    let (breakers, now_ms) = (&proxy.shared.breakers, proxy.shared.registry.clock().unix_ms());
    claims.is_ok_and(|claims| {
        claims.keep_queues(|name| !breakers.holds_queue(name, now_ms));
        claims.queues().next().is_some()
    })
}
