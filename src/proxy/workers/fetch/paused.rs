//! A FETCH without the queues that operators have paused.

use bytes::Bytes;

use crate::ojs::worker::FetchRequest;
use crate::policy::Pauses;
use crate::proxy::{body::collect::hold, state::Proxy};

/// The body of a FETCH for its other queues, or as it is where it names no paused one. `None` where nothing is left to ask for: all its
/// queues are paused, or it does not say which ones it means in a way that all servers read alike.
pub(super) fn without_paused(proxy: &Proxy, pauses: &Pauses, body: Bytes) -> Option<Bytes> {
    let rest = {
        let claims = FetchRequest::read(&body, proxy.shared.config.limits.json_depth).ok()?;
        let mut left = claims.queues().filter(|name| !pauses.has_queue(name));
        left.next()?;
        let is_whole = !claims.queues().any(|name| pauses.has_queue(name));
        (!is_whole).then(|| claims.with_queues(&body, |name| !pauses.has_queue(name)).concat())
    };
    Some(rest.map_or(body, |rest| hold(proxy, rest)))
}
