//! The region over real sockets, as its clients see it.

mod client;
mod connection;
mod fault;
mod operation;
