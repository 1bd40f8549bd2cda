//! The stopped job types of the feed.

use super::super::breakers::{FeedBreakers, STOPPED_MAX};
use super::Link;
use crate::telemetry::event;

impl Link {
    /// Takes an event, which names all of them. One that cannot be read changes nothing, and the switches of the feed go on.
    pub(super) fn take_breakers(&self, data: &str) {
        match serde_json::from_str::<FeedBreakers>(data) {
            Ok(FeedBreakers { mut stopped }) => {
                stopped.truncate(STOPPED_MAX);
                self.breakers.set(stopped);
            }
            Err(error) => {
                event::breaker::hub_breakers_refused(&format!(
                    "those in force stay: the event `breakers` cannot be read: {error}"
                ));
            }
        }
    }
}
