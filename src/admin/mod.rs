//! The admin listener: metrics, liveness, readiness, state and configuration, apart from the clients' listener and thread.
//!
//! Plane: control. Nothing here can wait for a region or a request, so a probe is answered while every region is down.

mod answer;
mod caller;
mod compress;
mod config;
mod log_level;
mod readiness;
mod response;
mod serve;
mod settle;
mod spool;
mod switches;
#[cfg(test)]
mod tests;

pub use answer::{AdminState, RegionState};
pub use log_level::LogLevel;
pub use readiness::{Readiness, ReadinessGuard};
pub use serve::{Listener, serve};
pub use settle::Settling;
pub use spool::Spooling;
pub use switches::Switching;
