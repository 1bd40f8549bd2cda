//! Keeps the switches of the journal in force, and ends those whose time is over.

use std::sync::Arc;
use std::time::Duration;

use crate::proxy::Shared;
use crate::telemetry::event;

/// Without a switch there is nothing to wait for but a new one; the bound is no more than that of every wait.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// Puts the switches in force at each change, for ever.
pub(super) async fn keep_in_force(shared: Arc<Shared>) {
    let clock = shared.registry.clock().clone();
    loop {
        for ended in shared.journal.expire_switches() {
            event::switch_ended(ended.kind, &ended.subject, None);
        }
        shared.apply_switches();
        let wait = shared.journal.switches().first_end().map_or(WAIT_MAX, |end| end.since(shared.journal.now()));
        tokio::select! {
            () = shared.journal.switched() => {}
            // A moment is whole milliseconds: one more, so that the end is over by then.
            () = clock.sleep(wait.min(WAIT_MAX) + Duration::from_millis(1)) => {}
        }
    }
}
