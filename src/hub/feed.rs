//! The feed: server-sent events with the switches in force, from the present state on, for one sidecar.
//!
//! Shape: an event `switches` with the version as its id and [`FeedSwitches`] as its data, at the beginning, unless the sidecar has that
//! version already, and after each change; a comment in between, so that the sidecar knows that the hub is there.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::watch;

use super::response::Body;
use super::state::{Current, Hub};
use crate::switch::{FeedSwitches, Version};

/// Between two signs of life. A sidecar takes three missed ones for the loss of the hub.
pub(super) const BEAT: Duration = Duration::from_secs(3);

/// One open feed.
struct Feed {
    hub: Rc<Hub>,
    /// The sidecar.
    name: String,
    states: watch::Receiver<Arc<Current>>,
    /// The version that the sidecar has.
    known: Option<Version>,
}

/// The events for a sidecar that has this version.
pub(super) fn body(hub: Rc<Hub>, name: String, known: Option<Version>) -> Body {
    hub.fleet.borrow_mut().feed(&name, true);
    let states = hub.follow();
    let feed = Feed { hub, name, states, known };
    let events = futures_util::stream::unfold((feed, true), |(mut feed, is_first)| async move {
        let event = feed.next(is_first).await;
        Some((Ok::<_, Infallible>(Frame::data(event)), (feed, false)))
    });
    Box::pin(StreamBody::new(events))
}

impl Feed {
    async fn next(&mut self, is_first: bool) -> Bytes {
        if !is_first {
            // The sender lives as long as the hub, which this holds.
            let _ = tokio::time::timeout(BEAT, self.states.changed()).await;
        }
        let current = Arc::clone(&self.states.borrow_and_update());
        if self.known.as_ref() == Some(&current.version) {
            return Bytes::from_static(b": live\n\n");
        }
        self.known = Some(current.version.clone());
        event(&current, self.hub.clock.unix_ms())
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.hub.fleet.borrow_mut().feed(&self.name, false);
    }
}

fn event(current: &Current, unix_ms: u64) -> Bytes {
    let data = FeedSwitches::of(current.version.clone(), &current.switches, unix_ms);
    // These types have no shape that JSON lacks.
    let data = serde_json::to_string(&data).unwrap_or_default();
    debug_assert!(!data.is_empty());
    Bytes::from(format!("event: switches\nid: {}\ndata: {data}\n\n", current.version))
}
