//! Waits until the record can be searched for conflicts, and builds its index. A hub with millions of facts does all else meanwhile.

use std::time::Duration;

use super::super::follow::Failures;
use super::super::state::Hub;
use crate::telemetry::event;

/// Between two looks at an index that another hub builds.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Before a build that has failed is tried again: it reads all facts.
const AGAIN_AFTER: Duration = Duration::from_secs(60);

/// Returns once the record can be searched. `name`: this hub, among those that take turns with the conflicts.
pub(super) async fn prepare(hub: &Hub, name: &str, failures: &mut Failures) {
    let mut was_said = false;
    loop {
        // Boxed, because it can make connections, which need much room.
        let ready = Box::pin(hub.record.is_searchable()).await;
        failures.note(&ready);
        match ready {
            Ok(true) => break,
            Ok(false) if !was_said => event::hub_search_waits(),
            _ => {}
        }
        was_said |= ready.is_ok();
        if ready.is_ok() {
            let made = Box::pin(hub.record.make_searchable(name)).await;
            failures.note(&made);
            if matches!(made, Ok(true)) {
                break;
            }
            hub.clock.sleep(if made.is_ok() { LOOK_EVERY } else { AGAIN_AFTER }).await;
        } else {
            hub.clock.sleep(LOOK_EVERY).await;
        }
    }
    if was_said {
        event::hub_search_begins();
    }
}
