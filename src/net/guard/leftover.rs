//! The rest of a connection that hyper is done with.

use std::io;

use tokio::time::Instant;

use crate::net::refused::Refused;
use crate::net::socket::Socket;

/// The rest of a connection that hyper is done with.
#[derive(Debug)]
pub(in crate::net) struct Leftover {
    pub(in crate::net) socket: Socket,
    pub(in crate::net) end: Option<End>,
    /// Whether hyper saw the end while it awaited a request: if not, it closed the connection for its own reasons.
    pub(in crate::net) told: bool,
}

/// Why no further byte is read.
#[derive(Debug)]
pub(in crate::net) enum End {
    /// The client sent something that is refused, or took too long.
    Refused(Refused),
    /// The client closed its side.
    Closed,
    /// No request came for long enough.
    Idle,
    /// No request came for a while, from then on: hyper and its buffers are not needed until one does.
    Resting(Instant),
    /// The socket failed.
    Failed(io::ErrorKind),
}
