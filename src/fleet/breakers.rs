//! The stopped job types of the feed.

use serde::{Deserialize, Serialize};

use crate::policy::StoppedType;

/// The value of the header of a feed where a sidecar wants the stopped types.
pub const WITH_BREAKERS: &str = "breakers";
/// Stopped types that a sidecar keeps to: a hub has no more.
pub(super) const STOPPED_MAX: usize = 256;

/// An event `breakers` of a feed: all types and tenants that are stopped, at the beginning and after each change of them. Shape: JSON; a later
/// hub may add members.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedBreakers {
    /// The oldest last.
    pub stopped: Vec<StoppedType>,
}
