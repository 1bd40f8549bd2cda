//! A FETCH without the queues that operators have paused.

use crate::ojs::worker::FetchRequest;
use crate::policy::Pauses;

/// Leaves the paused queues out of a FETCH. Returns whether something is left to ask for: it names another queue, in a way that all servers
/// read alike.
pub(super) fn leave_out_paused<E>(pauses: &Pauses, claims: Result<&mut FetchRequest<'_>, E>) -> bool {
    claims.is_ok_and(|claims| {
        claims.keep_queues(|name| !pauses.has_queue(name));
        claims.queues().next().is_some()
    })
}
