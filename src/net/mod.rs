//! Sockets: connecting to regions and listening for clients. Knows nothing of jobs.
//!
//! - Towards regions: [`resolve`] finds addresses, [`dial`] connects, [`tls`] verifies the region and shows our certificate, [`pool`] keeps
//!   connections; the count of written bytes is the evidence that a request was not sent.
//! - Towards clients: [`bind`] and [`HandedOver`] (sockets that another process bound for us) give listeners, [`accept_loop`] serves them,
//!   [`framing`] and the guard refuse what two readers could read differently, [`ConnectionPermits`] bounds connections and memory.
//! - At the end of the process: [`Drain`] waits for open requests.
//!
//! Plane: data. Each worker thread has connections, pools and buffers of its own; bounds on memory and connections count for the process.
//! [`bind`], [`resolve`] and [`Drain::idle`] belong to the control thread.

mod at_once;
pub mod body;
pub mod body_scheduler;
mod bound;
mod counting_stream;
pub mod descriptors;
pub mod dial;
mod drain;
mod evidence;
pub mod framing;
mod guard;
mod handover;
pub mod headers;
pub mod host;
mod incoming_body;
mod listen;
mod local_executor;
pub mod memory;
pub mod origin;
pub mod own;
mod permit;
pub mod pool;
mod raw_tcp;
mod refused;
mod request_scheduler;
pub mod resolve;
mod send_queue;
mod serve;
mod socket;
pub mod stream;
pub mod tls;
pub mod usual;
mod waiting;
pub mod wake_filter;

pub use bound::{Acceptor, BindError, BoundListener, LocalAddress};
pub use drain::{Activity, Drain, DrainEnd, OpenRequest};
pub use framing::Violation;
pub use guard::{ClientSide, Room};
pub use handover::HandedOver;
pub use incoming_body::IncomingBody;
pub use listen::{bind, bind_control, taken_or_bound};
pub use local_executor::LocalExecutor;
pub use permit::ConnectionPermits;
pub use refused::Refused;
pub use send_queue::keep_sending;
pub use serve::{ConnectionInfo, REST_AFTER, ServeOptions, accept_loop};
