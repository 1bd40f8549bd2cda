//! Views of regions on the feed of a hub, and the words by which a sidecar asks for further events.

use crate::region::views::{FeedViews, HubViews};

/// The header of a request for a feed that says which further events the sidecar wants.
pub const FEED_HEADER: &str = "ojs-feed";
/// Its value where it wants views.
pub const WITH_VIEWS: &str = "views";
/// The value of a further such header where it wants the regions that were put at the hub. An earlier hub reads the first header only.
pub const WITH_REGIONS: &str = "regions";

/// Takes an event. One that cannot be read is left out, so that the switches of the feed go on: the views become too old, and the sidecar
/// probes by itself.
pub(super) fn take_views(views: &HubViews, data: &str) {
    match serde_json::from_str::<FeedViews>(data) {
        Ok(event) => views.take(&event),
        Err(error) => tracing::debug!(target: "ojs_federation", %error, "an event `views` of the hub cannot be read"),
    }
}

/// The value of a further such header where it wants the pools of workers that were put at the hub.
pub const WITH_POOLS: &str = "pools";

/// The value of a further such header where it takes part in failover drills.
pub const WITH_DRILLS: &str = "drill";

/// An event `pools` of a feed: all pools that were put at the hub, at the beginning and after each change of them. Shape: JSON; a later hub
/// may add members.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct FeedPools<P> {
    /// By their names.
    pub pools: Vec<P>,
}
