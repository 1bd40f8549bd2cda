//! The state of the connection, as logs, metrics and notes show it.

use super::Link;
use crate::telemetry::event;

impl Link {
    /// The loss of the feed is logged, and for each replica each new cause for which its feed cannot be opened.
    pub(super) fn lost(&self, error: &str) {
        let was_connected = self.metrics.hub_connected.get() == 1;
        self.metrics.hub_connected.set(0);
        self.end_drill("hub_lost");
        if let Some(views) = &self.views {
            views.lost();
        }
        (self.on_state)(Some(&format!("not connected, and what it has set stays in force until it ends: {error}")));
        let url = &self.url().text;
        let before = self.causes.borrow_mut().insert(url.clone(), error.to_owned());
        if was_connected {
            event::hub_lost(url, error);
        } else if before.as_deref() != Some(error) {
            event::hub_not_opened(url, error);
        }
    }

    /// The feed is open.
    pub(super) fn connected(&self) {
        let was_connected = self.metrics.hub_connected.get() == 1;
        self.metrics.hub_connected.set(1);
        self.causes.borrow_mut().remove(&self.url().text);
        if !was_connected {
            event::hub_connected(&self.url().text);
        }
    }

    /// Counts the switches that were left out, and logs them where they are others than before.
    pub(super) fn left_out(&self, unknown: Vec<String>) {
        self.metrics.hub_switches_unknown.set(i64::try_from(unknown.len()).unwrap_or(i64::MAX));
        if !unknown.is_empty() && *self.unknown.borrow() != unknown {
            event::hub_switches_unknown(&self.url().text, &unknown);
        }
        self.unknown.replace(unknown);
    }
}
