//! The feeds of a hub that has just begun wait until the hubs of other regions were heard: they may have isolated its region meanwhile.

use std::time::Duration;

use super::state::Hub;
use crate::telemetry::event;

/// How long a request for a feed is held; shorter than the sidecar's wait for its answer.
const HELD_MAX: Duration = Duration::from_secs(4);

/// Opens the feeds once every source was heard, or after `index.return_wait`. Never returns.
pub(super) async fn open_feeds(hub: &Hub) {
    if let Some(index) = &hub.index {
        let mut unheard = index.unheard.subscribe();
        let wait = index.settings.return_wait;
        let is_heard = tokio::select! {
            _ = unheard.wait_for(Vec::is_empty) => true,
            () = hub.clock.sleep(wait) => false,
        };
        if !is_heard && !wait.is_zero() {
            let left = unheard.borrow().iter().map(|region| region.as_str().to_owned()).collect::<Vec<_>>();
            event::hub_return_unheard(&left.join(", "), wait);
        }
    }
    hub.opened.send_replace(true);
    std::future::pending().await
}

/// Whether the feeds are open, after some time of waiting.
pub(super) async fn are_open(hub: &Hub) -> bool {
    let (mut opened, mut ending) = (hub.opened.subscribe(), hub.follow_ending());
    tokio::select! {
        _ = opened.wait_for(|is_open| *is_open) => true,
        _ = ending.changed() => false,
        () = tokio::time::sleep(HELD_MAX) => false,
    }
}
