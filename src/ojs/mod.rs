//! The wire of Open Job Spec: bytes in and bytes out, nothing else.
//!
//! What a body says about routing ([`Envelope`], [`jobs_within`]) and what is added to it ([`stamp`]). Pure: no sockets, no
//! clock, no randomness, no logging. Bodies are read in place and never re-serialised.
//!
//! Plane: data.

mod attributes;
mod create;
mod envelope;
mod fault;
mod key;
mod scan;
mod stamp;
mod uuid7;

pub use attributes::Attributes;
pub use create::{Found, RoutingKey, RoutingKind, jobs_within};
pub use envelope::Envelope;
pub use fault::{Fault, FaultKind};
pub use scan::{ScanError, scan};
pub use stamp::{Additions, Segments, segments_len, stamp};
pub use uuid7::{Uuid7Text, federation_id};
