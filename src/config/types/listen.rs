//! Where clients and operators reach us.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Listening addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct Listen {
    /// Where clients and workers reach us; at least one.
    pub clients: Vec<ClientListen>,
    /// Host names, without port, that a `Host` header may carry beside `localhost` and loopback addresses.
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may call us beside our own, in lower case, such as `https://ui.example`.
    pub allowed_origins: Vec<String>,
    /// Headers beside `Authorization` that hold a client's credentials, in lower case: they travel to the local region, and to others
    /// only where `forward_authorization` says so.
    pub credential_headers: Vec<String>,
    /// Metrics, liveness and readiness.
    pub admin: SocketAddr,
    /// Permission bits of a Unix socket, such as `0o660`.
    pub unix_mode: u32,
}

/// One listener for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientListen {
    /// A loopback address.
    Tcp {
        /// The address; port 0 lets the system choose.
        address: SocketAddr,
        /// Skipped with a warning where the machine lacks the address family: true only for the built-in defaults.
        optional: bool,
    },
    /// A Unix socket, `unix:/path` in the configuration.
    Unix {
        /// The path of the socket.
        path: PathBuf,
    },
}
