//! Sockets: connecting to regions and listening for clients. Knows nothing of jobs.
//!
//! Towards regions: [`tls`] (who they must be), [`dial`], [`pool`]. Towards clients: [`bind`], strict [`framing`],
//! [`accept_loop`], [`Drain`]. Plane: data, except [`bind`], [`resolve`] and [`Drain::idle`]; everything else runs on one worker
//! thread and shares nothing with the others.

mod arriving;
mod at_once;
pub mod body;
mod bound;
pub mod descriptors;
pub mod dial;
mod direct;
mod drain;
mod evidence;
pub mod framing;
mod guard;
mod handover;
pub mod headers;
pub mod lane;
mod listen;
pub mod memory;
mod metered;
pub mod origin;
mod outbox;
pub mod own;
mod permit;
pub mod pool;
pub mod quiet;
mod refused;
pub mod resolve;
mod serve;
mod socket;
mod starts;
pub mod stream;
pub mod tls;
pub mod usual;
mod waiting;

pub use arriving::Arriving;
pub use bound::{Acceptor, BindError, BoundListener, LocalAddress};
pub use drain::{Activity, Drain, DrainEnd, OpenRequest};
pub use framing::Violation;
pub use guard::{ClientSide, Room};
pub use handover::HandedOver;
pub use listen::{bind, taken_or_bound};
pub use outbox::keep_sending;
pub use permit::ConnectionPermits;
pub use refused::Refused;
pub use serve::{ConnectionInfo, REST_AFTER, ServeOptions, accept_loop};
