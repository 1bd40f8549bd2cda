//! An OJS region in memory, with scripted faults and throw-away certificates: the neighbour in the demo and in the tests.
//!
//! It speaks the protocol as servers in the field do, keeps `args`, `meta` and unknown members as the bytes that they came as, and
//! records everything that arrives at its sockets, so that a test judges what truly left the sidecar. From below upwards:
//! `wire` taps the byte stream, `server` accepts, `service` is the life of a request (recorded, perhaps struck by one of the
//! `faults`, then served), `routes`, `operations`, `socket`, `sse` and `stream` know
//! the operations, `store` is the state machine behind them.
//!
//! It is a server of levels 0 to 4, with lists and administration. Where the documents and the servers in the field differ, its
//! [`Dialect`] decides. [`chaos`] judges a sidecar over such regions; nothing here is of the sidecar's own code.

mod act;
mod answer;
mod at_once;
mod bounds;
mod caller;
mod certs;
pub mod chaos;
mod context;
mod cron;
mod dialect;
mod envelope;
mod events;
mod failure;
mod faults;
mod filter;
mod flow;
mod job;
mod kept;
mod limits;
mod members;
mod moment;
mod notes;
mod operations;
mod page;
mod problem;
mod query;
mod queue;
mod record;
mod refused;
mod region;
mod retry;
mod routes;
mod rules;
mod schedule;
mod scratch;
mod seen;
mod server;
mod service;
mod socket;
mod sse;
mod state;
mod store;
mod stream;
mod tenant;
mod text;
mod tls;
mod unique;
mod view;
mod wire;
mod workflow;

#[cfg(test)]
mod tests;

pub use certs::{Authority, Identity, IdentityFiles};
pub use dialect::{Dialect, DuplicateIds};
pub use faults::{Fault, FaultAnswer, Faults, Gate, When};
pub use job::{Jobs, StoredJob};
pub use record::{Drained, Record, Recorded, RecordedConnection};
pub use region::{DemoRegion, RegionOptions};
pub use scratch::scratch_in;
pub use state::JobState;
pub use store::{Definition, Directive};
pub use tls::RegionTls;
