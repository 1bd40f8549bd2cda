//! The shards of a queue: the queues of a region that hold its jobs by tenant and priority, and their names.
//!
//! Every renaming goes through this folder: a job's queue on its way to a region ([`Place`]), the queues of calls ([`ShardedQueue::names`]),
//! and all that regions say, on its way back ([`Renamer`]). Clients and all other parts of the program know the queue's own name only.
//!
//! Spec: fair-scheduling 9.

mod all;
mod bounds;
mod call;
mod events;
mod place;
mod rename;
mod socket;
mod spots;
#[cfg(test)]
mod tests;

pub use all::Shards;
pub use bounds::{BANDS_MAX, SHARDS_MAX, SUFFIX_BYTES_MAX};
pub use call::{Naming, query_of_all};
pub use events::{EVENT_BYTES_MAX, TooLong, WholeEvents};
pub use place::{Place, ShardedQueue};
pub use rename::Renamer;
pub(in crate::ojs) use spots::Spot;
pub use spots::Spots;
