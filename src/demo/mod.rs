//! An OJS region in memory, with scripted faults and throw-away certificates: the neighbour in the demo and in the tests.
//!
//! It speaks the protocol as servers in the field do, keeps `args`, `meta` and unknown members as the bytes that they came as, and
//! records everything that arrives at its sockets, so that a test judges what truly left the sidecar. From below upwards:
//! `wire` taps the byte stream, `server` accepts, `service` is the life of a request (recorded, perhaps struck by one of the
//! `faults`, then served), `routes`, `operations` and `stream` know the
//! operations, `store` is the state machine behind them.

mod answer;
mod certs;
mod envelope;
mod faults;
mod job;
mod operations;
mod queue;
mod record;
mod region;
mod routes;
mod server;
mod service;
mod store;
mod stream;
mod tls;
mod wire;

#[cfg(test)]
mod tests;

pub use certs::{Authority, Identity, IdentityFiles};
pub use faults::{Fault, FaultAnswer, Faults, Gate, When};
pub use job::{JobState, Jobs, StoredJob};
pub use record::{Record, Recorded, RecordedConnection};
pub use region::{DemoRegion, RegionOptions};
pub use store::Definition;
pub use tls::RegionTls;
