//! Calls of workers: fetching jobs, acknowledging them, heartbeats.
//!
//! | call | use | regions |
//! |---|---|---|
//! | FETCH | [`fetch`] | the local one; others for queues that the operator shares |
//! | ACK, NACK, progress of a leased job | [`settle`] | the one that leased the job, repeated there only |
//! | heartbeat | [`heartbeat`] | each hears of its own jobs |
//!
//! An acknowledgement is never sent to a region that did not lease the job.

pub(crate) mod fetch;
pub(crate) mod heartbeat;
pub(crate) mod settle;
