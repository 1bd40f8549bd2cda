//! Switches: an operator's orders with a time to live, as pure data.
//!
//! A [`Switch`] drains, evacuates or isolates a region, forbids failover into it, bounds the calls to it, stops the leases of workers, or pauses a
//! queue, a job type or a tenant. An [`Order`] is a request to set or to end one; a [`ThrottleRequest`] has one in the words of an orchestrator. [`Switches`] are those in force; [`stranded`] finds the jobs that would have no region left. [`FeedSwitches`] carry the
//! switches of a hub to its sidecars, and a [`Isolation`] goes from one hub to another. [`SentDrill`] is a failover drill, and [`DrillCounts`] come back. Nothing here reads a clock: callers bring the time.

mod drill;
mod feed;
mod isolation;
mod order;
mod region_set;
mod set;
mod throttle_request;

pub use drill::{
    DRILL_LASTS_MAX, DrillCounts, DrillEnd, DrillGroup, DrillReport, DrillStays, FeedDrill, SentDrill, Unwell,
};
pub use feed::{FeedSwitch, FeedSwitches, HubState, TooMany, Version};
pub use isolation::Isolation;
pub use order::{Grounds, LASTS_MAX, Order};
pub use region_set::{RegionSet, RegionSets, SetRegion, stranded};
pub use set::{SWITCHES_MAX, Switch, Switches};
pub use throttle_request::ThrottleRequest;
