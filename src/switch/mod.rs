//! Switches: an operator's orders with a time to live, as pure data.
//!
//! A [`Switch`] drains or evacuates a region, forbids failover into it, or stops the leases of workers. An [`Order`] is a request to set or
//! to end one. [`Switches`] are those in force; [`stranded`] finds the jobs that would have no region left. Nothing here reads a clock:
//! callers bring the time.

mod order;
mod safety;
mod set;

pub use order::{LASTS_MAX, Order};
pub use safety::stranded;
pub use set::{Switch, Switches};
