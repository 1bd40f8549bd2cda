//! The pool that the worker of a FETCH belongs to, and the FETCH without the queues that others have for themselves.
//!
//! Spec: fair-scheduling 6.

use std::time::Duration;

use super::claim::LEASE;
use crate::ojs::worker::FetchRequest;
use crate::ojs::{ErrorDocument, Fault};
use crate::policy::{Pool, PoolError};
use crate::proxy::state::Proxy;

/// The pool of the worker. Leaves the name of the pool and the queues that the worker may not have jobs of out of the call.
///
/// Errors: 409 `pool_mismatch` for another pool than that of the sidecar, 400 `pool_unknown` for one that there is not, 403 `pool_isolated` when no queue is
/// left, 400 for a call that servers could read in two ways, and 400 `pool_lease` for a longer lease than a pool of the fleet permits.
pub(super) fn of_pool<'p>(
    proxy: &'p Proxy,
    claims: Result<&mut FetchRequest<'_>, &Fault>,
) -> Result<Option<&'p Pool>, ErrorDocument> {
    let pools = &proxy.shared.pools;
    let claims = claims.map_err(ErrorDocument::from_fault)?;
    let own = claims.own_pool().map_err(|fault| ErrorDocument::from_fault(&fault))?;
    let names_none = claims.queues().len() == 0;
    let pool = pools.of_worker(own.as_ref().map(|own| &*own.name), claims.queues()).map_err(|error| match error {
        PoolError::Other(pool) => ErrorDocument::pool_mismatch(pool),
        PoolError::Unknown => ErrorDocument::unknown_pool(pools.names()),
    })?;
    let is_bounded = pool.is_some_and(|pool| pool.concurrency().is_some());
    if names_none && (is_bounded || pools.isolates()) {
        return Err(ErrorDocument::pool_unclear("queues"));
    }
    if is_bounded && claims.count().is_none() {
        return Err(ErrorDocument::pool_unclear("count"));
    }
    if let Some(longest) = pool.and_then(Pool::longest_lease) {
        // A server reads 0 and nothing alike.
        let asked = claims.visibility_ms().filter(|ms| *ms > 0).map_or(LEASE, Duration::from_millis);
        if asked > longest || claims.has_odd_visibility() {
            return Err(ErrorDocument::pool_lease(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX)));
        }
    }
    if pools.isolates() {
        claims.keep_queues(|queue| pools.permit(pool, queue));
        if claims.queues().len() == 0 {
            return Err(ErrorDocument::pool_isolated());
        }
    }
    if let Some(own) = own {
        claims.leave_out_pool(&own);
    }
    Ok(pool)
}
