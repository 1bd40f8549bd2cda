//! Views of regions that one hub has for many sidecars: a sidecar uses them in place of its own probes and load polls.
//!
//! - [`FeedViews`] is the event of the feed.
//! - `freshness` says from when on a sidecar probes a region by itself: no clock, no sockets.
//! - `figures` says which load figures the hub leaves to the sidecar, as `freshness` does for probes.
//! - [`Trust`] says of which regions they are used, and whether they are all that is known.
//! - [`HubViews`] puts views in force at a sidecar, and is asked by its prober and its load poller.

mod event;
mod figures;
mod followed;
mod freshness;
mod trust;

pub use event::{FeedFigure, FeedTrouble, FeedView, FeedViews};
pub use followed::HubViews;
pub use trust::Trust;

#[cfg(test)]
mod tests;
