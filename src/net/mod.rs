//! Sockets: connecting to regions and listening for clients. Knows nothing of jobs.
//!
//! Plane: data. Everything here runs on one worker thread and shares nothing with the others.

pub mod body;
pub mod dial;
pub mod headers;
mod metered;
pub mod pool;
pub mod resolve;
pub mod stream;
pub mod tls;
