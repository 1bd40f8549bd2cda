//! Calls that are passed through: bytes go to a region and back as they come, and are not kept.
//!
//! | call | use |
//! |---|---|
//! | everything that needs no interpretation | [`local`] |
//! | a WebSocket | [`tunnel`]; where queues have shards [`socket`] |
//! | the events of a queue with shards | [`queue_events`] |
//! | a body that some server could take for jobs | [`vet`], before it is passed on |
//!
//! Nothing here is tried twice. Back-pressure is that of the slower side.

pub(crate) mod local;
pub(crate) mod queue_events;
pub(crate) mod socket;
pub(crate) mod tunnel;
pub(crate) mod vet;
