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

use super::access::Caller;
use super::record::State;
use super::response::Body;
use super::state::Hub;
use crate::switch::{FeedSwitches, Version};

/// Between two signs of life. A sidecar takes three missed ones for the loss of the hub.
pub(super) const BEAT: Duration = Duration::from_secs(3);

/// One open feed.
struct Feed {
    hub: Rc<Hub>,
    /// The sidecar.
    name: String,
    caller: Caller,
    /// Whether the inventory has noted this feed: it must know the sidecar, whose status may come later.
    is_noted: bool,
    states: watch::Receiver<Arc<State>>,
    ending: watch::Receiver<bool>,
    /// The version that the sidecar has.
    known: Option<Version>,
}

/// The events for a sidecar that has this version.
pub(super) fn body(hub: Rc<Hub>, caller: &Caller, name: String, known: Option<Version>) -> Body {
    let (states, ending, caller) = (hub.follow(), hub.follow_ending(), caller.clone());
    let feed = Feed { hub, name, caller, is_noted: false, states, ending, known };
    let events = futures_util::stream::unfold((feed, true), |(mut feed, is_first)| async move {
        let event = feed.next(is_first).await?;
        Some((Ok::<_, Infallible>(Frame::data(event)), (feed, false)))
    });
    Box::pin(StreamBody::new(events))
}

impl Feed {
    /// The next event; none where this hub ends or may lack changes of other hubs, so that the sidecar asks another one.
    async fn next(&mut self, is_first: bool) -> Option<Bytes> {
        if !is_first {
            // The senders live as long as the hub, which this holds.
            tokio::select! {
                _ = self.states.changed() => {}
                _ = self.ending.changed() => {}
                () = tokio::time::sleep(BEAT) => {}
            }
        }
        if *self.ending.borrow() || self.hub.record.is_behind() {
            return None;
        }
        if !self.is_noted {
            self.is_noted = self.hub.fleet.borrow_mut().open_feed(&self.name, &self.caller);
        }
        let current = Arc::clone(&self.states.borrow_and_update());
        if self.known.as_ref() == Some(&current.version) {
            return Some(Bytes::from_static(b": live\n\n"));
        }
        self.known = Some(current.version.clone());
        Some(event(&current, self.hub.clock.unix_ms()))
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.is_noted {
            self.hub.fleet.borrow_mut().close_feed(&self.name);
        }
    }
}

fn event(current: &State, unix_ms: u64) -> Bytes {
    let data = FeedSwitches::of(current.version.clone(), &current.switches, unix_ms);
    Bytes::from(format!("event: switches\nid: {}\ndata: {}\n\n", current.version, serde_json::json!(data)))
}
