//! The pools of workers that operators have put at the hub.

use super::Link;
use crate::config::{PUT_POOLS_MAX, PutPool};
use crate::fleet::FeedPools;
use crate::telemetry::event;

impl Link {
    /// Takes an event, which names all pools. One that cannot be read changes nothing, and the switches of the feed go on.
    pub(super) fn take_pools(&self, data: &str) {
        match serde_json::from_str::<FeedPools<PutPool>>(data) {
            Ok(FeedPools { mut pools }) => {
                pools.truncate(PUT_POOLS_MAX);
                self.journal.set_put_pools(pools);
            }
            Err(error) => {
                event::hub_pools_refused(&format!("those in force stay: the event `pools` cannot be read: {error}"));
            }
        }
    }
}
