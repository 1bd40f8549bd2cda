//! The pool that the worker of a FETCH belongs to, and the FETCH without the queues that others have for themselves.
//!
//! Spec: fair-scheduling 6.

use std::time::Duration;

use bytes::Bytes;

use super::claim::LEASE;
use crate::ojs::ErrorDocument;
use crate::ojs::worker::FetchRequest;
use crate::policy::{Pool, PoolError};
use crate::proxy::{body::collect::hold, state::Proxy};

/// The pool of the worker, and the body for the queues that it may have jobs of, without the name of the pool; as it is where nothing is
/// to be taken out.
///
/// Errors: 409 `pool_mismatch` for another pool than that of the sidecar, 400 `pool_unknown` for one that there is not, 403 `pool_isolated` when no queue is
/// left, 400 for a call that servers could read in two ways, and 400 `pool_lease` for a longer lease than a pool of the fleet permits.
pub(super) fn of_pool(proxy: &Proxy, body: Bytes) -> Result<(Option<&Pool>, Bytes), ErrorDocument> {
    let pools = &proxy.shared.pools;
    let unclear = |fault| ErrorDocument::from_fault(&fault);
    let (pool, rest) = {
        let claims = FetchRequest::read(&body, proxy.shared.config.limits.json_depth).map_err(unclear)?;
        let own = claims.own_pool().map_err(unclear)?;
        let queues: Vec<&str> = claims.queues().collect();
        let pool = pools.of_worker(own.as_ref().map(|own| &*own.name), &queues).map_err(|error| match error {
            PoolError::Other(pool) => ErrorDocument::pool_mismatch(pool),
            PoolError::Unknown => ErrorDocument::unknown_pool(pools.names()),
        })?;
        let is_bounded = pool.is_some_and(|pool| pool.concurrency().is_some());
        if queues.is_empty() && (is_bounded || pools.isolates()) {
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
        let may_have = |queue: &str| pools.permit(pool, queue);
        let left = queues.iter().filter(|queue| may_have(queue)).count();
        if left == 0 && !queues.is_empty() {
            return Err(ErrorDocument::pool_isolated());
        }
        let is_whole = left == queues.len() && own.is_none();
        (pool, (!is_whole).then(|| claims.of_pool(&body, own.as_ref(), may_have).concat()))
    };
    Ok((pool, rest.map_or(body, |rest| hold(proxy, rest))))
}
