//! The admin listener: metrics, liveness and readiness, apart from the clients' listener and thread.
//!
//! Plane: control. Nothing here can wait for a region or a request, so a probe is answered while every region is down.

mod answer;
mod caller;
mod readiness;
mod serve;
#[cfg(test)]
mod tests;

pub use answer::{AdminState, RegionState};
pub use readiness::{Readiness, ReadinessGuard};
pub use serve::{Listener, serve};
